//! Verdicts on what keeps a lock, and what frees it: crashes, releases, renewals, reentrancy and tokens.

use super::evidence::{Evidence, Of, Shown};
use super::trial::Scene;
use super::verdict::{Finding, Judged, Verdict};

/// After a crash of its holder the lock is free when the lease has ended.
pub(super) const CRASH: &str = "waiting::a_waiter_goes_by_its_holders_ttl";
/// An owner that holds it is granted it again.
pub(super) const SAME_OWNER: &str = "contract::granted_again_with_the_same_token_and_what_is_left";
pub(super) const RELEASE_OF_ANOTHERS: &str = "contract::release_never_touches_anothers";
pub(super) const RENEWED: &str = "lease::a_live_holder_keeps_it";
pub(super) const MAX_HOLD: &str = "lease::max_hold_ends_it_whatever_is_renewed";
pub(super) const TOKENS: &str = "fencing::tokens_rise_over_all_holders";
pub(super) const LATE_WRITE: &str = "fencing::a_late_write_is_refused_by_the_resource";

// What a case says when it fails for the reason that a claim names.
const DEADLOCK: &str = "the lease ends: not within";
const REFUSED_TO_ITSELF: &str = "expected a grant, got Busy";
const RELEASED_ANOTHERS: &str = "left: Released";
const NOT_RENEWED: &str = "it is renewed";
const SAME_TOKEN: &str = "then FencingToken(1)";
const WRITES_OVER: &str = "the predecessor's write comes late";

/// T1, T5.
pub(super) fn a_crash_is_a_deadlock(evidence: &Evidence<'_>, of: Of) -> Judged {
    fails(evidence.case(of, CRASH, DEADLOCK)?)
}

/// T9.
pub(super) fn a_release_deletes_anothers_lock(evidence: &Evidence<'_>, of: Of) -> Judged {
    fails(evidence.case(of, RELEASE_OF_ANOTHERS, RELEASED_ANOTHERS)?)
}

/// T17.
pub(super) fn has_no_token(evidence: &Evidence<'_>, of: Of) -> Judged {
    fails(evidence.case(of, TOKENS, SAME_TOKEN)?)
}

/// T20.
pub(super) fn a_late_write_is_taken(evidence: &Evidence<'_>, of: Of) -> Judged {
    fails(evidence.case(of, LATE_WRITE, WRITES_OVER)?)
}

/// Returns that a claim holds if the case fails for its reason.
fn fails(shown: Shown) -> Judged {
    Ok(Finding::new(Verdict::of(!shown.passed), shown.text))
}

/// T2, T10, T12.
pub(super) fn is_neither_reentrant_nor_blocking(evidence: &Evidence<'_>, of: Of) -> Judged {
    let reentrant = evidence.case(of, SAME_OWNER, REFUSED_TO_ITSELF)?;
    let told = is_told(evidence, of)?;
    let verdict = match (reentrant.passed, told.passed) {
        (false, false) => Verdict::Holds,
        (true, true) => Verdict::DoesNotHold,
        (true, false) => {
            Verdict::HoldsWithin("it is reentrant, but no server tells a waiter of a release".into())
        }
        (false, true) => {
            Verdict::HoldsWithin("waiters are told of a release, but it is not reentrant".into())
        }
    };
    Ok(Finding::new(verdict, format!("{}; {}", reentrant.text, told.text)))
}

/// T8.
pub(super) fn a_death_between_requests_is_a_deadlock(evidence: &Evidence<'_>, of: Of) -> Judged {
    fails(outlives_a_death(evidence, of)?)
}

/// T13.
pub(super) fn is_reentrant_blocking_atomic_and_renewed(evidence: &Evidence<'_>, of: Of) -> Judged {
    let all = [
        evidence.case(of, SAME_OWNER, REFUSED_TO_ITSELF)?,
        is_told(evidence, of)?,
        outlives_a_death(evidence, of)?,
        evidence.case(of, RENEWED, NOT_RENEWED)?,
    ];
    let holds = all.iter().all(|shown| shown.passed);
    let texts = all.iter().filter(|shown| shown.passed == holds).map(|shown| shown.text.as_str());
    Ok(Finding::new(Verdict::of(holds), texts.collect::<Vec<_>>().join("; ")))
}

/// T21.
pub(super) fn a_watchdog_keeps_the_lock_of_a_live_holder_only(evidence: &Evidence<'_>, of: Of) -> Judged {
    let (kept, freed) = (evidence.case(of, RENEWED, NOT_RENEWED)?, evidence.case(of, CRASH, DEADLOCK)?);
    let verdict = Verdict::of(kept.passed && freed.passed);
    Ok(Finding::new(verdict, format!("with shorter leases, {}; {}", kept.text, freed.text)))
}

/// T26. To the other clients, a holder that is cut off is one that has crashed.
pub(super) fn a_holder_that_is_gone_costs_a_ttl(evidence: &Evidence<'_>, of: Of) -> Judged {
    let crash = evidence.case(of, CRASH, DEADLOCK)?;
    Ok(Finding::new(Verdict::of(crash.passed), format!("of a holder that is gone, {}", crash.text)))
}

/// T27.
pub(super) fn extending_has_no_limit(evidence: &Evidence<'_>, of: Of) -> Judged {
    let kept = evidence.case(of, RENEWED, NOT_RENEWED)?;
    let limited = match of {
        // The library's client ends it, whatever the driver does. The scheme has no such limit.
        Of::Scheme(..) => false,
        Of::Ours(_) => evidence.case(of, MAX_HOLD, "")?.passed,
    };
    let verdict = match (kept.passed, limited) {
        (true, true) => Verdict::HoldsWithin(format!("without max_hold only: {MAX_HOLD} passes")),
        (true, false) => Verdict::Holds,
        (false, _) => Verdict::DoesNotHold,
    };
    Ok(Finding::new(verdict, kept.text))
}

fn is_told(evidence: &Evidence<'_>, of: Of) -> Result<Shown, String> {
    let pushed = evidence.figure(of, Scene::Told, "pushed")? == 1.0;
    let waited = evidence.figure(of, Scene::Told, "granted_after_ms")?;
    let how = if pushed { "is told of a release" } else { "looks again and again" };
    Ok(Shown { passed: pushed, text: format!("a waiter {how}, and has the lock after {waited:.1} ms") })
}

fn outlives_a_death(evidence: &Evidence<'_>, of: Of) -> Result<Shown, String> {
    let deadlock = evidence.figure(of, Scene::Dies, "deadlock")? == 1.0;
    let took = evidence.figure(of, Scene::Dies, "watched_ms")?;
    let ttl = evidence.figure(of, Scene::Dies, "ttl_ms")?;
    let then = if deadlock { "still held" } else { "free" };
    let text = format!(
        "after the first request of a client that died then, it is {then} after {took:.0} ms (ttl {ttl:.0} ms)"
    );
    Ok(Shown { passed: !deadlock, text })
}

#[cfg(test)]
mod tests {
    use lock_naive::Scheme;

    use super::super::sample::Data;
    use super::*;
    use crate::backend::Backend;

    const UNIQUE_INDEX: Of = Of::Scheme(Scheme::UniqueIndex, Backend::MySql);
    const SETNX: Of = Of::Scheme(Scheme::Setnx, Backend::Redis);
    const SET_NX_EX: Of = Of::Scheme(Scheme::SetNxEx, Backend::Redis);
    const FAIR: Of = Of::Scheme(Scheme::FairQueue, Backend::Redis);
    const REDLOCK: Of = Of::Scheme(Scheme::Redlock, Backend::Redlock);

    /// Both sides are judged by the same rule: each case, with the reason for which it fails, and the claim.
    #[test]
    fn a_claim_that_a_case_decides_holds_when_it_fails() {
        let mongo = Of::Scheme(Scheme::FindAndModify, Backend::Mongo);
        for (id, scheme, case, why) in [
            ("T1", UNIQUE_INDEX, CRASH, "the lease ends: not within 1.6s"),
            ("T5", mongo, CRASH, "the lease ends: not within 1.6s"),
            ("T9", SETNX, RELEASE_OF_ANOTHERS, "assertion failed\n  left: Released\n right: NotHeld"),
            ("T17", REDLOCK, TOKENS, "Some(FencingToken(1)), then FencingToken(1)"),
            ("T20", SET_NX_EX, LATE_WRITE, "the predecessor's write comes late: ()"),
        ] {
            for of in [scheme, Of::Ours(scheme.backend())] {
                assert_eq!(Data::default().fails(of, case, why).verdict(id, of), Verdict::Holds, "{id}");
                assert_eq!(Data::default().passes(of, case).verdict(id, of), Verdict::DoesNotHold, "{id}");
            }
        }
    }

    #[test]
    fn reentrancy_and_a_blocking_wait_are_two_things() {
        let told = |pushed| [("pushed", pushed), ("granted_after_ms", 3.0)];
        let refused = "expected a grant, got Busy";
        for (id, of) in
            [("T2", UNIQUE_INDEX), ("T10", SETNX), ("T12", SET_NX_EX), ("T12", Of::Ours(Backend::Redis))]
        {
            let neither = Data::default().fails(of, SAME_OWNER, refused).scene(of, Scene::Told, &told(0.0));
            assert_eq!(neither.verdict(id, of), Verdict::Holds);
            let both = Data::default().passes(of, SAME_OWNER).scene(of, Scene::Told, &told(1.0));
            assert_eq!(both.verdict(id, of), Verdict::DoesNotHold);
            let one = Data::default().passes(of, SAME_OWNER).scene(of, Scene::Told, &told(0.0));
            assert!(matches!(one.verdict(id, of), Verdict::HoldsWithin(_)));
            let other = Data::default().fails(of, SAME_OWNER, refused).scene(of, Scene::Told, &told(1.0));
            assert!(matches!(other.verdict(id, of), Verdict::HoldsWithin(_)));
        }
    }

    fn death(deadlock: f64) -> [(&'static str, f64); 3] {
        [("deadlock", deadlock), ("watched_ms", 3000.0), ("ttl_ms", 1000.0)]
    }

    #[test]
    fn a_death_between_two_requests_is_a_deadlock_or_not() {
        for of in [SETNX, Of::Ours(Backend::Redis)] {
            let data = |deadlock| Data::default().scene(of, Scene::Dies, &death(deadlock));
            assert_eq!(data(1.0).verdict("T8", of), Verdict::Holds);
            assert_eq!(data(0.0).verdict("T8", of), Verdict::DoesNotHold);
        }
    }

    #[test]
    fn redissons_way_has_all_four_properties_or_the_claim_does_not_hold() {
        for of in [FAIR, Of::Ours(Backend::Redis)] {
            let told = [("pushed", 1.0), ("granted_after_ms", 1.0)];
            let three = |deadlock| {
                let data = Data::default().passes(of, SAME_OWNER).scene(of, Scene::Told, &told);
                data.scene(of, Scene::Dies, &death(deadlock))
            };
            assert_eq!(three(0.0).passes(of, RENEWED).verdict("T13", of), Verdict::Holds);
            assert_eq!(three(1.0).passes(of, RENEWED).verdict("T13", of), Verdict::DoesNotHold);
            let not_renewed = three(0.0).fails(of, RENEWED, "it is renewed: the lock is lost");
            assert_eq!(not_renewed.verdict("T13", of), Verdict::DoesNotHold);
        }
    }

    #[test]
    fn a_watchdog_keeps_it_and_lets_it_go() {
        for of in [FAIR, Of::Ours(Backend::Redis)] {
            let kept = || Data::default().passes(of, RENEWED);
            assert_eq!(kept().passes(of, CRASH).verdict("T21", of), Verdict::Holds);
            let deadlock = kept().fails(of, CRASH, "the lease ends: not within 1s");
            assert_eq!(deadlock.verdict("T21", of), Verdict::DoesNotHold);
            let lost = Data::default().fails(of, RENEWED, "it is renewed").passes(of, CRASH);
            assert_eq!(lost.verdict("T21", of), Verdict::DoesNotHold);
        }
    }

    #[test]
    fn a_holder_that_is_gone_costs_up_to_a_ttl() {
        for of in [REDLOCK, Of::Ours(Backend::Redlock)] {
            assert_eq!(Data::default().passes(of, CRASH).verdict("T26", of), Verdict::Holds);
            let for_ever = Data::default().fails(of, CRASH, "the lease ends: not within 2s");
            assert_eq!(for_ever.verdict("T26", of), Verdict::DoesNotHold);
        }
    }

    #[test]
    fn max_hold_is_the_limit_of_the_library_alone() {
        assert_eq!(Data::default().passes(REDLOCK, RENEWED).verdict("T27", REDLOCK), Verdict::Holds);
        let ends = Data::default().fails(REDLOCK, RENEWED, "it is renewed");
        assert_eq!(ends.verdict("T27", REDLOCK), Verdict::DoesNotHold);
        let ours = Of::Ours(Backend::Redlock);
        let kept = || Data::default().passes(ours, RENEWED);
        assert!(matches!(kept().passes(ours, MAX_HOLD).verdict("T27", ours), Verdict::HoldsWithin(_)));
        assert_eq!(kept().fails(ours, MAX_HOLD, "it goes on").verdict("T27", ours), Verdict::Holds);
    }
}
