//! Time as nobody in the simulation can read it: one line of events for all machines.
//!
//! tokio's paused clock is what tells that everybody waits: it moves only then. Each time it does, the next event of
//! the line happens. The time of the line is its own, in microseconds, so that tokio's milliseconds don't round it.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;

/// Microseconds since the history began.
pub(super) type Micros = u64;

/// Which machine: one per client.
pub(super) type Machine = usize;

/// The line of events. Cheap to clone; all clones are one.
#[derive(Clone, Default)]
pub(super) struct Timeline(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    now: Micros,
    order: u64,
    due: BinaryHeap<Reverse<Due>>,
    /// Until when each machine stands still; the past, if it doesn't.
    stopped: Vec<Micros>,
}

struct Due {
    at: Micros,
    /// Of what happens at the same time, the first to be asked for comes first.
    order: u64,
    whose: Option<Machine>,
    event: Event,
}

enum Event {
    /// Somebody's timer, unless it was dropped.
    Timer(oneshot::Sender<()>),
    Deed(Box<dyn FnOnce() + Send>),
}

/// How a line came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// What was to be done is done.
    Done,
    /// Nothing would ever happen again, or not before the limit.
    Stuck,
}

impl Timeline {
    pub(super) fn new(machines: usize) -> Timeline {
        let state = State { stopped: vec![0; machines], ..State::default() };
        Timeline(Arc::new(Mutex::new(state)))
    }

    pub(super) fn now(&self) -> Micros {
        self.state().now
    }

    /// Does `deed` at the time `at`; if it happens on a machine that is stopped then, as soon as that goes on.
    pub(super) fn at(&self, at: Micros, whose: Option<Machine>, deed: impl FnOnce() + Send + 'static) {
        self.state().push(at, whose, Event::Deed(Box::new(deed)));
    }

    /// A timer of this machine. Counts from now, polled or not.
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

    /// Stops a machine: its clock goes on, and nothing else.
    pub(super) fn stop(&self, machine: Machine, until: Micros) {
        let mut state = self.state();
        state.stopped[machine] = state.stopped[machine].max(until);
    }

    pub(super) fn is_stopped(&self, machine: Machine) -> bool {
        let state = self.state();
        state.stopped[machine] > state.now
    }

    /// For how long this machine has been running without a stop.
    pub(super) fn awake_for(&self, machine: Machine) -> Micros {
        let state = self.state();
        state.now.saturating_sub(state.stopped[machine])
    }

    /// Lets things happen until `done`, at most up to `limit`.
    pub(super) async fn run(&self, limit: Micros, done: impl Fn() -> bool) -> End {
        loop {
            everybody_waits().await;
            if done() {
                return End::Done;
            }
            match self.next(limit) {
                Some(event) => event.happen(),
                None => return End::Stuck,
            }
        }
    }

    fn next(&self, limit: Micros) -> Option<Event> {
        let mut state = self.state();
        loop {
            let Reverse(due) = state.due.pop()?;
            if matches!(&due.event, Event::Timer(ring) if ring.is_closed()) {
                continue;
            }
            let earliest = due.whose.map_or(0, |machine| state.stopped[machine]);
            if earliest > due.at {
                state.due.push(Reverse(Due { at: earliest, ..due }));
                continue;
            }
            if due.at > limit {
                return None;
            }
            state.now = state.now.max(due.at);
            return Some(due.event);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing happens under this lock that can panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn push(&mut self, at: Micros, whose: Option<Machine>, event: Event) {
        self.order += 1;
        let order = self.order;
        self.due.push(Reverse(Due { at, order, whose, event }));
    }
}

impl Event {
    fn happen(self) {
        match self {
            // Dropped meanwhile: nobody minds.
            Event::Timer(ring) => _ = ring.send(()),
            Event::Deed(deed) => deed(),
        }
    }
}

/// A paused clock advances when no task can run, and not before.
async fn everybody_waits() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

impl PartialEq for Due {
    fn eq(&self, other: &Due) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Due {}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Due) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Due {
    fn cmp(&self, other: &Due) -> Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

impl fmt::Debug for Timeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Timeline({} us)", self.now())
    }
}
