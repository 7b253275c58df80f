//! Simulated time: one queue of events for all machines. No machine in the simulation can read it.
//!
//! The runtime calls `Timeline::go_on` when all tasks wait, right before its thread would go to sleep. Each time, the
//! next event happens. No timer of the runtime is involved, because the runtime rounds those to milliseconds.

use std::collections::BTreeMap;
use std::fmt;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

use tokio::sync::{Notify, oneshot};

/// Microseconds since the history began.
pub(super) type Micros = u64;

/// Returns how many microseconds this is, rounded down.
pub(super) fn micros(duration: Duration) -> Micros {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// The number of a machine. Each client and each server has its own.
pub(super) type Machine = usize;

/// The queue of events. Cheap to clone; all clones share one queue.
#[derive(Clone)]
pub(super) struct Timeline(Arc<Line>);

struct Line {
    state: Mutex<State>,
    /// By machine: is notified when its process is killed.
    killed: Vec<Notify>,
}

#[derive(Default)]
struct State {
    now: Micros,
    order: u64,
    due: BTreeMap<Turn, (Option<Machine>, Event)>,
    /// By machine: until when it stands still; a time in the past if it runs.
    stopped: Vec<Micros>,
    /// No further event happens.
    over: bool,
    /// The task that waits for that.
    watcher: Option<Waker>,
}

/// When an event happens; when it would have happened if its machine were not stopped; and its number: of events of the
/// same time, the one that was scheduled first happens first.
type Turn = (Micros, Micros, u64);

enum Event {
    /// Completes a timer, unless that was dropped.
    Timer(oneshot::Sender<()>),
    Action(Box<dyn FnOnce() + Send>),
}

/// The longest duration of a history: one that takes longer hangs.
const LONGEST: Micros = 600_000_000;
/// The largest number of events of a history: one that has more hangs.
const MOST: u64 = 1_000_000;
/// Until when a machine whose process was killed stands still.
const FOR_EVER: Micros = Micros::MAX;

impl Timeline {
    pub(super) fn new(machines: usize) -> Timeline {
        let state = State { stopped: vec![0; machines], ..State::default() };
        let killed = (0..machines).map(|_| Notify::new()).collect();
        Timeline(Arc::new(Line { state: Mutex::new(state), killed }))
    }

    pub(super) fn now(&self) -> Micros {
        self.state().now
    }

    /// Runs `action` at the time `at`. If its machine is stopped then, runs it as soon as the machine goes on.
    pub(super) fn at(&self, at: Micros, whose: Option<Machine>, action: impl FnOnce() + Send + 'static) {
        self.state().push(at, whose, Event::Action(Box::new(action)));
    }

    /// Returns a timer of this machine. It counts from now, polled or not.
    pub(super) fn timer(&self, pause: Micros, whose: Machine) -> impl Future<Output = ()> + Send + use<> {
        let (ring, rung) = oneshot::channel();
        let mut state = self.state();
        let at = state.now.saturating_add(pause);
        state.push(at, Some(whose), Event::Timer(ring));
        drop(state);
        async move {
            if rung.await.is_err() {
                // The history is over.
                std::future::pending::<()>().await;
            }
        }
    }

    /// Stops a machine: only its clock goes on.
    pub(super) fn stop(&self, machine: Machine, until: Micros) {
        let mut state = self.state();
        state.stopped[machine] = state.stopped[machine].max(until);
    }

    pub(super) fn is_stopped(&self, machine: Machine) -> bool {
        let state = self.state();
        state.stopped[machine] > state.now
    }

    /// Returns when this machine goes on; now, if it is not stopped.
    pub(super) fn goes_on(&self, machine: Machine) -> Micros {
        let state = self.state();
        state.now.max(state.stopped[machine])
    }

    /// Resolves at this simulated time, which is no machine's clock.
    pub(super) fn comes(&self, at: Micros) -> impl Future<Output = ()> + use<> {
        let (ring, rung) = oneshot::channel();
        self.at(at, None, move || _ = ring.send(()));
        async move { _ = rung.await }
    }

    /// Returns how long this machine has been running without a stop.
    pub(super) fn awake_for(&self, machine: Machine) -> Micros {
        let state = self.state();
        state.now.saturating_sub(state.stopped[machine])
    }

    /// Kills the process of a machine: no further event happens there.
    pub(super) fn kill(&self, machine: Machine) {
        self.stop(machine, FOR_EVER);
        self.0.killed[machine].notify_one();
    }

    pub(super) fn is_killed(&self, machine: Machine) -> bool {
        self.state().stopped[machine] == FOR_EVER
    }

    /// Resolves when the process of this machine is killed.
    pub(super) async fn killed(&self, machine: Machine) {
        self.0.killed[machine].notified().await;
    }

    /// Resolves when no further event happens: a task that still waits then waits in vain. The watcher is woken after
    /// every event, so that the thread doesn't go to sleep after an event that wakes no task.
    pub(super) async fn over(&self) {
        poll_fn(|context| {
            let mut state = self.state();
            state.watcher = Some(context.waker().clone());
            if state.over { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    /// Drops all scheduled events. They own objects that own this timeline, so it would never be freed otherwise.
    pub(super) fn forget(&self) {
        let due = std::mem::take(&mut self.state().due);
        drop(due);
    }

    /// Lets the next event happen. If there is none, the history is over.
    pub(super) fn go_on(&self) {
        match self.next() {
            Some(event) => event.happen(),
            None => self.state().over = true,
        }
        let watcher = self.state().watcher.clone();
        watcher.iter().for_each(Waker::wake_by_ref);
    }

    fn next(&self) -> Option<Event> {
        let mut state = self.state();
        while state.order < MOST {
            let ((at, meant, order), (whose, event)) = state.due.pop_first()?;
            if matches!(&event, Event::Timer(ring) if ring.is_closed()) {
                continue;
            }
            let earliest = whose.map_or(0, |machine| state.stopped[machine]);
            if earliest > at {
                state.due.insert((earliest, meant, order), (whose, event));
                continue;
            }
            if at > LONGEST {
                return None;
            }
            state.now = state.now.max(at);
            return Some(event);
        }
        None
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No code that runs under this lock can panic.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn push(&mut self, at: Micros, whose: Option<Machine>, event: Event) {
        self.order += 1;
        self.due.insert((at, at, self.order), (whose, event));
    }
}

impl Event {
    fn happen(self) {
        match self {
            // If the timer was dropped meanwhile, there is nothing to do.
            Event::Timer(ring) => _ = ring.send(()),
            Event::Action(action) => action(),
        }
    }
}

impl fmt::Debug for Timeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Timeline({} us)", self.now())
    }
}
