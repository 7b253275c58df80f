//! What a case is expected to say of a scheme.

use libtest_mimic::Trial;
use lock_conformance::{CaseOutcome, rules};

/// What becomes of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    Passes,
    Fails {
        /// A part of the reason. Another reason is a surprise.
        saying: &'static str,
        /// The claim of the texts that foretells it; none if they don't say it.
        claim: Option<&'static str>,
    },
    /// The scheme does not promise what the case is about.
    NotRun,
}

impl Expected {
    /// Compares with what became of the case.
    ///
    /// # Errors
    ///
    /// What differs.
    pub(crate) fn compare(self, outcome: &CaseOutcome) -> Result<(), String> {
        match (self, outcome) {
            (Expected::Passes, CaseOutcome::Passed) => Ok(()),
            (Expected::Fails { saying, .. }, CaseOutcome::Failed(why)) if why.contains(saying) => Ok(()),
            (Expected::NotRun, CaseOutcome::NotRun(why)) if why.contains(NOT_PROMISED) => Ok(()),
            _ => Err(format!("expected: {self:?}, found: {outcome:?}")),
        }
    }
}

const NOT_PROMISED: &str = "does not promise";

/// Returns the tests of the comparison itself.
pub(crate) fn trials() -> Vec<Trial> {
    let test: fn() = only_what_is_expected_is_well;
    rules::judged("lock-naive", [("expected::only_what_is_expected_is_well", test)])
}

fn only_what_is_expected_is_well() {
    let fails = Expected::Fails { saying: "two at a time", claim: Some("T9") };
    let failed = |why: &str| CaseOutcome::Failed(why.to_owned());
    let not_run = |why: &str| CaseOutcome::NotRun(why.to_owned());
    let outcomes = [
        CaseOutcome::Passed,
        failed("there were two at a time"),
        failed("the server is up"),
        not_run("it is about what this backend does not promise"),
        not_run("this harness cannot do it"),
    ];
    let well = |expected: Expected| outcomes.each_ref().map(|outcome| expected.compare(outcome).is_ok());
    assert_eq!(well(Expected::Passes), [true, false, false, false, false]);
    assert_eq!(well(fails), [false, true, false, false, false]);
    assert_eq!(well(Expected::NotRun), [false, false, false, true, false]);
}
