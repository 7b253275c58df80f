//! The local queue: the waiters of one name in one client queue here, first come, first served, and one of them at a
//! time contends at the server. A thousand waiting tasks cost the server as much as one.

mod hand_off_budget;
mod last_seen;
mod successor;
mod turn;
mod waiter_queue;

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use crate::clock::{Clock, Instant};
use crate::driver::Request;
use crate::name::Name;

use hand_off_budget::HandOffBudget;
use last_seen::LastSeen;
use waiter_queue::{Ticket, WaiterQueue};

pub(crate) use hand_off_budget::PASS_PAUSE;
pub(crate) use last_seen::{FIRST_ANSWER, Seen};
pub(crate) use successor::Asked;
pub(crate) use turn::Turn;

/// The local queues of one client.
#[derive(Debug)]
pub(crate) struct LocalQueues {
    clock: Clock,
    names: Mutex<Names>,
}

#[derive(Debug, Default)]
struct Names {
    queues: HashMap<Name, Arc<LocalQueue>>,
    /// Queues without waiters whose hand-off budget is still remembered, the oldest first.
    kept: VecDeque<(Instant, Name)>,
}

#[derive(Debug, Default)]
struct LocalQueue(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// A task has the turn.
    is_taken: bool,
    waiters: WaiterQueue,
    last_seen: LastSeen,
    hand_off_budget: HandOffBudget,
}

/// The result of joining a queue.
#[derive(Debug)]
pub(crate) enum Joined {
    /// No other task of this client is before it.
    Turn(Turn),
    Waits(Waiting),
}

/// The end of a waiter's wait.
#[derive(Debug)]
pub(crate) struct Arrival {
    pub(crate) turn: Turn,
    /// The server was asked for the lock already, for the waiter's owner.
    pub(crate) asked: Option<Asked>,
}

impl LocalQueues {
    pub(crate) fn new(clock: Clock) -> LocalQueues {
        LocalQueues { clock, names: Mutex::default() }
    }

    /// Enters the queue of `name`. If the task has to wait, its owner may take the queue position of the task
    /// before it by what `request` returns.
    pub(crate) fn join(self: &Arc<Self>, name: &Name, request: impl FnOnce() -> Option<Request>) -> Joined {
        let queue = self.queue(name);
        // Holds this task's only reference to the queue, because a task that gives up may be the last one in it.
        let queue_ref = QueueRef { queues: self.clone(), name: name.clone(), queue: Some(queue) };
        let now = self.clock.now();
        let mut state = queue_ref.queue().state();
        if !state.is_taken {
            state.is_taken = true;
            state.last_seen.turn_came(now);
            drop(state);
            return Joined::Turn(Turn::new(queue_ref));
        }
        let (sender, arrival) = oneshot::channel();
        let ticket = state.waiters.join(sender, request());
        drop(state);
        Joined::Waits(Waiting { arrival, ticket, queue_ref })
    }

    /// Returns what a contender in front has seen of `name` since `since`.
    pub(crate) fn seen_since(&self, since: Instant, name: &Name) -> Seen {
        let names = self.names();
        let Some(queue) = names.queues.get(name) else { return Seen::Nothing };
        queue.state().last_seen.since(since, self.clock.now())
    }

    /// Returns of how many names there is a queue.
    pub(crate) fn count(&self) -> usize {
        self.names().queues.len()
    }

    fn queue(&self, name: &Name) -> Arc<LocalQueue> {
        let mut names = self.names();
        names.sweep(self.clock.now());
        if let Some(queue) = names.queues.get(name) {
            return queue.clone();
        }
        let queue = Arc::<LocalQueue>::default();
        names.queues.insert(name.clone(), queue.clone());
        queue
    }

    fn names(&self) -> MutexGuard<'_, Names> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Names {
    /// Forgets the queues whose hand-off budget is no longer remembered. Each queue was put there once, so
    /// that no call does much.
    fn sweep(&mut self, now: Instant) {
        while self.kept.front().is_some_and(|(at, _)| now.since(*at) >= PASS_PAUSE) {
            let Some((_, name)) = self.kept.pop_front() else { return };
            if let Some(queue) = self.queues.get(&name)
                && Arc::strong_count(queue) == 1
                && !queue.state().hand_off_budget.is_remembered(now)
            {
                self.queues.remove(&name);
            }
        }
    }
}

impl LocalQueue {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A reference to a queue. The last one that is dropped removes the queue.
#[derive(Debug)]
struct QueueRef {
    queues: Arc<LocalQueues>,
    name: Name,
    queue: Option<Arc<LocalQueue>>,
}

impl QueueRef {
    fn queue(&self) -> &LocalQueue {
        // It is taken only when the reference is dropped.
        self.queue.as_deref().expect("a reference has its queue")
    }

    fn another(&self) -> QueueRef {
        QueueRef { queues: self.queues.clone(), name: self.name.clone(), queue: self.queue.clone() }
    }

    fn now(&self) -> Instant {
        self.queues.clock.now()
    }
}

impl Drop for QueueRef {
    fn drop(&mut self) {
        let mut names = self.queues.names();
        let Some(queue) = self.queue.take() else { return };
        // The map's reference and this one. No task can take one in between, because queues are handed out under the
        // map's lock, and each other reference has one of its own.
        if Arc::strong_count(&queue) > 2 {
            return;
        }
        let now = self.queues.clock.now();
        if queue.state().hand_off_budget.is_remembered(now) {
            names.kept.push_back((now, self.name.clone()));
        } else {
            names.queues.remove(&self.name);
        }
    }
}

/// A task's position in a queue. If it is dropped, the task loses it.
#[derive(Debug)]
pub(crate) struct Waiting {
    // Dropped before the reference: it may have the turn, which the next waiter then gets.
    arrival: oneshot::Receiver<Arrival>,
    ticket: Ticket,
    queue_ref: QueueRef,
}

impl Waiting {
    /// Waits for this task's turn. Cancel safe.
    pub(crate) async fn arrival(&mut self) -> Arrival {
        // Only its turn takes a waiter's sender out of the queue, and sends.
        (&mut self.arrival).await.expect("a waiter's turn comes")
    }

    /// Leaves the queue. Returns `None` if the turn has not come. If the server is being asked for this task's owner,
    /// waits for the answer: it says what there is to be released.
    pub(crate) async fn leave(mut self) -> Option<Arrival> {
        let waited = self.queue_ref.queue().state().waiters.leave(self.ticket);
        match waited {
            true => None,
            false => Some(self.arrival().await),
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.queue_ref.queue().state().waiters.leave(self.ticket);
    }
}

#[cfg(test)]
mod tests;
