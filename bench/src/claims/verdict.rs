//! The verdict on a claim.

use crate::report::Judgement;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Holds,
    DoesNotHold,
    HoldsWithin(&'static str),
    /// No measurement can decide it.
    NotMeasurable,
    /// This run has no data for it.
    NotMeasured,
}

impl Verdict {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Verdict::Holds => "holds",
            Verdict::DoesNotHold => "does-not-hold",
            Verdict::HoldsWithin(_) => "holds-within-a-limit",
            Verdict::NotMeasurable => "not-measurable",
            Verdict::NotMeasured => "not-measured",
        }
    }

    /// Returns the verdict on a claim that is true or not.
    pub(super) fn of(holds: bool) -> Verdict {
        if holds { Verdict::Holds } else { Verdict::DoesNotHold }
    }

    /// Returns the verdict on a claim of two parts, of which the first one alone is the limit within which it holds.
    pub(super) fn of_both(one: bool, other: bool, limit: &'static str) -> Verdict {
        match (one, other) {
            (true, true) => Verdict::Holds,
            (true, false) => Verdict::HoldsWithin(limit),
            (false, _) => Verdict::DoesNotHold,
        }
    }
}

/// A claim's judgement, or why this run has no data for it.
pub(super) type Judged = Result<Judgement, String>;

impl Judgement {
    /// Adds the evidence to a verdict: the number, or the case; or the reason why there is none.
    pub(super) fn new(verdict: Verdict, evidence: impl Into<String>) -> Judgement {
        let evidence = evidence.into();
        let because = match verdict {
            Verdict::HoldsWithin(limit) => format!("{limit}; {evidence}"),
            _ => evidence,
        };
        Judgement { verdict: verdict.as_str().to_owned(), because }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_said_before_the_evidence() {
        let within = Judgement::new(Verdict::HoldsWithin("with one task"), "1.02 times");
        assert_eq!(
            (&*within.verdict, &*within.because),
            ("holds-within-a-limit", "with one task; 1.02 times")
        );
    }
}
