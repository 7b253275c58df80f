//! The local queue: the waiters of one name in one client queue here, first come, first served, and one of them at a
//! time contends at the server. A thousand waiting tasks cost the server as much as one.

mod sight;
mod streak;

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::clock::{Clock, Instant};
use crate::entry::Entry;
use crate::name::Name;

use sight::Sight;
use streak::Streak;

pub(crate) use sight::{FIRST_ANSWER, Seen};
pub(crate) use streak::PASS_PAUSE;

/// The local queues of one client.
#[derive(Debug)]
pub(crate) struct LocalQueues {
    clock: Clock,
    names: Mutex<Names>,
}

#[derive(Debug, Default)]
struct Names {
    queues: HashMap<Name, Arc<LocalQueue>>,
    /// Queues without waiters whose streak still counts, the oldest first.
    kept: VecDeque<(Instant, Name)>,
}

#[derive(Debug)]
struct LocalQueue {
    turn: Arc<Semaphore>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    sight: Sight,
    streak: Streak,
}

impl LocalQueues {
    pub(crate) fn new(clock: Clock) -> LocalQueues {
        LocalQueues { clock, names: Mutex::default() }
    }

    /// Waits for this task's turn at `name`. Cancel safe: a task that leaves loses its place.
    pub(crate) async fn enter(self: &Arc<Self>, name: &Name) -> Turn {
        let queue = self.queue(name);
        let turn = queue.turn.clone();
        // Holds this task's only reference to the queue, because a task that gives up here may be the last one in
        // it.
        let place = Place { queues: self.clone(), name: name.clone(), queue: Some(queue) };
        // The semaphore is never closed.
        let permit = turn.acquire_owned().await.expect("a queue stays open");
        let turn = Turn { permit: Some(permit), place };
        turn.queue().state().sight.turn_came(turn.now());
        turn
    }

    /// Returns what a contender in front has seen of `name` since `since`.
    pub(crate) fn seen_since(&self, since: Instant, name: &Name) -> Seen {
        let names = self.names();
        let Some(queue) = names.queues.get(name) else { return Seen::Nothing };
        queue.state().sight.since(since, self.clock.now())
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
        let queue = Arc::new(LocalQueue { turn: Arc::new(Semaphore::new(1)), state: Mutex::default() });
        names.queues.insert(name.clone(), queue.clone());
        queue
    }

    fn names(&self) -> MutexGuard<'_, Names> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Names {
    /// Forgets the queues whose streak no longer counts. Each queue was put there once, so that no call does much.
    fn sweep(&mut self, now: Instant) {
        while self.kept.front().is_some_and(|(at, _)| now.since(*at) >= PASS_PAUSE) {
            let Some((_, name)) = self.kept.pop_front() else { return };
            if let Some(queue) = self.queues.get(&name)
                && Arc::strong_count(queue) == 1
                && !queue.state().streak.counts(now)
            {
                self.queues.remove(&name);
            }
        }
    }
}

impl LocalQueue {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place in a local queue. The last place that is dropped removes the queue.
#[derive(Debug)]
struct Place {
    queues: Arc<LocalQueues>,
    name: Name,
    queue: Option<Arc<LocalQueue>>,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut names = self.queues.names();
        let Some(queue) = self.queue.take() else { return };
        // The map's reference and this one. No task can take one in between, because queues are handed out under the
        // map's lock.
        if Arc::strong_count(&queue) > 2 {
            return;
        }
        let now = self.queues.clock.now();
        if queue.state().streak.counts(now) {
            names.kept.push_back((now, self.name.clone()));
        } else {
            names.queues.remove(&self.name);
        }
    }
}

/// The right to contend for a name at the server. When it is dropped, the next waiter of this client gets it.
#[derive(Debug)]
pub(crate) struct Turn {
    // Given back before the place is dropped, so that the next waiter never finds the queue gone.
    permit: Option<OwnedSemaphorePermit>,
    place: Place,
}

impl Turn {
    /// Returns how many turns of others this client lets pass: as many as its own tasks had in a row while others
    /// waited. Then begins a new streak.
    pub(crate) fn turns_owed(&self) -> u32 {
        let now = self.now();
        let mut state = self.queue().state();
        match state.streak.is_full(now) {
            true => state.streak.begin_anew(),
            false => 0,
        }
    }

    pub(crate) fn granted(&self) {
        let now = self.now();
        let mut state = self.queue().state();
        state.sight.granted();
        state.streak.granted(now);
    }

    /// Records that another client has the lock. That ends the streak, and the other client may want the lock again.
    ///
    /// The answer describes some moment after the attempt was sent (`asked`). A caller that came later than that must
    /// not rely on it.
    pub(crate) fn busy(&self, asked: Instant, holder: Option<&Entry>) {
        let mut state = self.queue().state();
        state.sight.held(asked, holder);
        state.streak.end();
    }

    /// Records that the server did not answer the attempt that was sent at `asked`.
    pub(crate) fn trouble(&self, asked: Instant, what: String) {
        self.queue().state().sight.trouble(asked, what);
    }

    /// Records a release. If the server can't say whether others wait, what was seen of them before counts.
    pub(crate) fn released(&self, others: Option<bool>) {
        let now = self.now();
        self.queue().state().streak.released(now, others);
    }

    fn now(&self) -> Instant {
        self.place.queues.clock.now()
    }

    fn queue(&self) -> &LocalQueue {
        // It is taken only when the place is dropped, and this turn with it.
        self.place.queue.as_deref().expect("a turn has its queue")
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let now = self.now();
        self.queue().state().sight.turn_over(now);
        self.permit.take();
    }
}

#[cfg(test)]
mod tests;
