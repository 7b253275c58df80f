//! What is true of any two clients that use the same locks.

use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use super::LIMIT;
use super::contender::Contender;
use super::counter::Counter;
use super::foreign::Foreign;

/// The pause between two looks at the server.
const PAUSE: Duration = Duration::from_millis(5);

/// One client holds a lock. The other one is refused, waits, and has the lock when it is released, and not before. Then
/// the first one is refused. `looker` counts the clients on the server.
pub async fn one_holds_and_the_other_waits(
    one: &mut dyn Contender,
    other: &mut dyn Contender,
    looker: &mut Foreign,
) {
    let name = "one-waits";
    one.ask(name).await;
    one.held().await;
    is_refused(other, name).await;
    other.ask(name).await;
    are_on_the_server(2, looker, name).await;
    waits_for_a_turn(other, looker).await;
    one.release(name).await;
    other.held().await;
    is_refused(one, name).await;
    other.release(name).await;
    are_on_the_server(0, looker, name).await;
}

/// One client holds a lock; a second and a third one wait for it. The second one is killed, and is gone when its
/// session has ended. The third one, which is behind it in the queue, is told of that, and still waits for the first
/// one.
pub async fn the_one_between_goes(
    first: &mut dyn Contender,
    mut second: Foreign,
    third: &mut dyn Contender,
    looker: &mut Foreign,
) {
    let name = "one-between";
    first.ask(name).await;
    first.held().await;
    second.ask(name).await;
    are_on_the_server(2, looker, name).await;
    third.ask(name).await;
    are_on_the_server(3, looker, name).await;
    drop(second);
    are_on_the_server(2, looker, name).await;
    waits_for_a_turn(third, looker).await;
    first.release(name).await;
    third.held().await;
    third.release(name).await;
}

async fn is_refused(contender: &mut dyn Contender, name: &str) {
    let answer = contender.attempt(name).await;
    assert_ne!(answer, Some(true), "{contender} got at once a lock that is held");
}

/// Takes a whole turn on another lock. By its end, a client that does not wait has what it asked for.
async fn waits_for_a_turn(contender: &mut dyn Contender, looker: &mut Foreign) {
    looker.ask("another").await;
    looker.held().await;
    looker.release("another").await;
    assert!(!contender.has_it(), "{contender} has a lock that another client holds");
}

async fn are_on_the_server(number: u64, looker: &mut Foreign, name: &str) {
    let start = Instant::now();
    loop {
        let found = looker.queue(name).await;
        if found == number {
            return;
        }
        assert!(start.elapsed() < LIMIT, "{found} hold {name} or wait for it, not {number}");
        tokio::time::sleep(PAUSE).await;
    }
}

/// Both sides acquire one lock again and again for `length`, to add one to a number that nothing else protects. No
/// addition may be lost, and each side must have had turns.
pub async fn a_storm_of_both(
    ours: Vec<Box<dyn Contender>>,
    theirs: Vec<Box<dyn Contender>>,
    length: Duration,
) {
    let counter = Counter::new().expect("there is room for a number");
    let (ours, theirs) = tokio::join!(storm(ours, &counter, length), storm(theirs, &counter, length));
    let number = counter.number().expect("a number");
    println!("turns of ours: {ours}, of theirs: {theirs}");
    assert_eq!(number, ours + theirs, "of {ours} turns of ours and {theirs} of theirs, some overlapped");
    assert!(ours > 0 && theirs > 0, "ours had {ours} turns, theirs had {theirs}");
}

/// Returns how many turns these clients had together.
async fn storm(side: Vec<Box<dyn Contender>>, counter: &Counter, length: Duration) -> u64 {
    let mut storms = JoinSet::new();
    for mut contender in side {
        let file = counter.path().to_owned();
        storms.spawn(async move { contender.storm("storm", &file, length).await });
    }
    // A panic of one of them fails the case.
    storms.join_all().await.into_iter().sum()
}
