//! `renewal`: one renewal after the other, while no client waits for the lock, or while many do.

use std::time::{Duration, Instant};

use async_trait::async_trait;
use onelock::{Client, Ending};

use crate::Outcome;
use crate::rounds::Measurement;
use crate::subjects::{Kind, TTL};
use crate::tally::Slice;
use crate::workloads::orders::Order;
use crate::workloads::other_process::OtherProcess;

/// The pause between two renewals, in which a holder would do its work.
const PAUSE: Duration = Duration::from_millis(1);

/// The waiters meanwhile: this many clients in one other process, each with connections of its own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiters(usize);

impl Waiters {
    pub(crate) const MANY: Waiters = Waiters(100);
}

/// One holder.
pub(crate) struct Renewals {
    client: Client,
    name: String,
    waiters: Option<OtherProcess>,
}

impl Renewals {
    pub(crate) async fn new(url: &str, name: &str, waiters: Option<Waiters>) -> Outcome<Renewals> {
        let waiters = match waiters {
            Some(Waiters(clients)) => {
                let mut other = OtherProcess::start(Kind::Ours, url, name).await?;
                other.order(Order::Gather(clients)).await?;
                Some(other)
            }
            None => None,
        };
        Ok(Renewals { client: onelock::connect(url).await?, name: name.to_owned(), waiters })
    }
}

#[async_trait]
impl Measurement for Renewals {
    async fn run(&mut self, length: Duration) -> Outcome<Slice> {
        let guard = self.client.lock(&*self.name).ttl(TTL).build()?.acquire().await?;
        if let Some(waiters) = &mut self.waiters {
            waiters.order(Order::WaitAll).await?;
        }
        let (mut slice, start) = (Slice::default(), Instant::now());
        while start.elapsed() < length {
            let began = Instant::now();
            match guard.renew(TTL).await {
                Ok(_) => slice.record(began.elapsed()),
                Err(error) => slice.errors.push(error.to_string()),
            }
            tokio::time::sleep(PAUSE).await;
        }
        slice.rate = slice.latencies.len() as f64 / start.elapsed().as_secs_f64();
        if let Some(waiters) = &mut self.waiters {
            waiters.order(Order::Leave).await?;
        }
        match guard.release().await {
            Ending::Released => Ok(slice),
            Ending::Expired => Err("the lock expired although it was renewed".into()),
        }
    }
}
