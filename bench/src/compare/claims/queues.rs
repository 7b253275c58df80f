//! Verdicts on the order of waiters, and on what dead ones cost.

use super::evidence::{Evidence, Of};
use super::trial::Scene;
use super::verdict::{Finding, Judged, Verdict};

pub(super) const ORDER: &str = "waiting::clients_come_in_the_order_in_which_they_asked";

/// How many seconds a dead waiter costs if the claim of 5 s holds: its time begins when the lease that it found has
/// ended, and a waiter may look a little later.
const ABOUT_FIVE: std::ops::RangeInclusive<f64> = 4.5..=7.0;
/// How many seconds a second dead waiter costs at least, if it costs its own time.
const ITS_OWN: f64 = 4.0;

/// T18.
pub(super) fn is_fair_and_a_dead_waiter_costs_five_seconds(evidence: &Evidence<'_>, of: Of) -> Judged {
    let one = evidence.figure(of, Scene::DeadWaiters, "one_dead_s")?;
    let cost = format!("behind one dead waiter the next one waits for {one:.1} s");
    if evidence.is_not_promised(of, ORDER) {
        return Ok(Finding::new(Verdict::DoesNotHold, format!("no order is promised; {cost}")));
    }
    let order = evidence.case(of, ORDER, "")?;
    let verdict = match (order.passed, ABOUT_FIVE.contains(&one)) {
        (true, true) => Verdict::Holds,
        (true, false) => Verdict::HoldsWithin("the order only".to_owned()),
        (false, _) => Verdict::DoesNotHold,
    };
    Ok(Finding::new(verdict, format!("{}; {cost}", order.text)))
}

/// T19.
pub(super) fn every_dead_waiter_costs_its_own_time(evidence: &Evidence<'_>, of: Of) -> Judged {
    let one = evidence.figure(of, Scene::DeadWaiters, "one_dead_s")?;
    let two = evidence.figure(of, Scene::DeadWaiters, "two_dead_s")?;
    let text = format!("behind one dead waiter the next one waits for {one:.1} s, behind two for {two:.1} s");
    Ok(Finding::new(Verdict::of(two - one >= ITS_OWN), text))
}

#[cfg(test)]
mod tests {
    use lock_naive::Scheme;

    use super::super::sample::Data;
    use super::*;
    use crate::backend::Backend;

    const BOTH: [Of; 2] = [Of::Scheme(Scheme::FairQueue, Backend::Redis), Of::Ours(Backend::Redis)];

    fn dead(of: Of, one: f64, two: f64) -> Data {
        Data::default().scene(of, Scene::DeadWaiters, &[("one_dead_s", one), ("two_dead_s", two)])
    }

    #[test]
    fn the_order_and_the_cost_of_a_dead_waiter_are_two_things() {
        for of in BOTH {
            assert_eq!(dead(of, 5.9, 10.9).passes(of, ORDER).verdict("T18", of), Verdict::Holds);
            let order_only = dead(of, 0.1, 0.1).passes(of, ORDER).verdict("T18", of);
            assert_eq!(order_only, Verdict::HoldsWithin("the order only".to_owned()));
            let disorder = dead(of, 5.9, 10.9).fails(of, ORDER, "left: [1, 0]");
            assert_eq!(disorder.verdict("T18", of), Verdict::DoesNotHold);
            assert_eq!(dead(of, 0.1, 0.1).not_run(of, ORDER).verdict("T18", of), Verdict::DoesNotHold);
        }
    }

    #[test]
    fn dead_waiters_cost_as_much_as_one_or_each_its_own() {
        for of in BOTH {
            assert_eq!(dead(of, 5.9, 10.9).verdict("T19", of), Verdict::Holds);
            assert_eq!(dead(of, 5.9, 6.0).verdict("T19", of), Verdict::DoesNotHold);
        }
    }
}
