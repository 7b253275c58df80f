//! Invariants of a history, whatever was done to the primaries.
//!
//! Replication is asynchronous, so a successor may know nothing of a grant. Two may then hold a lock until the first
//! one's next renewal, and docs/semantics.md says that the token distinguishes them. Without a failover, there is one
//! holder at a time.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use lock_conformance::assert_in_time;

use super::history::{Failover, Harm, Held, History, Way, Write};
use super::load::Contended;

/// The time that a guard keeps between its deadline and the end of its lease, besides 1 % of it.
const GUARD: Duration = Duration::from_millis(2);

pub(super) fn check(history: &History, names: &[Contended], failovers: &[Failover]) {
    let (all, writes) = (history.held(), history.writes());
    let (mut of_names, mut lost, mut second) = (Vec::new(), 0, BTreeMap::new());
    for (number, contended) in names.iter().enumerate() {
        let at = |failover: &&Failover| failover.group == contended.group;
        let of_name = Name {
            name: &contended.name,
            ttl: contended.turn.ttl(),
            held: all.iter().filter(|held| held.name == number).collect(),
            failovers: failovers.iter().filter(at).collect(),
        };
        of_name.tokens_rise();
        of_name.second_holders().for_each(|way| *second.entry(way).or_insert(0) += 1);
        lost += of_name.told_in_time();
        of_names.push(of_name);
    }
    let refused = the_resource_is_protected(&writes);
    println!(
        "{} grants, {} writes; {lost} holders have lost their lock, {} writes were refused; so many were granted a lock that \
         another client held: {second:?}",
        all.len(),
        writes.len(),
        refused.len()
    );
    for write in refused.into_iter().filter(|write| write.is_held) {
        let excuse = of_names[write.name].is_passed(write.token);
        assert!(excuse, "a holder was refused without a failover: {write:?}");
    }
}

/// The history of one name.
struct Name<'a> {
    name: &'a str,
    ttl: Duration,
    /// In the order of the grants.
    held: Vec<&'a Held>,
    /// The failovers of its primary.
    failovers: Vec<&'a Failover>,
}

impl Name<'_> {
    /// Each grant has a higher token than all before it, also if a successor knows nothing of them. Only while two
    /// primaries answer, their grants may be seen in another order, or be of the same microsecond.
    fn tokens_rise(&self) {
        let Some((mut highest, later)) = self.held.split_first() else { return };
        for held in later {
            if held.token > highest.token {
                highest = held;
                continue;
            }
            let both_answer = self.failovers.iter().any(|failover| {
                failover.harm == Harm::TwoAnswer
                    && self.is_in(failover, highest)
                    && self.is_in(failover, held)
            });
            assert!(both_answer, "{}: a token that does not rise: {highest:?}, {held:?}", self.name);
        }
    }

    /// A lock that is held is granted to no other client, unless its primary was replaced. Returns in which way that was,
    /// for each time that it was granted.
    fn second_holders(&self) -> impl Iterator<Item = Way> {
        let pairs = self.held.iter().enumerate().flat_map(|(nth, later)| {
            let held = self.held[..nth].iter().filter(|earlier| earlier.last_held > later.granted);
            held.map(move |earlier| (earlier, later))
        });
        pairs.map(|(earlier, later)| match self.failover_between(earlier, later) {
            Some(failover) => failover.way,
            None => panic!("{}: two holders without a failover: {earlier:?}, {later:?}", self.name),
        })
    }

    /// A holder that has lost its lock is told before the end of the lease that it had relied on. Returns how many.
    fn told_in_time(&self) -> usize {
        let lost = self.held.iter().filter_map(|held| held.lost.as_ref());
        lost.inspect(|loss| {
            let due = loss.deadline + self.ttl / 100 + GUARD;
            assert_in_time!(loss.told <= due, "{}: told late that it is lost: {:?}", self.name, loss.why);
        })
        .count()
    }

    /// Returns whether another client may have been granted the lock before the holder with this token knew.
    fn is_passed(&self, token: u64) -> bool {
        let holder = self.held.iter().find(|held| held.token == token);
        let later = |holder: &Held| {
            self.held
                .iter()
                .any(|later| later.token > token && self.failover_between(holder, later).is_some())
        };
        holder.is_some_and(|holder| later(holder))
    }

    /// Returns the failover in which the server of the later grant may have known nothing of the earlier one, on which its
    /// holder relies until its next renewal.
    fn failover_between(&self, earlier: &Held, later: &Held) -> Option<&Failover> {
        let unknown = |failover: &&&Failover| {
            failover.harm != Harm::Nothing
                && earlier.granted <= failover.settled
                && self.is_in(failover, later)
        };
        self.failovers.iter().find(unknown).copied()
    }

    /// Returns whether this was granted from the beginning of the failover until leases of its time have ended.
    fn is_in(&self, failover: &Failover, held: &Held) -> bool {
        (failover.began..failover.settled + self.ttl).contains(&held.granted)
    }
}

/// The resource accepts no token below one that it has accepted. Returns the writes that it has refused.
fn the_resource_is_protected(writes: &[Write]) -> Vec<&Write> {
    let mut highest = HashMap::new();
    writes
        .iter()
        .filter(|write| {
            let highest = highest.entry(write.name).or_insert(0);
            assert_eq!(write.is_accepted, write.token >= *highest, "{write:?} after {highest}");
            *highest = write.token.max(*highest);
            !write.is_accepted
        })
        .collect()
}
