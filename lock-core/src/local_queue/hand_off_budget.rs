//! A hand-off budget: the grants in a row of one name to tasks of one client, and when the client lets others
//! pass after it.

use std::time::Duration;

use crate::clock::Instant;

/// The number of hand-overs in a row to a client's own tasks while others wait elsewhere.
pub(super) const MOST_IN_A_ROW: u32 = 8;
/// For how long it does so at most.
const LONGEST_ROW: Duration = Duration::from_millis(50);
/// The client then lets as many turns of others pass. Each of them ends in a wake-up; if none comes for this long,
/// there are no more.
pub(crate) const PASS_PAUSE: Duration = Duration::from_millis(5);
/// A pause of this length ends a hand-off budget: a waiter that was woken by the release has had the time to
/// ask. One task that takes the lock now and then owes other clients nothing.
pub(super) const CHANCE: Duration = Duration::from_millis(1);

/// Grants in a row to tasks of this client.
#[derive(Debug, Default)]
pub(super) struct HandOffBudget {
    grants: u32,
    since: Option<Instant>,
    released: Option<Instant>,
    /// A task of this client waited for the lock when it was released.
    is_wanted: bool,
    /// Another client is known to want the name: it was seen to hold it, or the server said that it waits. A
    /// client that only might be there is no reason to let it pass.
    others_wait: bool,
    /// Another client was seen to hold the lock, or its release was heard, since this client last let others pass in vain.
    is_contended: bool,
    /// Grants since the lock was last released, and when the first of them was.
    unreleased: u32,
    unreleased_since: Option<Instant>,
}

impl HandOffBudget {
    /// Returns whether the hand-off budget still matters to the next caller.
    pub(super) fn counts(&self, now: Instant) -> bool {
        self.others_wait && (self.is_wanted || self.was_released_just_before(now))
    }

    /// Returns whether the next caller comes back, after a pause, to a lock that this client gave up a moment ago while
    /// others waited for it. They came before that caller.
    pub(super) fn comes_back(&self, now: Instant) -> bool {
        !self.counts(now) && self.was_given_up(now)
    }

    /// Returns whether the hand-off budget still matters, or the next caller comes back.
    pub(super) fn is_remembered(&self, now: Instant) -> bool {
        self.counts(now) || self.was_given_up(now)
    }

    /// Returns whether it has reached the bound.
    pub(super) fn is_full(&self, now: Instant) -> bool {
        self.counts(now)
            && (self.grants >= MOST_IN_A_ROW || self.since.is_some_and(|at| now.since(at) >= LONGEST_ROW))
    }

    /// Returns whether the holder may hand the lock over to the next task of this client. Otherwise it releases the lock:
    /// a client that polls is not known to the server as a waiter, and gets a lock only while it is free.
    pub(super) fn goes_on(&self, now: Instant) -> bool {
        let is_within = |grants, since: Option<Instant>| {
            grants < MOST_IN_A_ROW && since.is_none_or(|at| now.since(at) < LONGEST_ROW)
        };
        is_within(self.unreleased, self.unreleased_since)
            && (!self.others_wait || is_within(self.grants, self.since))
    }

    /// Counts a grant. After a pause it is the first of a new hand-off budget.
    pub(super) fn granted(&mut self, now: Instant) {
        if !self.counts(now) {
            (self.grants, self.since) = (0, Some(now));
        }
        self.is_wanted = false;
        self.since.get_or_insert(now);
        self.grants += 1;
        self.unreleased += 1;
        self.unreleased_since.get_or_insert(now);
    }

    /// Records a release. If the server can't say whether others wait, what was seen of them before counts.
    pub(super) fn released(&mut self, now: Instant, others: Option<bool>) {
        self.handed_over(now, others);
        (self.unreleased, self.unreleased_since) = (0, None);
    }

    /// Records that the lock went to the next task of this client without being free in between.
    pub(super) fn handed_over(&mut self, now: Instant, others: Option<bool>) {
        self.others_wait = others.unwrap_or(self.others_wait);
        self.released = Some(now);
    }

    /// Records that a task gets the turn that has waited for it. If the lock was released just before, there is no pause,
    /// however long a busy machine takes until that task asks.
    pub(super) fn goes_to_a_waiter(&mut self, now: Instant) {
        self.is_wanted = self.was_released_just_before(now);
    }

    /// Records that no task of this client wants the lock.
    pub(super) fn pauses(&mut self) {
        self.is_wanted = false;
    }

    /// Ends the hand-off budget: another client was seen to hold the lock, and may want it again.
    pub(super) fn end(&mut self) {
        *self = HandOffBudget { others_wait: true, is_contended: true, ..HandOffBudget::default() };
    }

    /// Records that a turn of another client was let pass, and that it came.
    pub(super) fn heard_of_others(&mut self) {
        self.is_contended = true;
    }

    /// Records that no other client took the turn that was let pass.
    pub(super) fn waited_in_vain(&mut self) {
        self.is_contended = false;
    }

    /// Begins a new hand-off budget and returns the number of grants of the old one.
    pub(super) fn begin_anew(&mut self) -> u32 {
        std::mem::take(self).grants
    }

    fn was_given_up(&self, now: Instant) -> bool {
        self.others_wait && self.is_contended && self.released.is_some_and(|at| now.since(at) < PASS_PAUSE)
    }

    fn was_released_just_before(&self, now: Instant) -> bool {
        self.released.is_some_and(|at| now.since(at) < CHANCE)
    }
}
