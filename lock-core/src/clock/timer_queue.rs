//! A timer queue: when to wake which sleeper of a client. One timer serves them all.
//!
//! Most calls are answered, and most locks are released, long before their time is over. A timer of the runtime for each
//! of them would be made, set and taken back every time, would wake the runtime up to set it, and would take four times
//! the memory.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use super::watchdog::Watchdog;
use super::{Clock, Instant};
use crate::process::Process;

/// A timer queue, and its task, which ends when this value is dropped.
#[derive(Debug)]
pub(super) struct TimerQueue {
    queue: Arc<Queue>,
    task: AbortHandle,
    /// Wakes sleepers when the task can't. A simulated clock has none: only its simulation wakes sleepers.
    watchdog: Option<Watchdog>,
    process: Process,
}

#[derive(Debug)]
pub(super) struct Queue {
    entries: Mutex<Entries>,
    /// The task has ended with its runtime. Changed under the lock of the entries.
    has_ended: AtomicBool,
    /// Notified when the first entry comes sooner than the task's timer.
    sooner: Notify,
    /// Notified when the first entry comes sooner than the watchdog's timer, and when the queue is dropped.
    watchdog_wakes: Condvar,
}

#[derive(Debug, Default)]
struct Entries {
    wakers: BTreeMap<TimerKey, Waker>,
    last: u64,
    /// Until when the task sleeps; `None` if it waits for an entry.
    sleeps_until: Option<Instant>,
    /// Until when the watchdog sleeps; `None` if it waits for an entry.
    watchdog_sleeps_until: Option<Instant>,
    /// The client's clock has been dropped.
    is_over: bool,
}

/// The key of an entry: its moment, and a number that no other entry has.
type TimerKey = (Instant, u64);

impl TimerQueue {
    /// Makes a timer queue by `clock`, whose task runs on `runtime`.
    pub(super) fn start(runtime: &Handle, clock: Clock) -> TimerQueue {
        let queue = Arc::new(Queue {
            entries: Mutex::default(),
            has_ended: AtomicBool::new(false),
            sooner: Notify::new(),
            watchdog_wakes: Condvar::new(),
        });
        let watchdog = (!clock.is_simulated()).then(|| Watchdog::new(runtime, clock.clone()));
        let timekeeper = Timekeeper { clock, queue: queue.clone() };
        let task = runtime.spawn(timekeeper.run()).abort_handle();
        TimerQueue { queue, task, watchdog, process: Process::this() }
    }

    /// Returns a sleeper until `at`. It is not in the queue before it is polled.
    pub(super) fn sleeper(&self, at: Instant) -> Sleeper<'_> {
        Sleeper { of: self, at, entry: None }
    }
}

impl Drop for TimerQueue {
    fn drop(&mut self) {
        if self.process.is_another() {
            return;
        }
        self.task.abort();
        self.queue.entries().is_over = true;
        self.queue.watchdog_wakes.notify_one();
    }
}

/// A sleeper. Its entry is in the queue until it is dropped, or until it was woken.
pub(super) struct Sleeper<'a> {
    of: &'a TimerQueue,
    pub(super) at: Instant,
    /// The number of its entry, and what that wakes.
    entry: Option<(u64, Waker)>,
}

/// The queue wakes no sleeper any more: it has ended with the runtime of a simulated clock, or it is a fork's copy.
#[derive(Debug)]
pub(super) struct Ended;

impl Sleeper<'_> {
    /// Waits for its moment, at the present moment `now`.
    pub(super) fn poll_at(&mut self, now: Instant, context: &mut Context<'_>) -> Poll<Result<(), Ended>> {
        if now >= self.at {
            return Poll::Ready(Ok(()));
        }
        let TimerQueue { queue, watchdog, process, .. } = self.of;
        let has_ended = queue.has_ended.load(Ordering::Acquire);
        if process.is_another() || (has_ended && watchdog.is_none()) {
            return Poll::Ready(Err(Ended));
        }
        let number = match &self.entry {
            // The entry stays until its moment, or until the runtime ends.
            Some((_, waker)) if waker.will_wake(context.waker()) && !has_ended => return Poll::Pending,
            entry => entry.as_ref().map(|(number, _)| *number),
        };
        self.entry = Some((queue.set(self.at, number, context.waker()), context.waker().clone()));
        match watchdog {
            Some(watchdog) => watchdog.start_unless_at_home(queue),
            // It may have ended in between, before it could wake this sleeper.
            None if queue.has_ended.load(Ordering::Acquire) => return Poll::Ready(Err(Ended)),
            None => {}
        }
        Poll::Pending
    }
}

impl Drop for Sleeper<'_> {
    fn drop(&mut self) {
        let Some((number, _)) = self.entry else { return };
        // In a fork, a thread of the parent may hold the lock for ever.
        if self.of.process.is_another() {
            return;
        }
        let waker = self.of.queue.entries().wakers.remove(&(self.at, number));
        // Not under the lock: it may be the last of a claim, which has other sleepers.
        drop(waker);
    }
}

impl Queue {
    /// Adds an entry that wakes `waker`, or gives the entry of this number this waker. Returns the entry's number.
    fn set(&self, at: Instant, number: Option<u64>, waker: &Waker) -> u64 {
        let is_sooner = |sleeps_until: Option<Instant>| sleeps_until.is_none_or(|until| at < until);
        let mut entries = self.entries();
        let number = number.unwrap_or_else(|| {
            entries.last += 1;
            entries.last
        });
        let before = entries.wakers.insert((at, number), waker.clone());
        let task_is_late = is_sooner(entries.sleeps_until);
        if task_is_late {
            entries.sleeps_until = Some(at);
        }
        let watchdog_is_late = is_sooner(entries.watchdog_sleeps_until);
        if watchdog_is_late {
            entries.watchdog_sleeps_until = Some(at);
        }
        drop(entries);
        // Not under the lock, as in `drop`.
        drop(before);
        if task_is_late {
            self.sooner.notify_one();
        }
        if watchdog_is_late {
            self.watchdog_wakes.notify_one();
        }
        number
    }

    /// Waits, as a thread, until an entry has been due for `late`, and wakes it and all others that are due. Returns
    /// false when the queue is dropped.
    pub(super) fn wait_for_overdue(&self, clock: &Clock, late: Duration) -> bool {
        let mut entries = self.entries();
        loop {
            if entries.is_over {
                return false;
            }
            let first = entries.first();
            entries.watchdog_sleeps_until = first;
            let Some(at) = first else {
                entries = self.watchdog_wakes.wait(entries).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let left = at.since(clock.now()) + late;
            let waited = self.watchdog_wakes.wait_timeout(entries, left);
            let (after, wait) = waited.unwrap_or_else(PoisonError::into_inner);
            entries = after;
            if wait.timed_out() {
                let due = entries.due(clock.now());
                drop(entries);
                due.values().for_each(Waker::wake_by_ref);
                self.remove(due.into_keys());
                return true;
            }
        }
    }

    /// Removes entries that were woken. Before that they stay: the task may look meanwhile, and would sleep past them.
    fn remove(&self, keys: impl Iterator<Item = TimerKey>) {
        let mut entries = self.entries();
        let removed: Vec<_> = keys.map(|key| entries.wakers.remove(&key)).collect();
        drop(entries);
        // Not under the lock, as in `drop`.
        drop(removed);
    }

    /// Wakes the sleepers whose time has come. Returns the moment of the first entry that remains.
    fn wake_due(&self, now: Instant) -> Option<Instant> {
        let mut entries = self.entries();
        let due = entries.take_due(now);
        let next = entries.first();
        entries.sleeps_until = next;
        drop(entries);
        // Not under the lock: what is woken may set or drop an entry.
        due.into_values().for_each(Waker::wake);
        next
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        // Nothing that can panic runs under this lock.
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entries {
    fn first(&self) -> Option<Instant> {
        self.wakers.first_key_value().map(|((at, _), _)| *at)
    }

    fn due(&self, now: Instant) -> BTreeMap<TimerKey, Waker> {
        let due = self.wakers.range(..=(now, u64::MAX));
        due.map(|(key, waker)| (*key, waker.clone())).collect()
    }

    fn take_due(&mut self, now: Instant) -> BTreeMap<TimerKey, Waker> {
        let later = self.wakers.split_off(&(now, u64::MAX));
        std::mem::replace(&mut self.wakers, later)
    }
}

/// The task of a timer queue. If it is dropped with its runtime, it wakes all sleepers: claims of a runtime that has
/// ended have to end, too. A sleeper that sleeps on is then woken by the watchdog.
struct Timekeeper {
    /// Has no queue itself.
    clock: Clock,
    queue: Arc<Queue>,
}

impl Timekeeper {
    async fn run(self) {
        let Timekeeper { clock, queue } = &self;
        loop {
            match queue.wake_due(clock.now()) {
                Some(next) => {
                    tokio::select! {
                        biased;
                        () = queue.sooner.notified() => {}
                        () = clock.sleep_alone(next) => {}
                    }
                }
                None => queue.sooner.notified().await,
            }
        }
    }
}

impl Drop for Timekeeper {
    fn drop(&mut self) {
        let mut entries = self.queue.entries();
        self.queue.has_ended.store(true, Ordering::Release);
        let wakers = std::mem::take(&mut entries.wakers);
        drop(entries);
        wakers.into_values().for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests;
