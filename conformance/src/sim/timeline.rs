//! Time as nobody in the simulation can read it: one line of events for all machines.
//!
//! The runtime says when everybody waits: right before its thread would go to sleep. Each time it does, the next event
//! of the line happens. No timer of the runtime's is involved, so that nothing is rounded to its milliseconds.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::fmt;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use tokio::sync::{Notify, oneshot};

/// Microseconds since the history began.
pub(super) type Micros = u64;

/// Which machine: one per client.
pub(super) type Machine = usize;

/// The line of events. Cheap to clone; all clones are one.
#[derive(Clone)]
pub(super) struct Timeline(Arc<Line>);

struct Line {
    state: Mutex<State>,
    /// By machine: its process was killed.
    killed: Vec<Notify>,
}

#[derive(Default)]
struct State {
    now: Micros,
    order: u64,
    due: BinaryHeap<Reverse<Due>>,
    /// Until when each machine stands still; the past, if it doesn't.
    stopped: Vec<Micros>,
    /// Nothing happens any more.
    over: bool,
    /// Who waits for that.
    watcher: Option<Waker>,
}

struct Due {
    at: Micros,
    /// When it would have happened on a machine that is not stopped.
    meant: Micros,
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

/// No history takes longer, unless something hangs.
const LONGEST: Micros = 600_000_000;
/// Nor has it more events.
const MOST: u64 = 1_000_000;
/// Until when a machine stands still whose process was killed.
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

    /// When this machine goes on, or now.
    pub(super) fn goes_on(&self, machine: Machine) -> Micros {
        let state = self.state();
        state.now.max(state.stopped[machine])
    }

    /// Resolves at this time, by no machine's clock.
    pub(super) fn comes(&self, at: Micros) -> impl Future<Output = ()> + use<> {
        let (ring, rung) = oneshot::channel();
        self.at(at, None, move || _ = ring.send(()));
        async move { _ = rung.await }
    }

    /// For how long this machine has been running without a stop.
    pub(super) fn awake_for(&self, machine: Machine) -> Micros {
        let state = self.state();
        state.now.saturating_sub(state.stopped[machine])
    }

    /// Ends what runs on a machine: nothing happens there any more.
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

    /// Resolves when nothing happens any more: then somebody waits in vain. Looked at after every event, so that the
    /// thread doesn't go to sleep over one that wakes nobody.
    pub(super) async fn over(&self) {
        poll_fn(|context| {
            let mut state = self.state();
            state.watcher = Some(context.waker().clone());
            if state.over { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    /// Forgets what was still to happen: deeds keep what they are about, and that keeps the line.
    pub(super) fn forget(&self) {
        let due = std::mem::take(&mut self.state().due);
        drop(due);
    }

    /// Lets the next thing happen.
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
            let Reverse(due) = state.due.pop()?;
            if matches!(&due.event, Event::Timer(ring) if ring.is_closed()) {
                continue;
            }
            let earliest = due.whose.map_or(0, |machine| state.stopped[machine]);
            if earliest > due.at {
                state.due.push(Reverse(Due { at: earliest, ..due }));
                continue;
            }
            if due.at > LONGEST {
                return None;
            }
            state.now = state.now.max(due.at);
            return Some(due.event);
        }
        None
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing happens under this lock that can panic.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn push(&mut self, at: Micros, whose: Option<Machine>, event: Event) {
        self.order += 1;
        let order = self.order;
        self.due.push(Reverse(Due { at, meant: at, order, whose, event }));
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
        (self.at, self.meant, self.order).cmp(&(other.at, other.meant, other.order))
    }
}

impl fmt::Debug for Timeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Timeline({} us)", self.now())
    }
}
