//! `hand-over`: two other processes hold one name in turn. It measures from before the release in the one to the grant in
//! the other, which has been waiting for it.

use std::time::{Duration, Instant};

use async_trait::async_trait;

use crate::Outcome;
use crate::rounds::Measurement;
use crate::subjects::Kind;
use crate::subjects::peers::Peer;
use crate::tally::Slice;
use crate::workloads::cycles::WARM_UP;
use crate::workloads::messages::Order;
use crate::workloads::other_process::OtherProcess;

/// The waiter begins its wait within this time: several round trips on any machine.
const SETTLE: Duration = Duration::from_millis(3);

/// Two processes of one subject.
pub(crate) struct HandOver {
    /// The one that acquires first in a slice, and then the one that holds the lock.
    holder: OtherProcess,
    waiter: OtherProcess,
}

impl HandOver {
    pub(crate) async fn new(kind: Kind, url: &str, name: &str) -> Outcome<HandOver> {
        let holder = OtherProcess::start(kind, url, name).await?;
        let mut hand_over = HandOver { holder, waiter: OtherProcess::start(kind, url, name).await? };
        if let Kind::Peer(Peer { program: Some(_), .. }) = kind {
            hand_over.run(WARM_UP).await?;
        }
        Ok(hand_over)
    }

    /// Hands the lock from the one to the other, and returns how long that took.
    async fn hand_over(&mut self) -> Outcome<Duration> {
        self.waiter.tell(Order::Acquire).await?;
        tokio::time::sleep(SETTLE).await;
        let released = self.holder.release().await?;
        let granted = self.waiter.granted().await?;
        std::mem::swap(&mut self.holder, &mut self.waiter);
        Ok(granted.saturating_sub(released))
    }
}

#[async_trait]
impl Measurement for HandOver {
    /// The rate is that of the hand-overs if nothing else were done.
    async fn run(&mut self, length: Duration) -> Outcome<Slice> {
        self.holder.go_on()?;
        self.waiter.go_on()?;
        let (end, mut slice) = (Instant::now() + length, Slice::default());
        self.holder.tell(Order::Acquire).await?;
        self.holder.granted().await?;
        while Instant::now() < end {
            match self.hand_over().await {
                Ok(latency) => slice.record(latency),
                Err(error) => {
                    // It is not known which side holds the lock now: the slice is over, and both sides release it.
                    slice.errors.push(error.to_string());
                    self.waiter.release().await?;
                    break;
                }
            }
        }
        self.holder.release().await?;
        let took: u64 = slice.latencies.iter().sum();
        slice.rate = slice.latencies.len() as f64 / Duration::from_nanos(took.max(1)).as_secs_f64();
        self.holder.stop()?;
        self.waiter.stop()?;
        Ok(slice)
    }
}
