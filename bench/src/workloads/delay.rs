//! `delay`: how long after a release a waiter of another process has the lock, where waiters have to poll.

use std::time::{Duration, Instant};

use async_trait::async_trait;
use futures_util::future::try_join_all;

use crate::Outcome;
use crate::clock::shared_now;
use crate::rounds::Measurement;
use crate::subjects::{Kind, Side, Subject};
use crate::tally::{Slice, median};
use crate::workloads::messages::Order;
use crate::workloads::other_process::OtherProcess;

/// So many pairs of processes are measured at once, each on a name of its own.
const PAIRS: usize = 8;
/// The waiter waits for so long before the release.
const WAITS: [Duration; 4] = [
    Duration::from_millis(50),
    Duration::from_millis(200),
    Duration::from_millis(800),
    Duration::from_millis(3000),
];
/// The share of the delays that has to lie below the delay that is allowed.
const MOST: f64 = 0.99;
const TRIPS: usize = 100;

/// The holders in this process, and the waiters in others.
pub(crate) struct Delay {
    pairs: Vec<Pair>,
    _subject: Box<dyn Subject>,
}

struct Pair {
    here: Box<dyn Side>,
    there: OtherProcess,
}

/// One release, and the wait for it.
struct Sample {
    waited: Duration,
    delay: Duration,
}

impl Sample {
    /// Returns the delay, less the time that a free lock takes, as a share of the delay that is allowed.
    fn share(&self, trip: Duration) -> f64 {
        self.delay.saturating_sub(trip).as_secs_f64() / allowed(self.waited).as_secs_f64()
    }
}

impl Delay {
    pub(crate) async fn new(kind: Kind, url: &str, name: impl Fn(usize) -> String) -> Outcome<Delay> {
        let subject = kind.connect(url).await?;
        let mut pairs = Vec::new();
        for name in (0..PAIRS).map(name) {
            pairs.push(Pair {
                here: subject.side(&name).await?,
                there: OtherProcess::start(kind, url, &name).await?,
            });
        }
        Ok(Delay { pairs, _subject: subject })
    }

    /// Measures how long taking a free lock takes: no waiter can be faster.
    async fn trip(&mut self) -> Outcome<Duration> {
        let here = &mut self.pairs[0].here;
        let mut trips = Vec::new();
        for _ in 0..TRIPS {
            let began = Instant::now();
            here.acquire().await?;
            trips.push(began.elapsed().as_secs_f64());
            here.release().await?;
        }
        Ok(Duration::from_secs_f64(median(trips).unwrap_or_default()))
    }
}

impl Pair {
    async fn measure(&mut self, nth: usize, end: Instant) -> Outcome<Vec<Sample>> {
        let mut samples = Vec::new();
        // Each pair begins with another wait, so that short and long waits are mixed.
        for wait in WAITS.into_iter().cycle().skip(nth) {
            if Instant::now() >= end {
                break;
            }
            samples.push(self.once(wait).await?);
        }
        Ok(samples)
    }

    async fn once(&mut self, wait: Duration) -> Outcome<Sample> {
        self.here.acquire().await?;
        let asked = shared_now();
        self.there.tell(Order::Acquire).await?;
        tokio::time::sleep(wait).await;
        let released = shared_now();
        self.here.release().await?;
        let granted = self.there.granted().await?;
        self.there.release().await?;
        Ok(Sample { waited: released.saturating_sub(asked), delay: granted.saturating_sub(released) })
    }
}

/// Returns the delay that is allowed: an eighth of the wait, from 5 to 250 ms.
fn allowed(waited: Duration) -> Duration {
    (waited / 8).clamp(Duration::from_millis(5), Duration::from_millis(250))
}

/// Returns the share that `MOST` of the samples don't exceed.
fn share(samples: &[Sample], trip: Duration) -> Option<f64> {
    let mut shares: Vec<f64> = samples.iter().map(|sample| sample.share(trip)).collect();
    shares.sort_by(f64::total_cmp);
    let rank = (shares.len() as f64 * MOST).ceil() as usize;
    shares.get(rank.checked_sub(1)?).copied()
}

#[async_trait]
impl Measurement for Delay {
    async fn run(&mut self, length: Duration) -> Outcome<Slice> {
        let trip = self.trip().await?;
        let (start, end) = (Instant::now(), Instant::now() + length);
        let pairs = self.pairs.iter_mut().enumerate().map(|(nth, pair)| pair.measure(nth, end));
        let samples: Vec<Sample> = try_join_all(pairs).await?.into_iter().flatten().collect();
        let share = share(&samples, trip);
        let extra = share.map(|share| ("delay_over_allowed", share)).into_iter().collect();
        let mut slice = Slice { extra, ..Slice::default() };
        samples.iter().for_each(|sample| slice.record(sample.delay));
        slice.rate = samples.len() as f64 / start.elapsed().as_secs_f64();
        Ok(slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_of_what_is_allowed_then() {
        let millis = Duration::from_millis;
        let sample = |waited, delay| Sample { waited: millis(waited), delay: millis(delay) };
        let samples = [sample(8, 6), sample(800, 51), sample(60_000, 126)];
        // The delays less 1 ms, and what is allowed: 5 of 5 ms, 50 of 100, 125 of 250.
        assert_eq!(share(&samples, millis(1)), Some(1.0));
        assert_eq!(share(&samples[1..], millis(1)), Some(0.5));
        assert_eq!(share(&[], millis(1)), None);
    }
}
