//! Subjects take turns in short slices, so that what else the machine does hits all of them alike.

use std::time::Duration;

use async_trait::async_trait;

use crate::Outcome;
use crate::tally::{Slice, Tally};

/// What can be measured for a while.
#[async_trait]
pub(crate) trait Lane: Send {
    async fn run(&mut self, length: Duration) -> Outcome<Slice>;
}

/// How long one slice lasts, unless there is time for a few rounds only.
const SLICE: Duration = Duration::from_millis(250);
const FEWEST_ROUNDS: u32 = 4;
const WARM_UP: Duration = Duration::from_millis(200);
/// How much longer than its slice a subject may take for what it has begun.
const OVERTIME: Duration = Duration::from_secs(30);

/// Runs the lanes in turn until `total` is over; the tallies are in the lanes' order.
pub(crate) async fn run(lanes: &mut [Box<dyn Lane>], total: Duration) -> Outcome<Vec<Tally>> {
    for lane in lanes.iter_mut() {
        slice(lane.as_mut(), WARM_UP).await?;
    }
    let count = lanes.len();
    let length = SLICE.min(total / (FEWEST_ROUNDS * count.max(1) as u32));
    let rounds = (total.as_secs_f64() / (length.as_secs_f64() * count as f64)).round() as usize;
    let mut tallies: Vec<Tally> = lanes.iter().map(|_| Tally::default()).collect();
    for round in 0..rounds {
        for turn in 0..count {
            // Nobody is always the one behind the same other.
            let lane = (round + turn) % count;
            tallies[lane].add(slice(lanes[lane].as_mut(), length).await?);
        }
    }
    Ok(tallies)
}

async fn slice(lane: &mut dyn Lane, length: Duration) -> Outcome<Slice> {
    match tokio::time::timeout(length + OVERTIME, lane.run(length)).await {
        Ok(slice) => slice,
        Err(_) => Err(format!("a subject did not come to the end of its slice within {OVERTIME:?}").into()),
    }
}
