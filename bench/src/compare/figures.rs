//! Writes figures for people.

pub(super) use crate::compare::lookup::{extra, figure, of_subject, ours};

/// Writes a time with three digits: `84.0 µs`, `1.30 ms`.
pub(super) fn micros(micros: f64) -> String {
    match micros {
        micros if micros < 1e3 => format!("{} µs", three_digits(micros)),
        micros if micros < 1e6 => format!("{} ms", three_digits(micros / 1e3)),
        micros => format!("{} s", three_digits(micros / 1e6)),
    }
}

/// Writes a time in milliseconds, which may be negative.
pub(super) fn millis(millis: f64) -> String {
    let sign = if millis < 0.0 { "−" } else { "" };
    format!("{sign}{}", micros(millis.abs() * 1e3))
}

/// Writes a number as people read it: `74,012`, `84.0`, `0.953`.
pub(super) fn number(number: f64) -> String {
    if number.abs() < 1e3 {
        return three_digits(number);
    }
    let digits = format!("{:.0}", number.abs());
    let mut text = if number < 0.0 { "−".to_owned() } else { String::new() };
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn three_digits(number: f64) -> String {
    match number.abs() {
        size if size >= 100.0 => format!("{number:.0}"),
        size if size >= 10.0 => format!("{number:.1}"),
        size if size >= 1.0 => format!("{number:.2}"),
        0.0 => "0".to_owned(),
        size if size >= 0.001 => format!("{number:.3}"),
        _ => format!("{number:.1e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_written_for_people() {
        assert_eq!([84.0, 1_300.0, 2_100_000.0].map(micros), ["84.0 µs", "1.30 ms", "2.10 s"]);
        assert_eq!([-1.5, 0.0, 250.0].map(millis), ["−1.50 ms", "0 µs", "250 ms"]);
        assert_eq!(
            [74_012.4, 999.0, 1_000.0, 1_234_567.0, 0.9534, 0.0].map(number),
            ["74,012", "999", "1,000", "1,234,567", "0.953", "0"]
        );
    }
}
