//! `renewal`: one renewal after the other, while no client waits for the lock, or while many do.

use std::time::{Duration, Instant};

use async_trait::async_trait;
use onelock::{Client, Ending};

use crate::Outcome;
use crate::rounds::Lane;
use crate::subjects::{Kind, TTL};
use crate::tally::Slice;
use crate::workloads::orders::Order;
use crate::workloads::other::Other;

/// The pause between two renewals, in which a holder would do its work.
const PAUSE: Duration = Duration::from_millis(1);

/// The waiters meanwhile: this many clients in one other process, each with connections of its own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Crowd(usize);

impl Crowd {
    pub(crate) const MANY: Crowd = Crowd(100);
}

/// One holder.
pub(crate) struct Renewals {
    client: Client,
    name: String,
    crowd: Option<Other>,
}

impl Renewals {
    pub(crate) async fn new(url: &str, name: &str, crowd: Option<Crowd>) -> Outcome<Renewals> {
        let crowd = match crowd {
            Some(Crowd(clients)) => {
                let mut other = Other::start(Kind::Ours, url, name).await?;
                other.order(Order::Gather(clients)).await?;
                Some(other)
            }
            None => None,
        };
        Ok(Renewals { client: onelock::connect(url).await?, name: name.to_owned(), crowd })
    }
}

#[async_trait]
impl Lane for Renewals {
    async fn run(&mut self, length: Duration) -> Outcome<Slice> {
        let guard = self.client.lock(&*self.name).ttl(TTL).build()?.acquire().await?;
        if let Some(crowd) = &mut self.crowd {
            crowd.order(Order::Beset).await?;
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
        if let Some(crowd) = &mut self.crowd {
            crowd.order(Order::Leave).await?;
        }
        match guard.release().await {
            Ending::Released => Ok(slice),
            Ending::Expired => Err("the lock expired although it was renewed".into()),
        }
    }
}
