//! `hand-over`: this process and another hold one name in turn. It measures from before the release in the one to the
//! grant in the other, which has been waiting for it.

use std::time::{Duration, Instant};

use async_trait::async_trait;

use crate::Outcome;
use crate::clock::shared_now;
use crate::rounds::Measurement;
use crate::subjects::{Kind, Side, Subject};
use crate::tally::Slice;
use crate::workloads::orders::Order;
use crate::workloads::other_process::OtherProcess;

/// How long the waiter has to begin its wait before the lock is released: several round trips on any machine.
pub(super) const SETTLE: Duration = Duration::from_millis(3);

/// Two processes of one subject.
pub(crate) struct HandOver {
    /// This process's side; it is lent to a task while it waits.
    here: Option<Box<dyn Side>>,
    there: OtherProcess,
}

impl HandOver {
    pub(crate) async fn new(kind: Kind, subject: &dyn Subject, url: &str, name: &str) -> Outcome<HandOver> {
        let here = subject.side(name).await?;
        // Started after the floor has recorded its name: no other client may use the server during the recording.
        let there = OtherProcess::start(kind, url, name).await?;
        Ok(HandOver { here: Some(here), there })
    }

    /// Hands the lock to the other process and back, and returns how long each hand-over took.
    async fn round_trip(&mut self) -> Outcome<[Duration; 2]> {
        self.there.tell(Order::Acquire).await?;
        tokio::time::sleep(SETTLE).await;
        let released = shared_now();
        self.here()?.release().await?;
        let granted = self.there.granted().await?;
        let over = granted.saturating_sub(released);

        let mut here = self.here.take().ok_or(NOT_HERE)?;
        let waits = tokio::spawn(async move {
            let outcome = here.acquire().await;
            (here, outcome.map(|()| shared_now()))
        });
        tokio::time::sleep(SETTLE).await;
        let released = self.there.release().await;
        let (here, granted) = waits.await?;
        self.here = Some(here);
        Ok([over, granted?.saturating_sub(released?)])
    }

    fn here(&mut self) -> Outcome<&mut Box<dyn Side>> {
        self.here.as_mut().ok_or_else(|| NOT_HERE.into())
    }
}

const NOT_HERE: &str = "this process's side was lost with the task in which it waited";

#[async_trait]
impl Measurement for HandOver {
    async fn run(&mut self, length: Duration) -> Outcome<Slice> {
        let end = Instant::now() + length;
        let mut slice = Slice::default();
        self.here()?.acquire().await?;
        while Instant::now() < end {
            match self.round_trip().await {
                Ok(latencies) => latencies.into_iter().for_each(|latency| slice.record(latency)),
                Err(error) => {
                    // It is not known which side holds the lock now: the slice is over, and both sides release it.
                    slice.errors.push(error.to_string());
                    self.there.release().await?;
                    break;
                }
            }
        }
        self.here()?.release().await?;
        slice.rate = rate(&slice);
        Ok(slice)
    }
}

/// Returns how many hand-overs there would be in a second if nothing else were done.
pub(super) fn rate(slice: &Slice) -> f64 {
    let took: u64 = slice.latencies.iter().sum();
    slice.latencies.len() as f64 / Duration::from_nanos(took.max(1)).as_secs_f64()
}
