//! Looks figures up in a report, and writes them for people.

use crate::compare::report::{Report, Row, ServerReport};
use crate::compare::workload::Case;
use crate::subjects::Kind;

/// Returns the row of the library at a case on a server. The error says why there is none.
pub(super) fn ours<'a>(report: &'a Report, server: &ServerReport, case: Case) -> Result<&'a Row, String> {
    of_subject(report, server, case, Kind::Ours.as_str())
}

/// Returns the row of a subject. The error says why there is none.
pub(super) fn of_subject<'a>(
    report: &'a Report,
    server: &ServerReport,
    case: Case,
    subject: &str,
) -> Result<&'a Row, String> {
    let (workload, parameters) = (case.workload().as_str(), case.parameters());
    let is_it = |row: &&Row| {
        row.server == server.name
            && row.workload == workload
            && row.parameters == parameters
            && row.subject == subject
    };
    report.rows.iter().find(is_it).ok_or_else(|| why_not(report, server, case))
}

/// Returns why a case has no figures on a server.
fn why_not(report: &Report, server: &ServerReport, case: Case) -> String {
    if let Some(why) = &server.not_run {
        return why.clone();
    }
    let text = case.to_string();
    let not = report.not_run.iter().find(|not| not.server == server.name && not.workload == text);
    not.map_or_else(|| "this run has no figures of it".to_owned(), |not| not.why.clone())
}

/// Returns a figure of a row, or why there is none.
pub(super) fn figure(
    row: Result<&Row, String>,
    figure: impl FnOnce(&Row) -> Option<f64>,
) -> Result<f64, String> {
    figure(row?).ok_or_else(|| "no cycle of it ended".to_owned())
}

/// Returns one of the further figures of a row, or why there is none.
pub(super) fn extra(row: Result<&Row, String>, name: &str) -> Result<f64, String> {
    row?.extra.get(name).copied().ok_or_else(|| "this run could not count it".to_owned())
}

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
    use crate::compare::page::sample;

    #[test]
    fn figures_are_written_for_people() {
        assert_eq!([84.0, 1_300.0, 2_100_000.0].map(micros), ["84.0 µs", "1.30 ms", "2.10 s"]);
        assert_eq!([-1.5, 0.0, 250.0].map(millis), ["−1.50 ms", "0 µs", "250 ms"]);
        assert_eq!(
            [74_012.4, 999.0, 1_000.0, 1_234_567.0, 0.9534, 0.0].map(number),
            ["74,012", "999", "1,000", "1,234,567", "0.953", "0"]
        );
    }

    #[test]
    fn a_figure_that_is_missing_has_its_reason() {
        let report = sample();
        let server = |name: &str| report.servers.iter().find(|server| server.name == name).unwrap();
        let row = ours(&report, server("redis"), Case::OwnNames { tasks: 1 });
        assert!(figure(row, |row| row.p50_us).is_ok());
        let held = ours(&report, server("redis"), Case::Held { locks: 100 });
        assert_eq!(held.unwrap_err(), "--quick leaves it out");
        let absent = ours(&report, server("zookeeper"), Case::HandOver);
        assert_eq!(absent.unwrap_err(), "there is no ZooKeeper on this machine");
        let no_latency = ours(&report, server("redis"), Case::Held { locks: 1000 });
        assert!(figure(no_latency, |row| row.p50_us).is_err());
        assert!(extra(no_row(), "jain").is_err());
    }

    fn no_row() -> Result<&'static Row, String> {
        Err("not measured".to_owned())
    }
}
