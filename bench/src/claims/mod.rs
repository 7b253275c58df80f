//! The claims of `docs/claims.md`: what is tried for each of them, and the verdict on it.
//!
//! [`list`] has the claims. [`play`] tries what they need on a server. A verdict is a function of [`Evidence`] alone,
//! which is what the report has: figures, and what became of cases and scenes.

mod evidence;
mod keeping;
mod list;
pub(crate) mod play;
mod queues;
#[cfg(test)]
mod sample;
mod several;
mod speed;
mod trial;
mod verdict;

use self::evidence::{Evidence, Of};
use self::list::{CLAIMS, Claim, Naive};
use self::verdict::{Finding, Judged, Verdict};
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
        report::Claim {
            id: self.id.to_owned(),
            text,
            scheme,
            naive: Judgement::of(self.naive(evidence)),
            ours: Judgement::of(self.ours(evidence)),
        }
    }

    fn naive(&self, evidence: &Evidence<'_>) -> Finding {
        match self.about.0 {
            Naive::Tried(scheme) => finding((self.judge)(evidence, Of::Scheme(scheme, self.about.1))),
            Naive::NotMeasurable(why) => Finding::without_evidence(Verdict::NotMeasurable(why.to_owned())),
            Naive::NotMeasured(why) => Finding::without_evidence(Verdict::NotMeasured(why.to_owned())),
        }
    }

    fn ours(&self, evidence: &Evidence<'_>) -> Finding {
        finding((self.judge)(evidence, Of::Ours(self.about.1)))
    }
}

fn finding(judged: Judged) -> Finding {
    judged.unwrap_or_else(|why| Finding::without_evidence(Verdict::NotMeasured(why)))
}

impl Judgement {
    fn of(finding: Finding) -> Judgement {
        Judgement { verdict: finding.verdict.as_str().to_owned(), because: finding.because() }
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
