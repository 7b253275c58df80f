//! Verdicts on crashes, releases, renewals, reentrancy, tokens, and the order of waiters.

use super::evidence::{Evidence, Of, Shown};
use super::trial::Scene;
use super::verdict::{Judged, Verdict};
use crate::report::Judgement;

/// After a crash of its holder the lock is free when the lease has ended.
pub(super) const CRASH: &str = "waiting::a_waiter_goes_by_its_holders_ttl";
/// An owner that holds it is granted it again.
pub(super) const SAME_OWNER: &str = "contract::a_lock_granted_again_has_its_token_and_rest";
pub(super) const RELEASE_OF_ANOTHERS: &str = "contract::release_never_touches_anothers";
pub(super) const RENEWED: &str = "lease::a_live_holder_keeps_it";
pub(super) const MAX_HOLD: &str = "lease::max_hold_ends_it_whatever_is_renewed";
pub(super) const TOKENS: &str = "fencing::tokens_rise_over_all_holders";
pub(super) const ORDER: &str = "waiting::clients_come_in_the_order_in_which_they_asked";
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
    Ok(Judgement::new(Verdict::of(!shown.passed), shown.text))
}

/// T2, T10, T12.
pub(super) fn is_neither_reentrant_nor_blocking(evidence: &Evidence<'_>, of: Of) -> Judged {
    let reentrant = evidence.case(of, SAME_OWNER, REFUSED_TO_ITSELF)?;
    let told = is_told(evidence, of)?;
    let verdict = match (reentrant.passed, told.passed) {
        (false, false) => Verdict::Holds,
        (true, true) => Verdict::DoesNotHold,
        (true, false) => Verdict::HoldsWithin("it is reentrant, but no server tells a waiter of a release"),
        (false, true) => Verdict::HoldsWithin("waiters are told of a release, but it is not reentrant"),
    };
    Ok(Judgement::new(verdict, format!("{}; {}", reentrant.text, told.text)))
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
    Ok(Judgement::new(Verdict::of(holds), texts.collect::<Vec<_>>().join("; ")))
}

/// T21.
pub(super) fn a_watchdog_keeps_the_lock_of_a_live_holder_only(evidence: &Evidence<'_>, of: Of) -> Judged {
    let (kept, freed) = (evidence.case(of, RENEWED, NOT_RENEWED)?, evidence.case(of, CRASH, DEADLOCK)?);
    let verdict = Verdict::of(kept.passed && freed.passed);
    Ok(Judgement::new(verdict, format!("with shorter leases, {}; {}", kept.text, freed.text)))
}

/// T26. To the other clients, a holder that is cut off is one that has crashed.
pub(super) fn a_holder_that_is_gone_costs_a_ttl(evidence: &Evidence<'_>, of: Of) -> Judged {
    let crash = evidence.case(of, CRASH, DEADLOCK)?;
    Ok(Judgement::new(Verdict::of(crash.passed), format!("of a holder that is gone, {}", crash.text)))
}

/// T27.
pub(super) fn extending_has_no_limit(evidence: &Evidence<'_>, of: Of) -> Judged {
    let kept = evidence.case(of, RENEWED, NOT_RENEWED)?;
    let limited = match of {
        // The library's client ends it, whatever the driver does. The scheme has no such limit.
        Of::Scheme(..) => false,
        Of::Ours(_) => evidence.case(of, MAX_HOLD, "")?.passed,
    };
    let verdict = Verdict::of_both(kept.passed, !limited, "without max_hold only");
    Ok(Judgement::new(verdict, kept.text))
}

/// A dead waiter costs so many seconds if the claim of 5 s holds: its time begins when the lease that it found has
/// ended, and a waiter may look a little later.
const ABOUT_FIVE: std::ops::RangeInclusive<f64> = 4.5..=7.0;
/// A second dead waiter that costs its own time costs so many seconds at least.
const ITS_OWN: f64 = 4.0;

/// T18.
pub(super) fn is_fair_and_a_dead_waiter_costs_five_seconds(evidence: &Evidence<'_>, of: Of) -> Judged {
    let one = evidence.figure(of, Scene::DeadWaiters, "one_dead_s")?;
    let cost = format!("behind one dead waiter the next one waits for {one:.1} s");
    if evidence.is_not_promised(of, ORDER) {
        return Ok(Judgement::new(Verdict::DoesNotHold, format!("no order is promised; {cost}")));
    }
    let order = evidence.case(of, ORDER, "")?;
    let verdict = Verdict::of_both(order.passed, ABOUT_FIVE.contains(&one), "the order only");
    Ok(Judgement::new(verdict, format!("{}; {cost}", order.text)))
}

/// T19.
pub(super) fn every_dead_waiter_costs_its_own_time(evidence: &Evidence<'_>, of: Of) -> Judged {
    let one = evidence.figure(of, Scene::DeadWaiters, "one_dead_s")?;
    let two = evidence.figure(of, Scene::DeadWaiters, "two_dead_s")?;
    let text = format!("behind one dead waiter the next one waits for {one:.1} s, behind two for {two:.1} s");
    Ok(Judgement::new(Verdict::of(two - one >= ITS_OWN), text))
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
