//! Five servers, two clients, and a resource that both write to.

use std::time::{Duration, Instant};

use lock_core::{Client, Fence, Guard, Options};
use lock_test_servers::{Clock, Owned, Persistence, Redis, Settings};
use onelock::Ending;

use super::plain::{Lease, Plain};
use crate::Outcome;

/// What the clients use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Algorithm {
    /// The algorithm as Redis' manual describes it.
    AsWritten,
    /// The library.
    Ours,
}

impl Algorithm {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Algorithm::AsWritten => "as written",
            Algorithm::Ours => "lock-redlock",
        }
    }
}

/// The results of one round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RoundResult {
    /// The first client was granted the lock at all.
    pub(super) granted: bool,
    /// The first client relied on its lock when the second was granted it.
    pub(super) two_held: bool,
    /// The first client wrote after the second.
    pub(super) stale: bool,
    /// The resource took that write.
    pub(super) taken: bool,
}

pub(super) const TTL: Duration = Duration::from_millis(1200);
/// How long a node that may have forgotten locks has no vote: the longest ttl.
pub(super) const MAX_TTL: Duration = Duration::from_millis(2000);
const PATIENCE: Duration = Duration::from_millis(400);
/// How long a client tries: until every lease and every quarantine has ended.
const TRIES: Duration = Duration::from_millis(5000);
const BETWEEN_TRIES: Duration = Duration::from_millis(10);

/// The servers of one round, each of which has a vote.
pub(super) struct Scene {
    pub(super) servers: Vec<Owned>,
    /// The replica of the third server, where that has one.
    pub(super) replica: Option<Owned>,
    /// The resource's check of tokens, where there are any.
    pub(super) fence: Fence,
}

/// One client's connections.
pub(super) enum LockClient {
    AsWritten(Plain),
    Ours(Client),
}

/// A lock that was granted.
pub(super) enum Held {
    AsWritten(Lease),
    Ours(Guard),
}

/// Whether a write was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Write {
    Taken,
    Refused,
}

impl Scene {
    pub(super) async fn set(clock: Clock) -> Outcome<Scene> {
        let settings = Settings { persistence: Persistence::None, clock, ..Settings::default() };
        let starting = tokio::task::spawn_blocking(move || {
            (0..5).map(|_| Owned::start(&Redis, &settings)).collect::<Result<Vec<_>, _>>()
        });
        let servers = starting.await?.map_err(|absence| absence.to_string())?;
        let scene = Scene { servers, replica: None, fence: Fence::new() };
        onelock::connect(&scene.url()).await?.init().await?;
        Ok(scene)
    }

    /// Gives the third server a replica, which copies its data and is then cut off from it.
    pub(super) async fn replicate(&mut self) -> Outcome<()> {
        let settings = Settings { persistence: Persistence::None, ..Settings::default() };
        let starting = tokio::task::spawn_blocking(move || Owned::start(&Redis, &settings));
        let replica = starting.await?.map_err(|absence| absence.to_string())?;
        let mut connection = redis::Client::open(replica.url())?.get_multiplexed_async_connection().await?;
        let mut follow = redis::cmd("REPLICAOF");
        follow.arg("127.0.0.1").arg(self.servers[2].port()).exec_async(&mut connection).await?;
        loop {
            let info: String = redis::cmd("INFO").arg("replication").query_async(&mut connection).await?;
            if info.contains("master_link_status:up") {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        redis::cmd("REPLICAOF").arg("NO").arg("ONE").exec_async(&mut connection).await?;
        self.replica = Some(replica);
        Ok(())
    }

    /// Puts the replica in the place of its primary, with the data that it has.
    pub(super) fn promote(&mut self) -> Outcome<()> {
        self.servers[2] = self.replica.take().ok_or("there is no replica")?;
        Ok(())
    }

    pub(super) fn urls(&self) -> Vec<String> {
        self.servers.iter().map(|server| server.url().to_owned()).collect()
    }

    fn url(&self) -> String {
        let hosts: Vec<String> =
            self.urls().iter().map(|url| url.trim_start_matches("redis://").to_owned()).collect();
        format!("redlock://{}/?max_ttl={}ms", hosts.join(","), MAX_TTL.as_millis())
    }

    pub(super) async fn lock_client(&self, algorithm: Algorithm) -> Outcome<LockClient> {
        Ok(match algorithm {
            Algorithm::AsWritten => LockClient::AsWritten(Plain::of(&self.urls())?),
            Algorithm::Ours => LockClient::Ours(self.connect().await?),
        })
    }

    async fn connect(&self) -> Outcome<Client> {
        let ends = Instant::now() + TRIES;
        let options = Options::default().patience(PATIENCE);
        loop {
            match onelock::connect_with(&self.url(), options.clone()).await {
                Err(e) if e.is_transient() && Instant::now() < ends => {}
                outcome => return Ok(outcome?),
            }
            tokio::time::sleep(BETWEEN_TRIES).await;
        }
    }

    /// Writes once: to a service that checks tokens, or to one that can't because there are none.
    pub(super) fn write(&self, held: &Held) -> Write {
        match held {
            Held::AsWritten(_) => Write::Taken,
            Held::Ours(guard) => match self.fence.accept(guard.token()) {
                Ok(()) => Write::Taken,
                Err(_) => Write::Refused,
            },
        }
    }
}

impl LockClient {
    /// Tries once, for one ttl without renewals: the algorithm as described has none.
    pub(super) async fn try_acquire(&mut self) -> Outcome<Option<Held>> {
        match self {
            LockClient::AsWritten(plain) => Ok(plain.acquire("story", TTL).await?.map(Held::AsWritten)),
            LockClient::Ours(client) => {
                let lock = client.lock("story").ttl(TTL).fixed_lease().build()?;
                match lock.try_acquire().await {
                    Ok(guard) => Ok(guard.map(Held::Ours)),
                    // Too few servers have a vote.
                    Err(e) if e.is_transient() => Ok(None),
                    Err(e) => Err(e.into()),
                }
            }
        }
    }

    /// Tries again and again. Returns `None` if it was granted nothing within `TRIES`.
    pub(super) async fn acquire(&mut self) -> Outcome<Option<Held>> {
        let ends = Instant::now() + TRIES;
        while Instant::now() < ends {
            if let Some(held) = self.try_acquire().await? {
                return Ok(Some(held));
            }
            tokio::time::sleep(BETWEEN_TRIES).await;
        }
        Ok(None)
    }

    pub(super) async fn release(&self, held: Held) -> Outcome<()> {
        match (self, held) {
            (LockClient::AsWritten(plain), Held::AsWritten(lease)) => plain.release(&lease).await,
            (_, Held::Ours(guard)) => match guard.release().await {
                Ending::Released | Ending::Expired => {}
            },
            (LockClient::Ours(_), Held::AsWritten(_)) => {
                return Err("this lease belongs to another client".into());
            }
        }
        Ok(())
    }
}

impl Held {
    pub(super) fn is_held(&self) -> bool {
        match self {
            Held::AsWritten(lease) => lease.is_held(),
            Held::Ours(guard) => guard.is_held(),
        }
    }
}
