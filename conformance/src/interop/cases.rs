//! What is true of any two clients that have the same locks.

use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use super::LIMIT;
use super::contender::Contender;
use super::counter::Counter;
use super::foreign::Foreign;

/// Between two looks at the server.
const PAUSE: Duration = Duration::from_millis(5);

/// One holds a lock: the other is told so, waits, and has it when it is released, and not before. Then the first one is
/// told so. `looker` sees who is on the server.
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

/// One holds a lock, a second and a third one wait for it. The second one is killed, and gone when its session is: the
/// third one, who stands behind it, hears of that, and waits for the first one all the same.
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
    assert_ne!(answer, Some(true), "{contender} has at once what is held");
}

/// By the end of a whole turn on another lock, whoever doesn't wait has what it asked for.
async fn waits_for_a_turn(contender: &mut dyn Contender, looker: &mut Foreign) {
    looker.ask("another").await;
    looker.held().await;
    looker.release("another").await;
    assert!(!contender.has_it(), "{contender} has what somebody else holds");
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

/// Both sides take one lock again and again for `length`, to add one to a number which nothing else protects: none is
/// lost, and each side has had its turns.
pub async fn a_storm_of_both(
    ours: Vec<Box<dyn Contender>>,
    theirs: Vec<Box<dyn Contender>>,
    length: Duration,
) {
    let counter = Counter::new().expect("there is room for a number");
    let (ours, theirs) = tokio::join!(storm(ours, &counter, length), storm(theirs, &counter, length));
    let number = counter.number().expect("a number");
    println!("turns of ours: {ours}, of theirs: {theirs}");
    assert_eq!(number, ours + theirs, "of {ours} turns of ours and {theirs} of theirs, some were at once");
    assert!(ours > 0 && theirs > 0, "ours had {ours} turns, theirs had {theirs}");
}

/// How many turns they had together.
async fn storm(side: Vec<Box<dyn Contender>>, counter: &Counter, length: Duration) -> u64 {
    let mut storms = JoinSet::new();
    for mut contender in side {
        let file = counter.path().to_owned();
        storms.spawn(async move { contender.storm("storm", &file, length).await });
    }
    // A panic of one of them is the case's.
    storms.join_all().await.into_iter().sum()
}
