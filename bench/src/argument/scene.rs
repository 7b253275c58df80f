//! Five servers, two clients, and a resource that both write to.

use std::time::{Duration, Instant};

use lock_conformance::Harness;
use lock_core::{Client, Fence, Guard, Options};
use lock_test_servers::{Clock, Owned, RedisAdmin};

use crate::Outcome;
use crate::claims::Of;
use crate::claims::play::harness::Tried;
use crate::clusters::{start, url_of};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
/// A server that may have forgotten locks has no vote for so long: the longest ttl.
const MAX_TTL: Duration = Duration::from_millis(2000);
const PATIENCE: Duration = Duration::from_millis(400);
/// A client tries until every lease and every quarantine has ended.
const TRIES: Duration = Duration::from_millis(5000);
const BETWEEN_TRIES: Duration = Duration::from_millis(10);

/// The servers of one round, each of which has a vote.
pub(super) struct Scene {
    pub(super) servers: Vec<Owned>,
    /// The replica of the third server, where that has one.
    replica: Option<Owned>,
    /// The resource's check of tokens. Those of the algorithm as written are all equal, which it takes.
    fence: Fence,
    tried: Tried,
}

/// The resource has taken a write, or refused it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Write {
    Taken,
    Refused,
}

impl Scene {
    pub(super) async fn set(clock: Clock, algorithm: Of) -> Outcome<Scene> {
        let servers = start(5, clock)?;
        let tried = Tried::of(algorithm, &url_of(&servers));
        let scene = Scene { servers, replica: None, fence: Fence::new(), tried };
        scene.tried_here().init().await?;
        Ok(scene)
    }

    /// Gives the third server a replica, which copies its data and is then cut off from it.
    pub(super) async fn replicate(&mut self) -> Outcome<()> {
        let replica = start(1, Clock::Machines)?.remove(0);
        follow_for_a_moment(&self.servers[2], &replica).await?;
        self.replica = Some(replica);
        Ok(())
    }

    /// Puts the replica in the place of its primary, with the data that it has.
    pub(super) fn promote(&mut self) -> Outcome<()> {
        self.servers[2] = self.replica.take().ok_or("there is no replica")?;
        Ok(())
    }

    /// Returns the algorithm on the servers as they are now.
    fn tried_here(&self) -> Tried {
        self.tried.at(&format!("{}?max_ttl={}ms", url_of(&self.servers), MAX_TTL.as_millis()))
    }

    pub(super) async fn connect(&self) -> Outcome<Client> {
        let (tried, ends) = (self.tried_here(), Instant::now() + TRIES);
        loop {
            match tried.open(Options::default().patience(PATIENCE)).await {
                Err(e) if e.is_transient() && Instant::now() < ends => {
                    tokio::time::sleep(BETWEEN_TRIES).await;
                }
                outcome => return Ok(outcome?),
            }
        }
    }

    pub(super) fn write(&self, guard: &Guard) -> Write {
        match self.fence.accept(guard.token()) {
            Ok(()) => Write::Taken,
            Err(_) => Write::Refused,
        }
    }
}

/// Lets a replica copy the data of its primary, and cuts it off.
pub(crate) async fn follow_for_a_moment(primary: &Owned, replica: &Owned) -> Outcome<()> {
    let mut admin = RedisAdmin::of(replica.url()).await;
    let mut follow = redis::cmd("REPLICAOF");
    follow.arg("127.0.0.1").arg(primary.port()).exec_async(admin.connection()).await?;
    loop {
        let info: String = redis::cmd("INFO").arg("replication").query_async(admin.connection()).await?;
        if info.contains("master_link_status:up") {
            break;
        }
        tokio::time::sleep(BETWEEN_TRIES).await;
    }
    Ok(redis::cmd("REPLICAOF").arg("NO").arg("ONE").exec_async(admin.connection()).await?)
}

/// Tries once, for one ttl without renewals: the algorithm as described has none.
pub(super) async fn try_acquire(client: &Client) -> Outcome<Option<Guard>> {
    match client.lock("story").ttl(TTL).fixed_lease().build()?.try_acquire().await {
        // Too few servers have a vote.
        Err(e) if e.is_transient() => Ok(None),
        outcome => Ok(outcome?),
    }
}

/// Tries again and again. Returns `None` if it was granted nothing in time.
pub(super) async fn acquire(client: &Client) -> Outcome<Option<Guard>> {
    let ends = Instant::now() + TRIES;
    while Instant::now() < ends {
        if let Some(guard) = try_acquire(client).await? {
            return Ok(Some(guard));
        }
        tokio::time::sleep(BETWEEN_TRIES).await;
    }
    Ok(None)
}
