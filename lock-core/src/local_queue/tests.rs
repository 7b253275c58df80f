//! Tests of the local queues, on a clock that only the test moves.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::hand_off_budget::{CHANCE, MOST_IN_A_ROW};
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

/// Waits for a turn.
async fn enter(queues: &Arc<LocalQueues>, name: &Name) -> Turn {
    match queues.join(name, || None) {
        Joined::Turn(turn) => turn,
        Joined::Waits(mut waiting) => waiting.arrival().await.turn,
    }
}

#[tokio::test]
async fn unused_names_leave_nothing_in_the_queue() {
    let time = ManualClock::default();
    let queues = queues_at(&time);
    for n in 0..1000 {
        let turn = enter(&queues, &Name::new(format!("n{n}")).unwrap()).await;
        turn.granted();
        turn.released(Some(false));
    }
    assert_eq!(queues.names().queues.len(), 0);
    for n in 0..1000 {
        enter(&queues, &Name::new(format!("n{n}")).unwrap()).await.released(Some(true));
    }
    time.advance(PASS_PAUSE);
    drop(enter(&queues, &Name::new("last").unwrap()).await);
    let names = queues.names();
    assert_eq!((names.queues.len(), names.kept.len()), (0, 0));
}

#[tokio::test]
async fn the_last_waiter_that_leaves_removes_the_name() {
    let (queues, name) = (queues(), Name::new("n").unwrap());
    let turn = enter(&queues, &name).await;
    let mut waiter = Box::pin(enter(&queues, &name));
    assert!(futures_util::FutureExt::now_or_never(waiter.as_mut()).is_none());
    drop(turn);
    assert_eq!(queues.names().queues.len(), 1);
    drop(waiter);
    assert_eq!(queues.names().queues.len(), 0);
}

/// Names that are in use, that come back in time and that are forgotten, one of each at a time. Each name has one turn.
#[tokio::test]
async fn a_queue_in_use_is_not_swept() {
    let time = ManualClock::default();
    let queues = queues_at(&time);
    let name = |n: u32| Name::new(format!("n{n}")).unwrap();
    let mut turns = Vec::new();
    for n in 0..100 {
        // Kept for its hand-off budget, and then in use again, when the time of the hand-off budget is over.
        enter(&queues, &name(n)).await.released(Some(true));
        turns.push(enter(&queues, &name(n)).await);
        enter(&queues, &name(1000 + n)).await.released(Some(true));
        time.advance(PASS_PAUSE / 3);
        for held in n.saturating_sub(9)..=n {
            let joined = queues.join(&name(held), || None);
            assert!(matches!(joined, Joined::Waits(_)), "n{held} has two turns");
        }
        if n >= 9 {
            drop(turns.remove(0));
        }
    }
    time.advance(PASS_PAUSE);
    drop((turns, enter(&queues, &Name::new("last").unwrap()).await));
    time.advance(PASS_PAUSE);
    drop(enter(&queues, &Name::new("last").unwrap()).await);
    assert_eq!(queues.names().queues.len(), 0);
}

/// The holder that was seen before the hand-off budget began.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Before {
    Busy,
    Nothing,
}

/// Returns how many grants a client has in a row, of twenty.
async fn hand_off_budget(
    queues: &Arc<LocalQueues>,
    name: &Name,
    before: Before,
    others: Option<bool>,
) -> u32 {
    let mut in_a_row = 0;
    loop {
        let turn = enter(queues, name).await;
        if in_a_row == 20 || turn.turns_owed() > 0 {
            return in_a_row;
        }
        if in_a_row == 0 && before == Before::Busy {
            turn.busy(queues.clock.now(), None);
        }
        turn.granted();
        turn.released(others);
        in_a_row += 1;
    }
}

#[tokio::test]
async fn a_process_defers_after_its_budget_if_others_wait() {
    for (before, others, expected) in [
        (Before::Nothing, Some(true), MOST_IN_A_ROW),
        (Before::Nothing, Some(false), 20),
        (Before::Busy, Some(false), 20),
        (Before::Busy, None, MOST_IN_A_ROW),
    ] {
        let (queues, name) = (queues(), Name::new("n").unwrap());
        assert_eq!(hand_off_budget(&queues, &name, before, others).await, expected, "{before:?}, {others:?}");
    }
}

#[tokio::test]
async fn a_merely_possible_client_gets_no_deference() {
    let (queues, name) = (queues(), Name::new("n").unwrap());
    assert_eq!(hand_off_budget(&queues, &name, Before::Nothing, None).await, 20);
    assert_eq!(
        queues.names().queues.len(),
        0,
        "a client that might be there is no reason to remember the name"
    );
    assert_eq!(hand_off_budget(&queues, &name, Before::Busy, None).await, MOST_IN_A_ROW);
    assert_eq!(
        hand_off_budget(&queues, &name, Before::Nothing, None).await,
        20,
        "it has let the client pass that it had seen"
    );
}

/// A waiter elsewhere that was woken by the release has had the time to ask.
#[tokio::test]
async fn a_task_that_pauses_between_its_holds_owes_nothing() {
    for (pause, owed) in [(Duration::ZERO, MOST_IN_A_ROW), (Duration::from_millis(1), 0)] {
        let (time, name) = (ManualClock::default(), Name::new("n").unwrap());
        let queues = queues_at(&time);
        for _ in 0..MOST_IN_A_ROW {
            let turn = enter(&queues, &name).await;
            turn.granted();
            turn.released(Some(true));
            drop(turn);
            time.advance(pause);
        }
        assert_eq!(enter(&queues, &name).await.turns_owed(), owed, "after pauses of {pause:?}");
    }
}

/// Another client has the lock first, and waits for it when this one releases it.
#[tokio::test]
async fn a_task_returns_while_earlier_waiters_are_awaited() {
    let (time, name) = (ManualClock::default(), Name::new("n").unwrap());
    let queues = queues_at(&time);
    let comes_back = async |pause| {
        let turn = enter(&queues, &name).await;
        turn.busy(queues.clock.now(), None);
        turn.granted();
        turn.released(Some(true));
        drop(turn);
        time.advance(pause);
        enter(&queues, &name).await.comes_back()
    };
    assert!(!comes_back(Duration::ZERO).await, "without a pause it is a row, which is bounded");
    assert!(comes_back(CHANCE).await && comes_back(PASS_PAUSE - CHANCE).await);
    assert!(!comes_back(PASS_PAUSE).await);
    drop(enter(&queues, &Name::new("another").unwrap()).await);
    assert_eq!(queues.names().queues.len(), 0, "and no longer");
}

/// Has one task after the other hold the lock, each of which has waited for the one before it, and has its
/// turn late, because the machine is busy. Returns the turn of one more.
async fn held_in_a_row(queues: &Arc<LocalQueues>, time: &ManualClock, name: &Name) -> Turn {
    let mut turn = enter(queues, name).await;
    for _ in 0..MOST_IN_A_ROW {
        turn.granted();
        let Joined::Waits(mut next) = queues.join(name, || None) else { panic!("a task has the turn") };
        turn.released(Some(true));
        drop(turn);
        time.advance(CHANCE * 5);
        turn = next.arrival().await.turn;
    }
    turn
}

#[tokio::test]
async fn a_client_of_dependent_tasks_defers_under_load() {
    let (time, name) = (ManualClock::default(), Name::new("n").unwrap());
    let queues = queues_at(&time);
    assert_eq!(held_in_a_row(&queues, &time, &name).await.turns_owed(), MOST_IN_A_ROW);
}

#[tokio::test]
async fn a_late_last_waiter_leaves_no_name_behind() {
    let (time, name) = (ManualClock::default(), Name::new("n").unwrap());
    let queues = queues_at(&time);
    drop(held_in_a_row(&queues, &time, &name).await);
    assert_eq!(queues.names().queues.len(), 0);
}
