//! The verdict on a claim.

/// The verdict on a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Holds,
    DoesNotHold,
    /// It holds within this limit.
    HoldsWithin(String),
    /// No measurement can decide it, for this reason.
    NotMeasurable(String),
    /// This run has no data for it, for this reason.
    NotMeasured(String),
}

impl Verdict {
    pub(super) fn as_str(&self) -> &'static str {
        match self {
            Verdict::Holds => "holds",
            Verdict::DoesNotHold => "does-not-hold",
            Verdict::HoldsWithin(_) => "holds-within-a-limit",
            Verdict::NotMeasurable(_) => "not-measurable",
            Verdict::NotMeasured(_) => "not-measured",
        }
    }

    /// Returns the verdict on a claim that is true or not.
    pub(super) fn of(holds: bool) -> Verdict {
        if holds { Verdict::Holds } else { Verdict::DoesNotHold }
    }
}

/// A verdict with its evidence: the number, or the case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) verdict: Verdict,
    pub(super) evidence: String,
}

/// What a claim's function returns: a finding, or why this run has no data for it.
pub(super) type Judged = Result<Finding, String>;

impl Finding {
    pub(super) fn new(verdict: Verdict, evidence: impl Into<String>) -> Finding {
        Finding { verdict, evidence: evidence.into() }
    }

    pub(super) fn without_evidence(verdict: Verdict) -> Finding {
        Finding::new(verdict, "")
    }

    /// Returns the verdict's limit or reason, and the evidence.
    pub(super) fn because(&self) -> String {
        match &self.verdict {
            Verdict::Holds | Verdict::DoesNotHold => self.evidence.clone(),
            Verdict::HoldsWithin(limit) => format!("{limit}; {}", self.evidence),
            Verdict::NotMeasurable(why) | Verdict::NotMeasured(why) => why.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_said_before_the_evidence() {
        let within = Finding::new(Verdict::HoldsWithin("with one task".to_owned()), "1.02 times");
        assert_eq!(within.because(), "with one task; 1.02 times");
        let open = Finding::without_evidence(Verdict::NotMeasured("no server".to_owned()));
        assert_eq!((open.verdict.as_str(), open.because().as_str()), ("not-measured", "no server"));
    }
}
