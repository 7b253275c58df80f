//! Five servers, two clients, and a resource that both write to.

use std::time::{Duration, Instant};

use lock_conformance::Harness;
use lock_core::{Fence, Guard, Options};
use lock_test_servers::{Clock, Owned, RedisAdmin};

use crate::Outcome;
use crate::claims::Of;
use crate::claims::play::harness::Tried;
use crate::clusters::{start, url_of};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RoundResult {
    /// The first client was granted the lock at all.
    pub(crate) granted: bool,
    /// The first client relied on its lock when the second was granted it.
    pub(crate) two_held: bool,
    /// The first client wrote after the second.
    pub(crate) stale: bool,
    /// The resource took that write.
    pub(crate) taken: bool,
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

    /// Returns the lock that a client of its own was granted; `None` if it was granted nothing in time.
    pub(super) async fn acquire(&self) -> Outcome<Option<Guard>> {
        granted_within(&self.tried_here(), "story", TTL, TRIES).await
    }

    /// Returns whether the resource takes the write of a holder.
    pub(super) fn takes(&self, guard: &Guard) -> bool {
        self.fence.accept(guard.token()).is_ok()
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

/// Connects and tries until it is granted the lock for one ttl, without renewals, or this time is over. A connection that
/// broke costs a try.
pub(crate) async fn granted_within(
    tried: &Tried,
    name: &str,
    ttl: Duration,
    limit: Duration,
) -> Outcome<Option<Guard>> {
    let ends = Instant::now() + limit;
    while Instant::now() < ends {
        match attempt(tried, name, ttl).await {
            Ok(Some(guard)) => return Ok(Some(guard)),
            Err(error) if !error.is_transient() => return Err(error.into()),
            // Another client holds it, or too few servers have a vote.
            Ok(None) | Err(_) => tokio::time::sleep(BETWEEN_TRIES).await,
        }
    }
    Ok(None)
}

async fn attempt(tried: &Tried, name: &str, ttl: Duration) -> lock_core::Result<Option<Guard>> {
    let client = tried.open(Options::default().patience(PATIENCE)).await?;
    client.lock(name).ttl(ttl).fixed_lease().build()?.try_acquire().await
}
