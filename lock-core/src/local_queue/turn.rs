//! A turn: the right of one task to contend for a name at the server.

use super::successor::Successor;
use super::{Arrival, QueueRef};
use crate::clock::Instant;
use crate::entry::Entry;
use crate::error::Error;

/// The right to contend for a name at the server. When it is dropped, the next waiter of this client gets it.
#[derive(Debug)]
pub(crate) struct Turn {
    queue_ref: QueueRef,
}

impl Turn {
    /// Makes the turn of the task that has come to the front. The queue counts as taken.
    pub(super) fn new(queue_ref: QueueRef) -> Turn {
        Turn { queue_ref }
    }

    /// Returns how many turns of others this client lets pass: as many as its own tasks had in a row while others
    /// waited. Then begins a new hand-off budget.
    pub(crate) fn turns_owed(&self) -> u32 {
        let now = self.now();
        let mut state = self.queue_ref.queue().state();
        match state.hand_off_budget.is_full(now) {
            true => state.hand_off_budget.begin_anew(),
            false => 0,
        }
    }

    /// Returns whether this task comes back, after a pause, to a lock that its client gave up a moment ago while others
    /// waited for it.
    pub(crate) fn comes_back(&self) -> bool {
        self.queue_ref.queue().state().hand_off_budget.comes_back(self.now())
    }

    /// Records that a turn of another client was let pass, and that it came.
    pub(crate) fn heard_of_others(&self) {
        self.queue_ref.queue().state().hand_off_budget.heard_of_others();
    }

    /// Records that no other client took the turn that was let pass.
    pub(crate) fn waited_in_vain(&self) {
        self.queue_ref.queue().state().hand_off_budget.waited_in_vain();
    }

    pub(crate) fn granted(&self) {
        let now = self.now();
        let mut state = self.queue_ref.queue().state();
        state.last_seen.granted();
        state.hand_off_budget.granted(now);
    }

    /// Records that another client has the lock. That ends the hand-off budget, and the other client may want
    /// the lock again.
    ///
    /// The answer describes some moment after the attempt was sent (`asked`). A caller that came later than that must
    /// not rely on it.
    pub(crate) fn busy(&self, asked: Instant, holder: Option<&Entry>) {
        let mut state = self.queue_ref.queue().state();
        state.last_seen.held(asked, holder);
        state.hand_off_budget.end();
    }

    /// Records that the attempt that was sent at `asked` has failed.
    pub(crate) fn trouble(&self, asked: Instant, error: &Error) {
        self.queue_ref.queue().state().last_seen.trouble(asked, error);
    }

    /// Records a release. If the server can't say whether others wait, what was seen of them before counts.
    pub(crate) fn released(&self, others: Option<bool>) {
        let now = self.now();
        self.queue_ref.queue().state().hand_off_budget.released(now, others);
    }

    /// Records that the lock went to the next task without being free in between.
    pub(super) fn handed_over(&self, others: Option<bool>) {
        let now = self.now();
        self.queue_ref.queue().state().hand_off_budget.handed_over(now, others);
    }

    /// Takes the next waiter out of the queue, so that the lock can be handed over to it. Returns the turn if there is
    /// none, if the server can't be asked in its place, or if the lock has to be released for other clients.
    pub(crate) fn successor(self) -> Result<Successor, Turn> {
        let now = self.now();
        let next = {
            let mut state = self.queue_ref.queue().state();
            match state.hand_off_budget.goes_on(now) {
                true => state.waiters.next_with_request(),
                false => None,
            }
        };
        match next {
            Some((arrival, request)) => Ok(Successor::new(self, arrival, request, now)),
            None => Err(self),
        }
    }

    /// Ends one task's turn and begins the next one's.
    pub(super) fn changes_hands(&self) {
        let now = self.now();
        let mut state = self.queue_ref.queue().state();
        state.last_seen.turn_over(now);
        state.last_seen.turn_came(now);
    }

    pub(super) fn now(&self) -> Instant {
        self.queue_ref.now()
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let now = self.now();
        let next = {
            let mut state = self.queue_ref.queue().state();
            state.last_seen.turn_over(now);
            let next = state.waiters.next();
            match next {
                Some(_) => {
                    state.last_seen.turn_came(now);
                    state.hand_off_budget.goes_to_a_waiter(now);
                }
                None => {
                    state.is_taken = false;
                    state.hand_off_budget.pauses();
                }
            }
            next
        };
        // Not under the lock: a waiter that has gone drops the turn at once.
        if let Some(next) = next {
            let turn = Turn::new(self.queue_ref.another());
            drop(next.arrival.send(Arrival { turn, asked: None }));
        }
    }
}
