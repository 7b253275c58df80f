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
use super::judged::{ClaimReport, Judgement, Played};
use super::report::{Row, ServerReport};
use crate::backend::Backend;

/// Judges every claim by what a run has measured.
pub(super) fn judge(servers: &[ServerReport], rows: &[Row], played: &[Played]) -> Vec<ClaimReport> {
    let evidence = Evidence { servers, rows, played };
    CLAIMS.iter().map(|claim| claim.report(&evidence)).collect()
}

/// Returns whether anything is tried on this kind of server.
pub(super) fn are_tried_on(backend: Backend) -> bool {
    !list::trials(backend).is_empty()
}

impl Claim {
    fn report(&self, evidence: &Evidence<'_>) -> ClaimReport {
        ClaimReport {
            id: self.id.to_owned(),
            text: self.text.to_owned(),
            scheme: self.scheme.to_owned(),
            naive: Judgement::of(self.naive(evidence)),
            ours: Judgement::of(self.ours(evidence)),
        }
    }

    fn naive(&self, evidence: &Evidence<'_>) -> Finding {
        match self.naive {
            Naive::Tried(scheme) => finding((self.judge)(evidence, Of::Scheme(scheme, self.backend))),
            Naive::NotMeasurable(why) => Finding::without_evidence(Verdict::NotMeasurable(why.to_owned())),
            Naive::NotMeasured(why) => Finding::without_evidence(Verdict::NotMeasured(why.to_owned())),
        }
    }

    fn ours(&self, evidence: &Evidence<'_>) -> Finding {
        finding((self.judge)(evidence, Of::Ours(self.backend)))
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

    const DOCUMENT: &str = include_str!("../../../../docs/claims.md");

    #[test]
    fn every_claim_is_there_once_and_in_its_order() {
        let ids: Vec<String> = CLAIMS.iter().map(|claim| claim.id.to_owned()).collect();
        let expected: Vec<String> = (1..=27).map(|n| format!("T{n}")).collect();
        assert_eq!(ids, expected);
    }

    #[test]
    fn the_document_has_the_same_claims_in_the_same_words() {
        let is_claim = |line: &&str| line.starts_with("| T") && line.matches(" | ").count() == 2;
        let rows = DOCUMENT.lines().filter(is_claim);
        let rows: Vec<String> = rows.map(|row| row.replace('`', "")).collect();
        let expected: Vec<String> = CLAIMS
            .iter()
            .map(|claim| format!("| {} | {} | {} |", claim.id, claim.scheme, claim.text))
            .collect();
        assert_eq!(rows, expected);
    }

    #[test]
    fn without_any_data_no_claim_has_a_verdict() {
        for claim in judge(&[], &[], &[]) {
            for judgement in [&claim.naive, &claim.ours] {
                let is_open = ["not-measured", "not-measurable"].contains(&judgement.verdict.as_str());
                assert!(is_open && !judgement.because.is_empty(), "{}: {judgement:?}", claim.id);
            }
        }
    }
}
