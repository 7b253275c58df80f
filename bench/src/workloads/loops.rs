//! Loops that take and release a name each, at a pace that does not depend on who runs them.

use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior};

use crate::Outcome;
use crate::subjects::{Subject, Worker};

pub(super) const LOOPS: usize = 64;
/// One cycle of each loop in so long: what is beside them is to be left some of the machine.
pub(super) const PERIOD: Duration = Duration::from_millis(50);

/// How many cycles they did.
pub(super) async fn run(subject: &dyn Subject, name: &str, length: Duration) -> Outcome<u64> {
    let mut loops = JoinSet::new();
    let end = Instant::now() + length;
    for n in 0..LOOPS {
        let worker = subject.worker(&format!("{name}:{n}")).await?;
        // Not all in the same moment.
        loops.spawn(one(worker, PERIOD * n as u32 / LOOPS as u32, end));
    }
    let mut cycles = 0;
    while let Some(done) = loops.join_next().await {
        cycles += done??;
    }
    Ok(cycles)
}

async fn one(mut worker: Box<dyn Worker>, first: Duration, end: Instant) -> Outcome<u64> {
    let mut ticks = tokio::time::interval_at(Instant::now() + first, PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut cycles = 0;
    loop {
        ticks.tick().await;
        if Instant::now() >= end {
            return Ok(cycles);
        }
        worker.cycle().await?;
        cycles += 1;
    }
}
