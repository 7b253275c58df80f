//! Reads the output of cargo and of the judges' programs.

use std::path::PathBuf;

/// What a judge is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Built {
    Tests,
    /// A program without tests.
    Program,
}

/// Returns the program that cargo says it has built. Beside tests of a program, the program itself is built, in any order.
pub(super) fn executable(messages: &str, built: Built) -> Option<PathBuf> {
    let is_it = |message: &&str| {
        let profile = message.split_once("\"profile\":{").and_then(|(_, rest)| rest.split_once('}'));
        let has_tests = profile.is_some_and(|(profile, _)| profile.contains("\"test\":true"));
        has_tests == (built == Built::Tests)
    };
    let path = |message: &str| Some(message.split_once("\"executable\":\"")?.1.split_once('"')?.0.into());
    messages.lines().filter(is_it).filter_map(path).next_back()
}

pub(super) fn without_json(output: &str) -> String {
    output.lines().filter(|line| !line.starts_with('{')).collect::<Vec<_>>().join("\n")
}

/// Returns the tests that failed. Each has a heading of its own in the output.
pub(super) fn failed_tests(output: &str) -> Vec<&str> {
    let headings = output.lines().filter_map(|line| line.strip_prefix("---- ")?.strip_suffix(" ----"));
    headings.map(|heading| heading.strip_suffix(" stdout").unwrap_or(heading)).collect()
}

/// Returns how many of all tests of the program passed.
pub(super) fn passed_tests(output: &str) -> u64 {
    let results = output.lines().filter_map(|line| line.strip_prefix("test result: ok. "));
    results.filter_map(|rest| rest.split(' ').next()?.parse::<u64>().ok()).sum()
}

/// Returns the first violation that the simulation shows, or its first panic.
pub(super) fn violation(output: &str) -> Option<String> {
    let mut lines = output.lines();
    while let Some(line) = lines.next() {
        if let Some(seed) = line.strip_prefix("seed ") {
            let told = lines.next().unwrap_or_default().trim();
            return Some(format!("{told} (seed {seed})"));
        }
        if line.contains("panicked at ") {
            return Some(format!("a panic: {}", lines.next().unwrap_or_default()));
        }
    }
    None
}

/// Returns the last lines of a long output.
pub(super) fn tail(output: &str) -> String {
    let lines: Vec<&str> = output.lines().collect();
    lines[lines.len().saturating_sub(30)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_tests_are_named() {
        let libtest = "failures:\n\n---- a_b stdout ----\n\nthread panicked\n\nfailures:\n    a_b\n";
        let mimic =
            "failures:\n\n---- t::a ----\nit hangs\n\n---- t::b ----\nwhy\n\nfailures:\n    t::a\n    t::b\n";
        assert_eq!(failed_tests(libtest), ["a_b"]);
        assert_eq!(failed_tests(mimic), ["t::a", "t::b"]);
    }

    #[test]
    fn what_passed_is_counted_over_all_parts_of_a_run() {
        let part = |n| format!("test result: ok. {n} passed; 0 failed; 0 ignored\n");
        assert_eq!(passed_tests(&[part(2), part(0), part(3)].concat()), 5);
        assert_eq!(passed_tests("test result: FAILED. 1 passed; 1 failed"), 0);
    }

    #[test]
    fn a_violation_has_its_seed() {
        let output =
            "seed 7, lease family\n  I3  exclusion in time: two hold\n    1.0 ms\n\nseed 9, lease family\n";
        assert_eq!(violation(output).unwrap(), "I3  exclusion in time: two hold (seed 7, lease family)");
        assert_eq!(violation("0 histories\n"), None);
    }

    #[test]
    fn the_tests_of_a_program_are_not_the_program() {
        let message = |path: &str, tests: bool| {
            format!(
                "{{\"target\":{{\"test\":true}},\"profile\":{{\"test\":{tests}}},\"executable\":\"{path}\",\"fresh\":true}}\n"
            )
        };
        for messages in [
            message("/run", true) + &message("/lock", false),
            message("/lock", false) + &message("/run", true),
        ] {
            assert_eq!(executable(&messages, Built::Tests), Some("/run".into()));
            assert_eq!(executable(&messages, Built::Program), Some("/lock".into()));
        }
        assert_eq!(executable("{\"profile\":{\"test\":true},\"executable\":null}", Built::Tests), None);
    }
}
