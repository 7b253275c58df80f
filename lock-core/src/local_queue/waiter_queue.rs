//! The waiters of a local queue, in the order in which they came.

use std::collections::BTreeMap;

use tokio::sync::oneshot;

use super::Arrival;
use crate::driver::Request;

/// The number of a waiter. A later waiter has a higher one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ticket(u64);

/// A task that waits for its turn.
#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) arrival: oneshot::Sender<Arrival>,
    /// The request that another task can send in its place.
    pub(super) request: Option<Request>,
}

/// The waiters of one queue. Any of them can leave at any time: a thousand that give up at once are no trouble.
#[derive(Debug, Default)]
pub(super) struct WaiterQueue {
    waiters: BTreeMap<Ticket, Waiter>,
    last: u64,
}

impl WaiterQueue {
    pub(super) fn join(&mut self, arrival: oneshot::Sender<Arrival>, request: Option<Request>) -> Ticket {
        self.last += 1;
        let ticket = Ticket(self.last);
        self.waiters.insert(ticket, Waiter { arrival, request });
        ticket
    }

    /// Takes the waiter out. Returns whether it was in the queue.
    pub(super) fn leave(&mut self, ticket: Ticket) -> bool {
        self.waiters.remove(&ticket).is_some()
    }

    /// Takes out the waiter that came first.
    pub(super) fn next(&mut self) -> Option<Waiter> {
        self.waiters.pop_first().map(|(_, waiter)| waiter)
    }

    /// Takes out the waiter that came first, with its request, if the server can be asked in its place.
    pub(super) fn next_with_request(&mut self) -> Option<(oneshot::Sender<Arrival>, Request)> {
        let first = self.waiters.first_entry()?;
        first.get().request.as_ref()?;
        let Waiter { arrival, request } = first.remove();
        request.map(|request| (arrival, request))
    }
}
