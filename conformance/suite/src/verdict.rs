//! The outcome of a run of tests.

use std::process::{ExitCode, Termination};

/// The return value of a test program's `main`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "return it from `main`: otherwise a failure is not seen"]
pub enum Verdict {
    /// No case failed.
    Passed,
    /// A case failed, or no case could be run although it was required.
    Failed,
}

impl Verdict {
    /// Returns `Failed` if either failed, for a backend that is tested in two forms.
    pub fn and(self, other: Verdict) -> Verdict {
        if self == Verdict::Failed { self } else { other }
    }
}

impl Termination for Verdict {
    fn report(self) -> ExitCode {
        match self {
            Verdict::Passed => ExitCode::SUCCESS,
            Verdict::Failed => ExitCode::FAILURE,
        }
    }
}
