//! A number that both sides add to, under one lock or without one.

use std::time::Duration;

use tokio::task::JoinSet;

use super::Contender;
use crate::counter::Counter;

/// The length and the pace of a storm.
#[derive(Clone, Copy, Debug)]
pub struct Storm {
    /// After this time, no client begins another turn.
    pub length: Duration,
    /// The time that a client spends on something else after each of its turns. Where waiters poll, they come between
    /// two turns only if these have such a pause.
    pub pause: Duration,
}

/// Both sides acquire one lock again and again, to add one to a number that nothing else protects. No addition may be
/// lost. Each side must have had turns while the other side was there: more than the last one of each client, which may
/// begin when the storm has ended.
pub async fn a_storm_of_both(ours: Vec<Box<dyn Contender>>, theirs: Vec<Box<dyn Contender>>, storm: Storm) {
    let counter = Counter::new().expect("there is room for a number");
    let last = (ours.len() as u64, theirs.len() as u64);
    let (ours, theirs) = tokio::join!(turns(ours, &counter, storm), turns(theirs, &counter, storm));
    let number = counter.number().expect("a number");
    println!("turns of ours: {ours}, of theirs: {theirs}");
    assert_eq!(number, ours + theirs, "of {ours} turns of ours and {theirs} of theirs, some overlapped");
    assert!(ours > last.0 && theirs > last.1, "ours had {ours} turns, theirs had {theirs}");
}

/// Returns how many turns these clients had together.
async fn turns(side: Vec<Box<dyn Contender>>, counter: &Counter, storm: Storm) -> u64 {
    let mut storms = JoinSet::new();
    for mut contender in side {
        let file = counter.path().to_owned();
        storms.spawn(async move { contender.storm("storm", &file, storm).await });
    }
    // A panic of one of them fails the case.
    storms.join_all().await.into_iter().sum()
}

/// Checks that the number shows what a lock prevents: with a lock each, additions are lost. Otherwise a storm would
/// prove nothing.
pub async fn with_a_lock_each_they_miscount(
    one: &mut dyn Contender,
    other: &mut dyn Contender,
    length: Duration,
) {
    let counter = Counter::new().expect("there is room for a number");
    let (file, storm) = (counter.path(), Storm { length, pause: Duration::ZERO });
    let (one, other) = tokio::join!(one.storm("one", file, storm), other.storm("other", file, storm));
    let number = counter.number().expect("a number");
    assert!(number < one + other, "{number} after {one} turns and {other}: none overlapped");
}
