//! Tests of a timer queue.

use std::pin::{Pin, pin};
use std::sync::atomic::AtomicU64;
use std::sync::mpsc;
use std::task::Wake;
use std::time::Duration;

use super::*;
use crate::clock::{Time, Timer};
use crate::wakes::Wakes;

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
async fn a_limit_passed_in_suspend_ends_when_noticed() {
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
    assert!(timers.now().since(began) < Duration::from_secs(2), "its timer would have rung after a minute");
}

#[tokio::test(start_paused = true)]
async fn a_sleeper_wakes_its_last_poller() {
    let (clock, queue) = start();
    let mut sleep = pin!(clock.sleep(5 * MS));
    let wakes: [Arc<Wakes>; 3] = Default::default();
    for woken in &wakes {
        woken.poll(|context| sleep.as_mut().poll(context));
        assert_eq!(queue.entries().wakers.len(), 1);
    }
    clock.sleep(10 * MS).await;
    assert_eq!(wakes.each_ref().map(|woken| woken.count()), [0, 0, 1]);
}

#[test]
fn the_runtimes_end_wakes_sleepers_which_sleep_on() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (clock, _) = runtime.block_on(async { start() });
    let (gone, woken) = (Arc::<Wakes>::default(), Arc::<Wakes>::default());
    let late = clock.now() + 3_600_000 * MS;
    gone.poll(|context| pin!(clock.sleep_until(late)).poll(context));
    let mut sleep = pin!(clock.sleep_until(late));
    woken.poll(|context| sleep.as_mut().poll(context));
    drop(runtime);
    assert_eq!((gone.count(), woken.count()), (0, 1));
    // There is no runtime here, nor any timer.
    woken.poll(|context| sleep.as_mut().poll(context));
    let mut soon = pin!(clock.sleep(5 * MS));
    woken.poll(|context| soon.as_mut().poll(context));
    wait_until(|| woken.count() == 2);
    assert!(poll(soon.as_mut()).is_ready() && poll(sleep.as_mut()).is_pending());
}

#[test]
fn a_stalled_runtime_still_wakes_sleepers_elsewhere() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (clock, _) = runtime.block_on(async { start() });
    let began = clock.now();
    // Each comes sooner than the one before it.
    let moments = [3_600_000, 80, 40].map(|after| began + after * MS);
    let wakes: [Arc<Wakes>; 3] = Default::default();
    let mut sleeps = moments.map(|at| Box::pin(clock.sleep_until(at)));
    for (woken, sleep) in wakes.iter().zip(&mut sleeps) {
        woken.poll(|context| sleep.as_mut().poll(context));
        // By then the watchdog sleeps until that moment.
        std::thread::sleep(5 * MS);
    }
    for nth in [2, 1] {
        wait_until(|| wakes[nth].count() == 1);
        assert!(poll(sleeps[nth].as_mut()).is_ready() && clock.now() >= moments[nth]);
    }
    assert_eq!(wakes[0].count(), 0);
}

/// A waker whose first call goes on when it is told to, as that of a thread which the machine stops.
struct Stopped {
    is_called: AtomicBool,
    goes_on: Mutex<mpsc::Receiver<()>>,
}

impl Wake for Stopped {
    fn wake(self: Arc<Self>) {
        if !self.is_called.swap(true, Ordering::SeqCst) {
            self.goes_on.lock().unwrap().recv().unwrap_err();
        }
    }
}

#[test]
fn the_task_wakes_what_a_stopped_watchdog_has_found() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (clock, queue) = runtime.block_on(async { start() });
    let at = clock.now() + 200 * MS;
    let (go_on, goes_on) = mpsc::channel();
    let stopped = Arc::new(Stopped { is_called: AtomicBool::new(false), goes_on: Mutex::new(goes_on) });
    let (mut first, mut second) = (pin!(clock.sleep_until(at)), pin!(clock.sleep_until(at)));
    assert!(first.as_mut().poll(&mut Context::from_waker(&stopped.clone().into())).is_pending());
    let woken = Arc::<Wakes>::default();
    woken.poll(|context| second.as_mut().poll(context));
    wait_until(|| stopped.is_called.load(Ordering::SeqCst));
    queue.wake_due(clock.now());
    assert_eq!(woken.count(), 1);
    drop(go_on);
}

/// A client that is used by the tasks of its own runtime alone has one thread less.
#[test]
fn sleepers_of_the_runtime_itself_start_no_thread() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let clock = runtime.block_on(async {
        let (clock, _) = start();
        let slept = clock.clone();
        tokio::spawn(async move { slept.sleep(5 * MS).await }).await.unwrap();
        clock
    });
    let watchdog =
        || clock.0.queue.as_ref().and_then(|of| of.watchdog.as_ref()).expect("it is not simulated");
    assert!(!watchdog().is_started());
    Arc::<Wakes>::default().poll(|context| pin!(clock.sleep(MS)).poll(context));
    assert!(watchdog().is_started());
}

/// Waits for something that is done by another thread.
fn wait_until(is_done: impl Fn() -> bool) {
    let began = Clock::system().now();
    while !is_done() {
        assert!(Clock::system().now().since(began) < 20_000 * MS, "it is never done");
        std::thread::yield_now();
    }
}
