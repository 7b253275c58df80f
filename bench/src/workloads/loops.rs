//! Loops that each take and release a name of their own, at a pace that doesn't depend on the subject.

use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior};

use crate::Outcome;
use crate::subjects::{Subject, Worker};

pub(super) const LOOPS: usize = 64;
/// Each loop begins one cycle in this time. That leaves part of the machine to what is measured beside the loops.
pub(super) const PERIOD: Duration = Duration::from_millis(50);

/// Runs the loops, and returns how many cycles they did.
pub(super) async fn run(subject: &dyn Subject, name: &str, length: Duration) -> Outcome<u64> {
    let mut loops = JoinSet::new();
    let end = Instant::now() + length;
    for n in 0..LOOPS {
        let worker = subject.worker(&format!("{name}:{n}")).await?;
        // The loops don't all begin in the same moment.
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
