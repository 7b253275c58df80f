//! The local gate: the waiters of one name in one process queue here, first come first served, and one of them at a
//! time contends at the server. A thousand waiting tasks cost the server as much as one.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::clock::{Clock, Instant};
use crate::driver::Entry;
use crate::lock::FIRST_ANSWER;
use crate::name::Name;

/// How often a process hands a name over to itself in a row while others wait elsewhere.
const MOST_IN_A_ROW: u32 = 8;
/// And for how long.
const LONGEST_ROW: Duration = Duration::from_millis(50);
/// It then lets as many turns of others pass, each of which ends in a wake-up; silence for so long means that there are
/// no more. Also the pause that ends a row by itself.
pub(crate) const STAND_BACK: Duration = Duration::from_millis(5);

/// The gates of one client.
#[derive(Debug)]
pub(crate) struct Gates {
    clock: Clock,
    names: Mutex<Names>,
}

#[derive(Debug, Default)]
struct Names {
    gates: HashMap<Name, Arc<Gate>>,
    /// Gates that nobody is at but whose row still counts, the oldest first.
    kept: VecDeque<(Instant, Name)>,
}

#[derive(Debug)]
struct Gate {
    turn: Arc<Semaphore>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The newest sight, and when. One of a lock that a task of this process holds is of now.
    seen: Option<(Instant, Seen)>,
    /// Whether it is the present contender's.
    seen_in_front: bool,
    /// When the present contender's turn came.
    turn_came: Option<Instant>,
    held_here: bool,
    row: Row,
}

/// What the contender in front last saw at the server: what a waiter behind it is told when its time is up.
#[derive(Clone, Debug, Default)]
pub(crate) enum Seen {
    /// No answer yet.
    #[default]
    Nothing,
    /// The lock is held, by a task of this process or elsewhere; by whom, if that was seen.
    Held(Option<Box<Entry>>),
    /// It was held, but that was seen before this waiter came. The contender in front waits for word of its release and
    /// asks nothing meanwhile; or its turn has just come, and it has no answer yet.
    HeldBefore,
    /// The server did not answer, or not with an answer.
    Trouble(String),
}

/// Grants in a row to tasks of this process.
#[derive(Debug, Default)]
struct Row {
    grants: u32,
    since: Option<Instant>,
    released: Option<Instant>,
    /// Whether a client was seen, or told of, that wants the name, too. Who might be there is no reason to stand back.
    others_wait: bool,
}

impl Gates {
    pub(crate) fn new(clock: Clock) -> Gates {
        Gates { clock, names: Mutex::default() }
    }

    /// Waits for this task's turn at `name`. Cancel safe: who leaves loses its place.
    pub(crate) async fn enter(self: &Arc<Self>, name: &Name) -> Turn {
        let gate = self.gate(name);
        let turn = gate.turn.clone();
        // Alone in its count: who gives up here may be the last one at the gate.
        let place = Place { gates: self.clone(), name: name.clone(), gate: Some(gate) };
        // The semaphore is never closed.
        let permit = turn.acquire_owned().await.expect("a gate stays open");
        let turn = Turn { permit: Some(permit), place };
        turn.gate().state().turn_came = Some(turn.now());
        turn
    }

    /// What was last seen of `name`, since this moment, by whoever stood in front.
    pub(crate) fn seen_since(&self, since: Instant, name: &Name) -> Seen {
        let names = self.names();
        let Some(gate) = names.gates.get(name) else { return Seen::Nothing };
        let state = gate.state();
        match &state.seen {
            _ if state.held_here => Seen::Held(None),
            Some((at, Seen::Held(Some(holder)))) if *at >= since => {
                let holder = Entry::clone(holder).later(self.clock.now().since(*at));
                Seen::Held(Some(holder.into()))
            }
            Some((at, seen)) if *at >= since => seen.clone(),
            // Of one that came before it: its own attempts are newer, once the server has had time for an answer.
            Some((_, Seen::Held(_))) if state.seen_in_front || self.has_just_come(&state) => Seen::HeldBefore,
            _ => Seen::Nothing,
        }
    }

    fn has_just_come(&self, state: &State) -> bool {
        state.turn_came.is_some_and(|at| self.clock.now().since(at) < FIRST_ANSWER)
    }

    fn gate(&self, name: &Name) -> Arc<Gate> {
        let mut names = self.names();
        names.sweep(self.clock.now());
        if let Some(gate) = names.gates.get(name) {
            return gate.clone();
        }
        let gate = Arc::new(Gate { turn: Arc::new(Semaphore::new(1)), state: Mutex::default() });
        names.gates.insert(name.clone(), gate.clone());
        gate
    }

    fn names(&self) -> MutexGuard<'_, Names> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Names {
    /// Forgets the gates whose row has stopped to count. Each was kept once: no call does much.
    fn sweep(&mut self, now: Instant) {
        while self.kept.front().is_some_and(|(at, _)| now.since(*at) >= STAND_BACK) {
            let Some((_, name)) = self.kept.pop_front() else { return };
            if let Some(gate) = self.gates.get(&name)
                && Arc::strong_count(gate) == 1
                && !gate.state().row.counts(now)
            {
                self.gates.remove(&name);
            }
        }
    }
}

impl Gate {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Row {
    /// Whether the row still matters to who comes next.
    fn counts(&self, now: Instant) -> bool {
        self.others_wait && self.released.is_some_and(|at| now.since(at) < STAND_BACK)
    }

    fn is_full(&self, now: Instant) -> bool {
        self.counts(now)
            && (self.grants >= MOST_IN_A_ROW || self.since.is_some_and(|at| now.since(at) >= LONGEST_ROW))
    }

    fn granted(&mut self, now: Instant) {
        if !self.counts(now) {
            *self = Row { since: Some(now), others_wait: self.others_wait, ..Row::default() };
        }
        self.grants += 1;
    }
}

/// A place in the queue of a gate. Takes the gate away when the last one leaves.
#[derive(Debug)]
struct Place {
    gates: Arc<Gates>,
    name: Name,
    gate: Option<Arc<Gate>>,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut names = self.gates.names();
        let Some(gate) = self.gate.take() else { return };
        // The map's and ours: nobody can come in between, since gates are handed out under the map's lock.
        if Arc::strong_count(&gate) > 2 {
            return;
        }
        let now = self.gates.clock.now();
        if gate.state().row.counts(now) {
            names.kept.push_back((now, self.name.clone()));
        } else {
            names.gates.remove(&self.name);
        }
    }
}

/// The right to contend for a name at the server; dropped, the next waiter of this process has it.
#[derive(Debug)]
pub(crate) struct Turn {
    // Given back before the place, so that a successor never finds the gate gone.
    permit: Option<OwnedSemaphorePermit>,
    place: Place,
}

impl Turn {
    /// How many turns of others this process lets pass, because it has had so many in a row while they waited.
    pub(crate) fn owed(&self) -> u32 {
        let now = self.now();
        let mut state = self.gate().state();
        match state.row.is_full(now) {
            true => std::mem::take(&mut state.row).grants,
            false => 0,
        }
    }

    pub(crate) fn granted(&self) {
        let now = self.now();
        let mut state = self.gate().state();
        state.held_here = true;
        state.row.granted(now);
    }

    /// Another client has it: whatever row there was has ended, and that client may want it again.
    ///
    /// What an attempt saw is of some moment after it was `asked`: a caller who came later can't go by it.
    pub(crate) fn busy(&self, asked: Instant, holder: Option<&Entry>) {
        let mut state = self.gate().state();
        state.seen = Some((asked, Seen::Held(holder.cloned().map(Box::new))));
        state.seen_in_front = true;
        state.row = Row { others_wait: true, ..Row::default() };
    }

    /// The server did not answer what it was `asked`.
    pub(crate) fn trouble(&self, asked: Instant, what: String) {
        self.gate().state().seen = Some((asked, Seen::Trouble(what)));
    }

    /// Where the server can't say whether others wait, what was seen of them counts.
    pub(crate) fn released(&self, others: Option<bool>) {
        let now = self.now();
        let mut state = self.gate().state();
        state.row.others_wait = others.unwrap_or(state.row.others_wait);
        state.row.released = Some(now);
    }

    fn now(&self) -> Instant {
        self.place.gates.clock.now()
    }

    fn gate(&self) -> &Gate {
        // Taken only when the place is dropped, which is when this turn is.
        self.place.gate.as_deref().expect("a turn has its gate")
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let now = self.now();
        let mut state = self.gate().state();
        state.seen_in_front = false;
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

    /// It stands still unless it is told to go on: how long a test takes is nothing to the gates.
    #[derive(Clone, Debug, Default)]
    struct Still(Arc<AtomicU64>);

    impl Still {
        fn passes(&self, pause: Duration) {
            self.0.fetch_add(u64::try_from(pause.as_millis()).unwrap(), Ordering::Relaxed);
        }
    }

    impl Time for Still {
        fn now(&self) -> Instant {
            Instant::from_origin(Duration::from_millis(self.0.load(Ordering::Relaxed)))
        }

        fn timer(&self, _: Duration) -> Timer {
            Box::pin(std::future::pending())
        }
    }

    fn gates() -> Arc<Gates> {
        gates_at(&Still::default())
    }

    fn gates_at(time: &Still) -> Arc<Gates> {
        Arc::new(Gates::new(Clock::new(time.clone())))
    }

    #[tokio::test]
    async fn nothing_is_kept_of_names_that_nobody_is_at() {
        let time = Still::default();
        let gates = gates_at(&time);
        for n in 0..1000 {
            let turn = gates.enter(&Name::new(format!("n{n}")).unwrap()).await;
            turn.granted();
            turn.released(Some(false));
        }
        assert_eq!(gates.names().gates.len(), 0);
        for n in 0..1000 {
            gates.enter(&Name::new(format!("n{n}")).unwrap()).await.released(Some(true));
        }
        time.passes(STAND_BACK);
        drop(gates.enter(&Name::new("last").unwrap()).await);
        let names = gates.names();
        assert_eq!((names.gates.len(), names.kept.len()), (0, 0));
    }

    #[tokio::test]
    async fn nothing_is_kept_of_a_name_whose_last_waiter_gives_up() {
        let (gates, name) = (gates(), Name::new("n").unwrap());
        let turn = gates.enter(&name).await;
        let mut waiter = Box::pin(gates.enter(&name));
        assert!(futures_util::FutureExt::now_or_never(waiter.as_mut()).is_none());
        drop(turn);
        assert_eq!(gates.names().gates.len(), 1);
        drop(waiter);
        assert_eq!(gates.names().gates.len(), 0);
    }

    /// Whether another client was seen to hold it, before the row.
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Before {
        Busy,
        Nothing,
    }

    /// How many grants a process has in a row, of twenty.
    async fn row(gates: &Arc<Gates>, name: &Name, before: Before, others: Option<bool>) -> u32 {
        let mut row = 0;
        loop {
            let turn = gates.enter(name).await;
            if row == 20 || turn.owed() > 0 {
                return row;
            }
            if row == 0 && before == Before::Busy {
                turn.busy(gates.clock.now(), None);
            }
            turn.granted();
            turn.released(others);
            row += 1;
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
            let (gates, name) = (gates(), Name::new("n").unwrap());
            assert_eq!(row(&gates, &name, before, others).await, expected, "{before:?}, {others:?}");
        }
    }

    #[tokio::test]
    async fn who_might_be_there_is_no_reason_to_stand_back() {
        let (gates, name) = (gates(), Name::new("n").unwrap());
        assert_eq!(row(&gates, &name, Before::Nothing, None).await, 20);
        assert_eq!(gates.names().gates.len(), 0, "nor to remember the name");
        assert_eq!(row(&gates, &name, Before::Busy, None).await, MOST_IN_A_ROW);
        assert_eq!(
            row(&gates, &name, Before::Nothing, None).await,
            20,
            "it has let the one pass that it saw"
        );
    }
}
