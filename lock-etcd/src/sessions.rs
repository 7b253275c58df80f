//! The sessions of a client, and how one is opened and ended.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lock_core::toolkit::{self, Call, Joining, Process};
use lock_core::{Clock, Effect, Error, Random, Result};
use tokio::runtime::Handle;
use tokio::task::AbortHandle;

use crate::cluster::Cluster;
use crate::heartbeat;
use crate::key_numbers::KeyNumbers;
use crate::keys::Layout;
use crate::lease::Grant;
use crate::session::{Member, Membership, Session};
use crate::watches::Watches;

/// A client's sessions, and everything else that its claims share.
#[derive(Debug)]
pub(crate) struct Sessions {
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) layout: Layout,
    pub(crate) numbers: Arc<KeyNumbers>,
    pub(crate) watches: Watches,
    pub(crate) random: Random,
    /// The process that opened the sessions.
    process: Process,
    /// The runtime on which heartbeats run.
    runtime: Handle,
    open: toolkit::Sessions<Session>,
    /// The requested grants that were not answered, by ttl in seconds. Only the call that opens a session uses them.
    unanswered: Mutex<HashMap<i64, Grant>>,
}

/// The time that a client that is dropped may take to revoke its leases.
const LAST_REQUESTS: Duration = Duration::from_secs(1);

impl Sessions {
    pub(crate) fn new(cluster: Arc<Cluster>, layout: Layout, watches: Watches, random: Random) -> Sessions {
        let process = Process::this();
        Sessions {
            cluster,
            layout,
            numbers: Arc::default(),
            watches,
            random,
            process,
            runtime: Handle::current(),
            open: toolkit::Sessions::new(process),
            unanswered: Mutex::default(),
        }
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.cluster.clock
    }

    /// Joins the session with a ttl of `seconds`, and opens it if necessary. An error means that nothing was done for
    /// the claim.
    pub(crate) async fn join(
        self: &Arc<Self>,
        call: &Call,
        seconds: i64,
        member: &Member,
    ) -> Result<Membership> {
        let too_late = || {
            Error::unavailable(
                Effect::NotApplied,
                "no session with the server could be opened within the patience",
            )
        };
        let vacant = match self.open.join(call, whole(seconds), member).await.ok_or_else(too_late)? {
            Joining::Joined(membership) => return Ok(membership),
            Joining::Vacant(vacant) => vacant,
        };
        let grant = self.grant(seconds);
        let lease = grant.ask(&self.cluster, call).await?;
        self.unanswered().remove(&seconds);
        Ok(vacant.fill(Session::new(seconds, lease, grant.asked), |session| self.keep(session)))
    }

    /// Returns the last unanswered grant if more than half of its ttl is left; otherwise a new one.
    fn grant(&self, seconds: i64) -> Grant {
        let now = self.clock().now();
        let mut unanswered = self.unanswered();
        let half = whole(seconds) / 2;
        let is_fresh = |grant: &&Grant| now.since(grant.asked) < half;
        let grant = unanswered.get(&seconds).filter(is_fresh).copied();
        let grant = grant.unwrap_or_else(|| Grant::new(&self.random, seconds, now));
        unanswered.insert(seconds, grant);
        grant
    }

    /// Starts the task that keeps a session alive.
    fn keep(self: &Arc<Self>, session: Arc<Session>) -> AbortHandle {
        let keeping =
            heartbeat::keep_alive(session, self.cluster.clone(), Arc::downgrade(self), self.process);
        self.runtime.spawn(keeping).abort_handle()
    }

    /// Lets no more claims join a session if it is idle. Returns whether it is; the caller then revokes the lease.
    pub(crate) fn close_if_idle(&self, session: &Arc<Session>) -> bool {
        self.open.close_if_idle(session)
    }

    /// Returns the leases of the sessions that claims can join.
    pub(crate) fn leases(&self) -> Vec<i64> {
        self.open.all().iter().map(|session| session.lease().id).collect()
    }

    /// Returns whether this is a copy in a forked process. It owns nothing, so nothing may be sent for it.
    pub(crate) fn is_forked(&self) -> bool {
        self.open.is_forked()
    }

    /// Lets no more claims join a session: the next claim opens another one.
    pub(crate) fn stop_joining(&self, session: &Arc<Session>) {
        self.open.stop_joining(session);
    }

    /// Ends a session: no more claims join it, and those that have are woken.
    pub(crate) fn end(&self, session: &Arc<Session>) {
        self.open.stop_joining(session);
        session.end();
    }

    fn unanswered(&self) -> MutexGuard<'_, HashMap<i64, Grant>> {
        // Nothing that can panic half-way runs under this lock.
        self.unanswered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn whole(seconds: i64) -> Duration {
    Duration::from_secs(seconds.unsigned_abs())
}

impl Drop for Sessions {
    /// Revokes the leases. A lease that is not revoked ends by itself, because its heartbeats have stopped.
    fn drop(&mut self) {
        let open = self.open.take_all();
        if self.is_forked() {
            // Leases and sockets belong to the parent process: the sockets, and streams on them, must not be closed.
            std::mem::forget(self.cluster.clone());
            return;
        }
        let leases: Vec<i64> = open.iter().map(|(session, _)| session.lease().id).collect();
        open.iter().for_each(|(_, heartbeat)| heartbeat.abort());
        let cluster = self.cluster.clone();
        if !leases.is_empty() {
            self.runtime.spawn(async move {
                let call = &Call::begin(&cluster.clock, LAST_REQUESTS);
                for lease in leases {
                    cluster.revoke(call, lease).await.ok();
                }
            });
        }
    }
}
