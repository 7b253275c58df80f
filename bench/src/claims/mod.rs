//! The claims of `docs/claims.md`, their trials, and the verdicts on them.
//!
//! [`list`] has the claims. [`play`] tries what they need on a server. A verdict is a function of [`Evidence`] alone,
//! which is what the report has: figures, and what became of cases and scenes.

mod evidence;
mod keeping;
mod list;
pub(crate) mod play;
#[cfg(test)]
mod sample;
mod several;
mod speed;
mod trial;
mod verdict;

use self::evidence::Evidence;
pub(crate) use self::evidence::Of;
use self::list::{CLAIMS, Claim, Naive};
use self::verdict::Verdict;
use crate::backend::Backend;
use crate::report::{self, Judgement, Report};

/// Judges every claim by what a run has measured.
pub(crate) fn judge(report: &Report) -> Vec<report::Claim> {
    let evidence = Evidence(report);
    CLAIMS.iter().map(|claim| claim.report(&evidence)).collect()
}

/// Returns whether anything is tried on this kind of server.
pub(crate) fn are_tried_on(backend: Backend) -> bool {
    !list::trials(backend).is_empty()
}

impl Claim {
    fn report(&self, evidence: &Evidence<'_>) -> report::Claim {
        let [scheme, text] = self.words();
        let (naive, ours) = (self.naive(evidence), self.ours(evidence));
        report::Claim { id: self.id.to_owned(), text, scheme, naive, ours }
    }

    fn naive(&self, evidence: &Evidence<'_>) -> Judgement {
        match self.about.0 {
            Naive::Tried(scheme) => self.judgement(evidence, Of::Scheme(scheme, self.about.1)),
            Naive::NotMeasurable(why) => Judgement::new(Verdict::NotMeasurable, why),
            Naive::NotMeasured(why) => Judgement::new(Verdict::NotMeasured, why),
        }
    }

    fn ours(&self, evidence: &Evidence<'_>) -> Judgement {
        self.judgement(evidence, Of::Ours(self.about.1))
    }

    fn judgement(&self, evidence: &Evidence<'_>, of: Of) -> Judgement {
        (self.judge)(evidence, of).unwrap_or_else(|why| Judgement::new(Verdict::NotMeasured, why))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Machine;

    #[test]
    fn without_any_data_no_claim_has_a_verdict() {
        let report = Report::begin(Vec::new(), true, Machine::this());
        for claim in judge(&report) {
            for judgement in [&claim.naive, &claim.ours] {
                let is_open = ["not-measured", "not-measurable"].contains(&judgement.verdict.as_str());
                assert!(is_open && !judgement.because.is_empty(), "{}: {judgement:?}", claim.id);
            }
        }
    }
}
