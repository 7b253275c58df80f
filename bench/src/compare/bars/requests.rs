//! How many requests a hand-over costs, by the number of processes that wait.

use super::crowds::{CROWD, parameter};
use super::{Check, Judged, Measured};
use crate::backend::Backend;
use crate::compare::lookup::ours;
use crate::compare::report::Row;
use crate::targets::Bound;

/// How many times as many requests still are the same number: as in the conformance suite.
const FLAT: f64 = 1.5;
/// What clients send besides, now and then: renewals, looks, and what asks for the count.
const BESIDES: f64 = 1.05;

pub(super) fn of_a_hand_over(on: &Measured<'_>) -> Judged {
    let counted: Vec<Counted> = on.crowds().filter_map(Counted::of).collect();
    if counted.is_empty() {
        ours(on.report, on.server, CROWD)?;
        return Err("the server does not count requests, or not soon enough".to_owned());
    }
    match on.promises.fair.as_str() {
        "no" => Ok(on.as_info_says(&counted)),
        _ => flat(&counted).map(Some),
    }
}

/// The requests for a hand-over of one crowd.
#[derive(Clone, Copy, Debug)]
struct Counted {
    contenders: u64,
    processes: u64,
    requests: f64,
}

impl Counted {
    fn of(row: &Row) -> Option<Counted> {
        let requests = *row.extra.get("requests_per_hand_over")?;
        Some(Counted {
            contenders: parameter(row, "contenders"),
            processes: parameter(row, "processes"),
            requests,
        })
    }

    /// How many processes wait while one has the lock.
    fn waiting(self) -> u64 {
        self.processes.saturating_sub(1)
    }
}

/// Compares the crowds with one contender in each process.
fn flat(counted: &[Counted]) -> Result<Check, String> {
    let single = counted.iter().filter(|crowd| crowd.contenders == crowd.processes);
    let few = single.clone().min_by_key(|crowd| crowd.processes);
    let (few, many) = few.zip(single.max_by_key(|crowd| crowd.processes)).ok_or(ONE)?;
    if few.processes == many.processes || few.requests <= 0.0 {
        return Err(ONE.to_owned());
    }
    let says = format!(
        "times as many: {:.1} requests while {} processes wait, {:.1} while {} wait",
        many.requests,
        many.waiting(),
        few.requests,
        few.waiting()
    );
    Ok(Check { figure: many.requests / few.requests, bound: Bound::AtMost(FLAT), says })
}

const ONE: &str = "requests were counted with one number of processes only";

impl Measured<'_> {
    /// Returns the crowd that comes nearest to what it may cost, or goes beyond it.
    fn as_info_says(&self, counted: &[Counted]) -> Option<Check> {
        let servers = self.asked_by_an_attempt() as f64;
        let most = |crowd: &Counted| {
            f64::from(self.promises.requests_per_hand_over) + crowd.waiting() as f64 * servers
        };
        let share = |crowd: &&Counted| crowd.requests / most(crowd);
        let worst = counted.iter().max_by(|one, other| share(one).total_cmp(&share(other)))?;
        let (most, waiting) = (most(worst), worst.waiting());
        let says = format!(
            "times the {most:.0} requests that are allowed: {:.1} while {waiting} processes wait",
            worst.requests
        );
        Some(Check { figure: worst.requests / most, bound: Bound::AtMost(BESIDES), says })
    }

    /// Returns how many servers an attempt of a waiter asks: of Redlock, all that its address names.
    fn asked_by_an_attempt(&self) -> usize {
        match Backend::named(&self.server.backend) {
            Some(Backend::Redlock) => self.promises.address.split(',').count(),
            _ => 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample::{Crowd, Data};

    fn single(processes: u64, requests: f64) -> Crowd {
        Crowd { contenders: processes, processes, requests: Some(requests), ..Crowd::default() }
    }

    #[test]
    fn in_a_queue_the_requests_stay_the_same_or_grow() {
        let queue = |many| {
            let data = Data::on("etcd", "per process", "pushed").crowd(single(2, 2.0));
            data.crowd(single(8, many)).verdict("requests")
        };
        assert_eq!((queue(3.0).as_str(), queue(3.1).as_str()), ("met", "not-met"));
        let one = Data::on("etcd", "per process", "pushed").crowd(single(8, 2.0)).verdict("requests");
        assert_eq!(one, "not-measured");
    }

    #[test]
    fn elsewhere_each_process_that_waits_costs_one_more_or_too_many() {
        let of_eight = |requests| {
            let data = Data::on("redis", "no", "pushed").crowd(single(2, 3.0));
            data.crowd(single(8, requests)).verdict("requests")
        };
        assert_eq!((of_eight(9.4).as_str(), of_eight(9.5).as_str()), ("met", "not-met"));
    }

    #[test]
    fn on_several_servers_an_attempt_asks_each() {
        let of_two = |requests| {
            let data = Data::on("redlock", "no", "pushed").at("a:1,b:1,c:1");
            data.crowd(single(2, requests)).verdict("requests")
        };
        assert_eq!((of_two(5.0).as_str(), of_two(6.0).as_str()), ("met", "not-met"), "2 and 3 are allowed");
    }

    #[test]
    fn what_was_not_counted_is_not_judged() {
        let uncounted = Crowd { requests: None, ..single(8, 0.0) };
        assert_eq!(Data::on("postgres", "no", "pushed").crowd(uncounted).verdict("requests"), "not-measured");
    }
}
