//! A timer queue: when to wake which sleeper of a client. One timer serves them all.
//!
//! Most calls are answered, and most locks are released, long before their time is over. A timer of the runtime for each
//! of them would be made, set and taken back every time, would wake the runtime up to set it, and would take four times
//! the memory.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use super::{Clock, Instant};

/// A timer queue, and its task, which ends when this value is dropped.
#[derive(Debug)]
pub(super) struct TimerQueue {
    queue: Arc<Queue>,
    task: AbortHandle,
}

#[derive(Debug)]
struct Queue {
    entries: Mutex<Entries>,
    /// Whether the task has ended with its runtime. Changed under the lock of the entries.
    has_ended: AtomicBool,
    /// Notified when the first entry comes sooner than the task's timer.
    sooner: Notify,
}

#[derive(Debug, Default)]
struct Entries {
    wakers: BTreeMap<Place, Waker>,
    last: u64,
    /// Until when the task sleeps; `None` if it waits for an entry.
    sleeps_until: Option<Instant>,
}

/// The place of an entry: its moment, and a number that no other entry has.
type Place = (Instant, u64);

impl TimerQueue {
    /// Makes a timer queue by `clock`, whose task runs on `runtime`.
    pub(super) fn start(runtime: &Handle, clock: Clock) -> TimerQueue {
        let queue = Arc::new(Queue {
            entries: Mutex::default(),
            has_ended: AtomicBool::new(false),
            sooner: Notify::new(),
        });
        let timekeeper = Timekeeper { clock, queue: queue.clone() };
        let task = runtime.spawn(timekeeper.run()).abort_handle();
        TimerQueue { queue, task }
    }

    /// Returns a sleeper until `at`. It is not in the queue before it is polled.
    pub(super) fn sleeper(&self, at: Instant) -> Sleeper<'_> {
        Sleeper { queue: &self.queue, at, entry: None }
    }
}

impl Drop for TimerQueue {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A sleeper. Its entry is in the queue until it is dropped, or until it was woken.
pub(super) struct Sleeper<'a> {
    queue: &'a Queue,
    pub(super) at: Instant,
    /// The number of its entry, and what that wakes.
    entry: Option<(u64, Waker)>,
}

/// The queue has ended with its runtime: it wakes no sleeper any more.
#[derive(Debug)]
pub(super) struct Ended;

impl Sleeper<'_> {
    /// Waits for its moment, at the present moment `now`.
    pub(super) fn poll_at(&mut self, now: Instant, context: &mut Context<'_>) -> Poll<Result<(), Ended>> {
        if now >= self.at {
            return Poll::Ready(Ok(()));
        }
        if self.queue.has_ended.load(Ordering::Acquire) {
            return Poll::Ready(Err(Ended));
        }
        let number = match &self.entry {
            // The entry stays until its moment.
            Some((_, waker)) if waker.will_wake(context.waker()) => return Poll::Pending,
            entry => entry.as_ref().map(|(number, _)| *number),
        };
        let number = self.queue.set(self.at, number, context.waker());
        self.entry = number.map(|number| (number, context.waker().clone()));
        if number.is_some() { Poll::Pending } else { Poll::Ready(Err(Ended)) }
    }
}

impl Drop for Sleeper<'_> {
    fn drop(&mut self) {
        let Some((number, _)) = self.entry else { return };
        let waker = self.queue.entries().wakers.remove(&(self.at, number));
        // Not under the lock: it may be the last of a claim, which has other sleepers.
        drop(waker);
    }
}

impl Queue {
    /// Adds an entry that wakes `waker`, or gives the entry of this number this waker. Returns the entry's number;
    /// `None` if no task wakes sleepers any more.
    fn set(&self, at: Instant, number: Option<u64>, waker: &Waker) -> Option<u64> {
        let mut entries = self.entries();
        if self.has_ended.load(Ordering::Acquire) {
            return None;
        }
        let number = number.unwrap_or_else(|| {
            entries.last += 1;
            entries.last
        });
        let before = entries.wakers.insert((at, number), waker.clone());
        let task_is_late = entries.sleeps_until.is_none_or(|until| at < until);
        if task_is_late {
            entries.sleeps_until = Some(at);
        }
        drop(entries);
        // Not under the lock, as in `drop`.
        drop(before);
        if task_is_late {
            self.sooner.notify_one();
        }
        Some(number)
    }

    /// Wakes the sleepers whose time has come. Returns the moment of the first entry that remains.
    fn wake_due(&self, now: Instant) -> Option<Instant> {
        let mut entries = self.entries();
        let later = entries.wakers.split_off(&(now, u64::MAX));
        let due = std::mem::replace(&mut entries.wakers, later);
        let next = entries.wakers.first_key_value().map(|((at, _), _)| *at);
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

/// The task of a timer queue. If it is dropped with its runtime, it wakes all sleepers: claims of a runtime that has
/// ended have to end, too.
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
mod tests {
    use std::pin::{Pin, pin};
    use std::sync::atomic::AtomicU64;
    use std::task::Wake;
    use std::time::Duration;

    use super::*;
    use crate::clock::{Time, Timer};

    const MS: Duration = Duration::from_millis(1);

    /// Returns a clock with a queue, and the queue.
    fn start() -> (Clock, Arc<Queue>) {
        let clock = Clock::tokio().with_queue(&Handle::current());
        let queue = clock.0.queue.as_ref().map(|of| of.queue.clone());
        (clock, queue.expect("it was made with one"))
    }

    fn poll<F: Future<Output = ()>>(sleep: Pin<&mut F>) -> Poll<()> {
        sleep.poll(&mut Context::from_waker(Waker::noop()))
    }

    #[tokio::test(start_paused = true)]
    async fn each_sleeper_is_woken_at_its_moment() {
        let (clock, _) = start();
        let began = clock.now();
        let ended = |after: u32| {
            let clock = &clock;
            async move {
                clock.sleep_until(began + after * MS).await;
                clock.now().since(began)
            }
        };
        // The later one is set first, and the task sleeps for it, so that the second has to make its timer ring sooner.
        let sooner = async {
            tokio::task::yield_now().await;
            ended(30).await
        };
        let (late, soon, now) = tokio::join!(ended(900), sooner, ended(0));
        for (ended, after) in [(late, 900), (soon, 30), (now, 0)] {
            assert!(ended >= after * MS && ended <= (after + 2) * MS, "{ended:?} of {after}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_sleeper_that_has_gone_leaves_no_entry() {
        let (clock, queue) = start();
        for _ in 0..3 {
            let mut sleep = pin!(clock.sleep_until(clock.now() + MS));
            assert!(poll(sleep.as_mut()).is_pending() && poll(sleep.as_mut()).is_pending());
            assert_eq!(queue.entries().wakers.len(), 1);
        }
        assert_eq!(queue.entries().wakers.len(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn later_entries_do_not_wake_the_task() {
        let (clock, queue) = start();
        let first = clock.now() + 200 * MS;
        let mut sleep = Box::pin(clock.sleep_until(first));
        assert!(poll(sleep.as_mut()).is_pending());
        tokio::task::yield_now().await;
        drop(sleep);
        for _ in 0..20 {
            let mut sleep = pin!(clock.sleep_until(clock.now() + 200 * MS));
            assert!(poll(sleep.as_mut()).is_pending());
            assert_eq!(queue.entries().sleeps_until, Some(first), "it is set for the first entry");
            tokio::task::yield_now().await;
        }
    }

    /// A time that can be set forward, as it goes on during a suspend: its timers stand still then.
    #[derive(Clone, Debug, Default)]
    struct Suspendable(Arc<AtomicU64>);

    impl Time for Suspendable {
        fn now(&self) -> Instant {
            Instant::from_origin(Duration::from_secs(self.0.load(Ordering::SeqCst)))
        }

        fn timer(&self, pause: Duration) -> Timer {
            let clock = Clock::tokio();
            Box::pin(async move { clock.sleep(pause).await })
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_time_limit_that_passes_during_a_suspend_is_over_when_that_is_noticed() {
        let time = Suspendable::default();
        let clock = Clock::new(time.clone()).with_queue(&Handle::current());
        let (timers, own) = (Clock::tokio(), clock.clone());
        let began = timers.now();
        // A task of its own, so that nothing but the queue wakes it.
        let call = async move { own.timeout(Duration::from_secs(60), std::future::pending::<()>()).await };
        let call = tokio::spawn(call);
        let suspend = async {
            tokio::task::yield_now().await;
            time.0.store(61, Ordering::SeqCst);
        };
        let (noticed, ()) = tokio::join!(clock.watch(Duration::from_secs(1)), suspend);
        assert_eq!((noticed, call.await.unwrap()), (Some(Duration::from_secs(60)), None));
        assert!(
            timers.now().since(began) < Duration::from_secs(2),
            "its timer would have rung after a minute"
        );
    }

    #[test]
    fn the_end_of_the_runtime_wakes_all_sleepers_which_then_sleep_elsewhere() {
        struct Woken(AtomicBool);
        impl Wake for Woken {
            fn wake(self: Arc<Self>) {
                self.0.store(true, Ordering::SeqCst);
            }
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (clock, _) = runtime.block_on(async { start() });
        let woken = Arc::new(Woken(false.into()));
        let waker = Waker::from(woken.clone());
        let mut context = Context::from_waker(&waker);
        let late = clock.now() + 3_600_000 * MS;
        assert!(pin!(clock.sleep_until(late)).poll(&mut context).is_pending());
        let mut sleep = pin!(clock.sleep_until(late));
        assert!(sleep.as_mut().poll(&mut context).is_pending());
        drop(runtime);
        assert!(woken.0.load(Ordering::SeqCst));
        let here = std::panic::AssertUnwindSafe(|| sleep.as_mut().poll(&mut context).is_pending());
        assert!(std::panic::catch_unwind(here).is_err(), "there is no runtime here");
        let mut sleep = pin!(clock.sleep_until(late));
        let elsewhere = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let late = elsewhere.block_on(async {
            poll(sleep.as_mut()).is_pending() && clock.timeout(MS, sleep).await.is_none()
        });
        assert!(late);
    }
}
