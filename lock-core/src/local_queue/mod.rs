//! The local queue: the waiters of one name in one client queue here, first come, first served, and one of them at a
//! time contends at the server. A thousand waiting tasks cost the server as much as one.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::clock::{Clock, Instant};
use crate::entry::Entry;
use crate::name::Name;

/// However short a wait is, and however late a turn comes, the server has this long for its first answer.
pub(crate) const FIRST_ANSWER: Duration = Duration::from_millis(100);
/// How often a client hands a name over to its own tasks in a row while others wait elsewhere.
const MOST_IN_A_ROW: u32 = 8;
/// For how long it does so at most.
const LONGEST_ROW: Duration = Duration::from_millis(50);
/// The client then lets as many turns of others pass. Each of them ends in a wake-up; if none comes for this long,
/// there are no more. A pause of this length also ends a streak by itself.
pub(crate) const PASS_PAUSE: Duration = Duration::from_millis(5);

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
    /// What was last seen of the lock, and when. A lock that a task of this client holds counts as seen now.
    seen: Option<(Instant, Seen)>,
    /// When the present contender got its turn.
    turn_came: Option<Instant>,
    held_here: bool,
    streak: Streak,
}

/// What the contender in front last saw at the server. A waiter behind it is told this when its wait runs out.
#[derive(Clone, Debug, Default)]
pub(crate) enum Seen {
    /// No answer yet.
    #[default]
    Nothing,
    /// The lock is held, by a task of this client or elsewhere. Has the holder, if it was seen.
    Held(Option<Box<Entry>>),
    /// The lock was held, but that was seen before this waiter came. The contender in front waits for a wake-up and
    /// does not ask in the meantime; or its turn has just come and it has no answer yet.
    HeldBefore,
    /// The server did not answer, or answered with an error.
    Trouble(String),
}

/// Grants in a row to tasks of this client.
#[derive(Debug, Default)]
struct Streak {
    grants: u32,
    since: Option<Instant>,
    released: Option<Instant>,
    /// Whether another client is known to want the name: it was seen to hold it, or the server said that it waits. A
    /// client that only might be there is no reason to stand back.
    others_wait: bool,
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
        turn.queue().state().turn_came = Some(turn.now());
        turn
    }

    /// Returns what a contender in front has seen of `name` since `since`.
    pub(crate) fn seen_since(&self, since: Instant, name: &Name) -> Seen {
        let names = self.names();
        let Some(queue) = names.queues.get(name) else { return Seen::Nothing };
        let state = queue.state();
        match &state.seen {
            _ if state.held_here => Seen::Held(None),
            Some((at, Seen::Held(Some(holder)))) if *at >= since => {
                let holder = Entry::clone(holder).later(self.clock.now().since(*at));
                Seen::Held(Some(holder.into()))
            }
            Some((at, seen)) if *at >= since => seen.clone(),
            // Seen earlier than `since`. It counts while the contender that saw it is still in front, or while the next
            // contender has not had the time for an answer of its own.
            Some((at, Seen::Held(_))) if self.counts_in_front(&state, *at) => Seen::HeldBefore,
            _ => Seen::Nothing,
        }
    }

    /// Returns whether the present contender saw this itself, or had no time yet to see anything.
    fn counts_in_front(&self, state: &State, seen: Instant) -> bool {
        state.turn_came.is_some_and(|came| seen >= came || self.clock.now().since(came) < FIRST_ANSWER)
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

impl Streak {
    /// Returns whether the streak still matters to the next caller.
    fn counts(&self, now: Instant) -> bool {
        self.others_wait && self.released.is_some_and(|at| now.since(at) < PASS_PAUSE)
    }

    fn is_full(&self, now: Instant) -> bool {
        self.counts(now)
            && (self.grants >= MOST_IN_A_ROW || self.since.is_some_and(|at| now.since(at) >= LONGEST_ROW))
    }

    fn granted(&mut self, now: Instant) {
        if !self.counts(now) {
            *self = Streak { since: Some(now), others_wait: self.others_wait, ..Streak::default() };
        }
        self.grants += 1;
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
            true => std::mem::take(&mut state.streak).grants,
            false => 0,
        }
    }

    pub(crate) fn granted(&self) {
        let now = self.now();
        let mut state = self.queue().state();
        state.held_here = true;
        state.streak.granted(now);
    }

    /// Records that another client has the lock. That ends the streak, and the other client may want the lock again.
    ///
    /// The answer describes some moment after the attempt was sent (`asked`). A caller that came later than that must
    /// not rely on it.
    pub(crate) fn busy(&self, asked: Instant, holder: Option<&Entry>) {
        let mut state = self.queue().state();
        state.seen = Some((asked, Seen::Held(holder.cloned().map(Box::new))));
        state.streak = Streak { others_wait: true, ..Streak::default() };
    }

    /// Records that the server did not answer the attempt that was sent at `asked`.
    pub(crate) fn trouble(&self, asked: Instant, what: String) {
        self.queue().state().seen = Some((asked, Seen::Trouble(what)));
    }

    /// Records a release. If the server can't say whether others wait, what was seen of them before counts.
    pub(crate) fn released(&self, others: Option<bool>) {
        let now = self.now();
        let mut state = self.queue().state();
        state.streak.others_wait = others.unwrap_or(state.streak.others_wait);
        state.streak.released = Some(now);
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
        let mut state = self.queue().state();
        if std::mem::take(&mut state.held_here) {
            state.seen = Some((now, Seen::Held(None)));
        }
        drop(state);
        self.permit.take();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::clock::{Time, Timer};

    /// A clock that stands still unless the test moves it: how long a test takes does not matter to the queues.
    #[derive(Clone, Debug, Default)]
    struct ManualClock(Arc<AtomicU64>);

    impl ManualClock {
        fn advance(&self, pause: Duration) {
            self.0.fetch_add(u64::try_from(pause.as_millis()).unwrap(), Ordering::Relaxed);
        }
    }

    impl Time for ManualClock {
        fn now(&self) -> Instant {
            Instant::from_origin(Duration::from_millis(self.0.load(Ordering::Relaxed)))
        }

        fn timer(&self, _: Duration) -> Timer {
            Box::pin(std::future::pending())
        }
    }

    fn queues() -> Arc<LocalQueues> {
        queues_at(&ManualClock::default())
    }

    fn queues_at(time: &ManualClock) -> Arc<LocalQueues> {
        Arc::new(LocalQueues::new(Clock::new(time.clone())))
    }

    #[tokio::test]
    async fn nothing_is_kept_of_names_that_are_not_in_use() {
        let time = ManualClock::default();
        let queues = queues_at(&time);
        for n in 0..1000 {
            let turn = queues.enter(&Name::new(format!("n{n}")).unwrap()).await;
            turn.granted();
            turn.released(Some(false));
        }
        assert_eq!(queues.names().queues.len(), 0);
        for n in 0..1000 {
            queues.enter(&Name::new(format!("n{n}")).unwrap()).await.released(Some(true));
        }
        time.advance(PASS_PAUSE);
        drop(queues.enter(&Name::new("last").unwrap()).await);
        let names = queues.names();
        assert_eq!((names.queues.len(), names.kept.len()), (0, 0));
    }

    #[tokio::test]
    async fn nothing_is_kept_of_a_name_whose_last_waiter_gives_up() {
        let (queues, name) = (queues(), Name::new("n").unwrap());
        let turn = queues.enter(&name).await;
        let mut waiter = Box::pin(queues.enter(&name));
        assert!(futures_util::FutureExt::now_or_never(waiter.as_mut()).is_none());
        drop(turn);
        assert_eq!(queues.names().queues.len(), 1);
        drop(waiter);
        assert_eq!(queues.names().queues.len(), 0);
    }

    /// Whether another client was seen to hold the lock before the streak.
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Before {
        Busy,
        Nothing,
    }

    /// Returns how many grants a client has in a row, of twenty.
    async fn streak(queues: &Arc<LocalQueues>, name: &Name, before: Before, others: Option<bool>) -> u32 {
        let mut streak = 0;
        loop {
            let turn = queues.enter(name).await;
            if streak == 20 || turn.turns_owed() > 0 {
                return streak;
            }
            if streak == 0 && before == Before::Busy {
                turn.busy(queues.clock.now(), None);
            }
            turn.granted();
            turn.released(others);
            streak += 1;
        }
    }

    #[tokio::test]
    async fn a_process_stands_back_after_its_row_if_others_wait() {
        for (before, others, expected) in [
            (Before::Nothing, Some(true), MOST_IN_A_ROW),
            (Before::Nothing, Some(false), 20),
            (Before::Busy, Some(false), 20),
            (Before::Busy, None, MOST_IN_A_ROW),
        ] {
            let (queues, name) = (queues(), Name::new("n").unwrap());
            assert_eq!(streak(&queues, &name, before, others).await, expected, "{before:?}, {others:?}");
        }
    }

    #[tokio::test]
    async fn a_client_that_only_might_be_there_is_no_reason_to_stand_back() {
        let (queues, name) = (queues(), Name::new("n").unwrap());
        assert_eq!(streak(&queues, &name, Before::Nothing, None).await, 20);
        assert_eq!(
            queues.names().queues.len(),
            0,
            "a client that might be there is no reason to remember the name"
        );
        assert_eq!(streak(&queues, &name, Before::Busy, None).await, MOST_IN_A_ROW);
        assert_eq!(
            streak(&queues, &name, Before::Nothing, None).await,
            20,
            "it has let the client pass that it had seen"
        );
    }
}
