//! `open-loop`: cycles that begin on a fixed schedule, whether or not the ones before them have ended.
//!
//! In a closed loop, a slow cycle delays the next one, which is then not timed while it would have been slow, too: its
//! latencies leave out most of the time in which the server was slow (coordinated omission). Here the latency of a
//! cycle counts from the moment at which the schedule has it begin.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use tokio::sync::mpsc::{self, UnboundedReceiver};
use tokio::task::JoinSet;

use crate::Outcome;
use crate::rounds::Measurement;
use crate::subjects::Worker;
use crate::tally::Slice;

/// Workers that begin cycles on a schedule. A cycle for which no worker is free waits, and its latency counts.
pub(crate) struct OpenLoop {
    idle: VecDeque<Box<dyn Worker>>,
    schedule: Schedule,
}

/// The moments at which cycles begin: one in each interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Schedule {
    per_s: f64,
}

impl Schedule {
    /// Returns the schedule with this many cycles a second.
    ///
    /// # Errors
    ///
    /// If the rate is not a positive number.
    pub(crate) fn of(per_s: f64) -> Outcome<Schedule> {
        match per_s.is_finite() && per_s > 0.0 {
            true => Ok(Schedule { per_s }),
            false => Err(format!("{per_s} cycles a second can't be scheduled").into()),
        }
    }

    /// Returns how long after the start the `n`th cycle begins.
    fn offset(self, n: u64) -> Duration {
        Duration::from_secs_f64(n as f64 / self.per_s)
    }

    /// Returns how many cycles begin within `length`: at least one.
    fn count(self, length: Duration) -> u64 {
        ((length.as_secs_f64() * self.per_s) as u64).max(1)
    }

    /// Returns each moment when it has come, from now on for `length`.
    ///
    /// They come from a thread of its own, because the runtime's timers are only precise to a millisecond.
    fn arrivals(self, length: Duration) -> UnboundedReceiver<Instant> {
        let (sender, receiver) = mpsc::unbounded_channel();
        let start = Instant::now();
        tokio::task::spawn_blocking(move || {
            for n in 0..self.count(length) {
                let intended = start + self.offset(n);
                std::thread::sleep(intended.saturating_duration_since(Instant::now()));
                if sender.send(intended).is_err() {
                    return; // the measurement was given up
                }
            }
        });
        receiver
    }
}

/// What became of one cycle.
struct Done {
    worker: Box<dyn Worker>,
    intended: Instant,
    /// How late the cycle was begun.
    late: Duration,
    ended: Instant,
    outcome: Outcome<()>,
}

async fn cycle(mut worker: Box<dyn Worker>, intended: Instant) -> Done {
    let late = intended.elapsed();
    let outcome = worker.cycle().await;
    Done { worker, intended, late, ended: Instant::now(), outcome }
}

/// What a slice adds up to.
#[derive(Default)]
struct Sum {
    slice: Slice,
    late: Vec<f64>,
    in_time: u64,
}

impl Sum {
    /// Counts a cycle, and returns its worker.
    fn add(&mut self, done: Done, end: Instant) -> Box<dyn Worker> {
        match done.outcome {
            Ok(()) => {
                self.slice.record(done.ended - done.intended);
                self.late.push(done.late.as_secs_f64() * 1e6);
                self.in_time += u64::from(done.ended <= end);
            }
            Err(error) => self.slice.errors.push(error.to_string()),
        }
        done.worker
    }
}

impl OpenLoop {
    pub(crate) fn new(workers: Vec<Box<dyn Worker>>, schedule: Schedule) -> OpenLoop {
        OpenLoop { idle: workers.into(), schedule }
    }
}

#[async_trait]
impl Measurement for OpenLoop {
    async fn run(&mut self, length: Duration) -> Outcome<Slice> {
        let end = Instant::now() + length;
        let (mut sum, mut busy) = (Sum::default(), JoinSet::new());
        let mut arrivals = self.schedule.arrivals(length);
        while let Some(intended) = arrivals.recv().await {
            while let Some(done) = busy.try_join_next() {
                self.idle.push_back(sum.add(done?, end));
            }
            let worker = match self.idle.pop_front() {
                Some(worker) => worker,
                None => sum.add(busy.join_next().await.ok_or("there is no worker")??, end),
            };
            busy.spawn(cycle(worker, intended));
        }
        while let Some(done) = busy.join_next().await {
            self.idle.push_back(sum.add(done?, end));
        }
        let Sum { mut slice, late, in_time } = sum;
        slice.rate = in_time as f64 / length.as_secs_f64();
        slice.extra.push(("intended_per_s", self.schedule.per_s));
        slice.extra.extend(crate::tally::median(late).map(|late| ("begun_late_p50_us", late)));
        Ok(slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes this long for each cycle.
    struct Slow(Duration);

    #[async_trait]
    impl Worker for Slow {
        async fn cycle(&mut self) -> Outcome<()> {
            tokio::time::sleep(self.0).await;
            Ok(())
        }
    }

    #[test]
    fn a_schedule_has_one_cycle_in_each_interval() {
        let schedule = Schedule::of(200.0).unwrap();
        assert_eq!(schedule.count(Duration::from_millis(500)), 100);
        assert_eq!((schedule.offset(0), schedule.offset(3)), (Duration::ZERO, Duration::from_millis(15)));
        assert_eq!(schedule.count(Duration::from_millis(1)), 1);
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(Schedule::of(bad).is_err(), "{bad}");
        }
    }

    #[tokio::test]
    async fn a_cycle_that_has_to_wait_for_a_worker_is_timed_from_its_intended_start() {
        // One worker, which takes 20 ms, and a cycle every 5 ms: each begins 15 ms later than the one before it.
        let worker: Box<dyn Worker> = Box::new(Slow(Duration::from_millis(20)));
        let mut open = OpenLoop::new(vec![worker], Schedule::of(200.0).unwrap());
        let slice = open.run(Duration::from_millis(50)).await.unwrap();
        assert_eq!((slice.latencies.len(), slice.errors.len()), (10, 0));
        let (first, last) = (slice.latencies[0], slice.latencies[9]);
        assert!(first >= 20_000_000, "{first}");
        assert!(last >= 200_000_000 - 45_000_000, "{last}");
    }
}
