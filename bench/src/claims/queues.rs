//! Verdicts on the order of waiters, and on the cost of dead ones.

use super::evidence::{Evidence, Of};
use super::trial::Scene;
use super::verdict::{Judged, Verdict};
use crate::report::Judgement;

pub(super) const ORDER: &str = "waiting::clients_come_in_the_order_in_which_they_asked";

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
