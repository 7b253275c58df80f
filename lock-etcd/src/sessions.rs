//! The sessions of a client: one for each distinct ttl. One task keeps each of them alive, and closes it when it is
//! idle.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lock_core::driver::Call;
use lock_core::{Clock, Effect, Error, Random, Result};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use crate::cluster::Cluster;
use crate::heartbeat;
use crate::keys::Layout;
use crate::lease::Grant;
use crate::session::{Membership, Session};
use crate::slots::Slots;
use crate::watches::Watches;

/// A client's sessions, and everything else that its claims share.
#[derive(Debug)]
pub(crate) struct Sessions {
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) layout: Layout,
    pub(crate) slots: Arc<Slots>,
    pub(crate) watches: Watches,
    pub(crate) random: Random,
    /// The process that opened the sessions.
    process: u32,
    /// The runtime on which heartbeats run.
    runtime: Handle,
    open: Mutex<BTreeMap<i64, Open>>,
    /// Held while a session is opened, so that only one is opened at a time. The map has the requested grants that were
    /// not answered, by ttl in seconds.
    opening: tokio::sync::Mutex<HashMap<i64, Grant>>,
}

#[derive(Debug)]
struct Open {
    session: Arc<Session>,
    heartbeat: AbortHandle,
}

/// How long a client that is dropped may take to revoke its leases.
const LAST_REQUESTS: Duration = Duration::from_secs(1);

impl Sessions {
    pub(crate) fn new(cluster: Arc<Cluster>, layout: Layout, watches: Watches, random: Random) -> Sessions {
        Sessions {
            cluster,
            layout,
            slots: Arc::default(),
            watches,
            random,
            process: std::process::id(),
            runtime: Handle::current(),
            open: Mutex::default(),
            opening: tokio::sync::Mutex::default(),
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
        key: &[u8],
        wake: &Arc<Notify>,
    ) -> Result<Membership> {
        if let Some(membership) = self.join_open(seconds, key, wake) {
            return Ok(membership);
        }
        let too_late = || {
            Error::unavailable(
                Effect::NotApplied,
                "no session with the server could be opened within the patience",
            )
        };
        let mut unanswered = call.within(self.opening.lock()).await.ok_or_else(too_late)?;
        if let Some(membership) = self.join_open(seconds, key, wake) {
            return Ok(membership);
        }
        let grant = self.grant(&mut unanswered, seconds);
        let lease = grant.ask(&self.cluster, call).await?;
        unanswered.remove(&seconds);
        Ok(self.begin(Session::new(seconds, lease, grant.asked), key, wake))
    }

    /// Returns the last unanswered grant if more than half of its ttl is left; otherwise a new one.
    fn grant(&self, unanswered: &mut HashMap<i64, Grant>, seconds: i64) -> Grant {
        let now = self.clock().now();
        let half = Duration::from_secs(seconds.unsigned_abs()) / 2;
        let is_fresh = |grant: &&Grant| now.since(grant.asked) < half;
        let grant = unanswered.get(&seconds).filter(is_fresh).copied();
        let grant = grant.unwrap_or_else(|| Grant::new(&self.random, seconds, now));
        unanswered.insert(seconds, grant);
        grant
    }

    fn join_open(&self, seconds: i64, key: &[u8], wake: &Arc<Notify>) -> Option<Membership> {
        let open = self.open();
        let session = open.get(&seconds).map(|open| &open.session)?;
        let is_usable = session.is_alive() && session.ends() > self.clock().now();
        is_usable.then(|| session.join(key, wake))
    }

    fn begin(self: &Arc<Self>, session: Session, key: &[u8], wake: &Arc<Notify>) -> Membership {
        let session = Arc::new(session);
        let membership = session.join(key, wake);
        let heartbeat =
            heartbeat::keep_alive(session.clone(), self.cluster.clone(), Arc::downgrade(self), self.process);
        let heartbeat = self.runtime.spawn(heartbeat).abort_handle();
        // An older session under this key has ended; its task ends by itself.
        self.open().insert(session.seconds, Open { session, heartbeat });
        membership
    }

    /// Removes a session that no claim uses, so that no claim joins it any more. Returns whether it did; the caller
    /// then revokes the lease.
    pub(crate) fn close_if_idle(&self, session: &Arc<Session>) -> bool {
        let mut open = self.open();
        // Claims join under this lock.
        let is_idle = !self.is_forked() && !session.is_in_use();
        if is_idle {
            remove(&mut open, session);
        }
        is_idle
    }

    /// Whether a session is on this lease.
    pub(crate) fn has_lease(&self, lease: i64) -> bool {
        self.open().values().any(|open| open.session.lease().id == lease)
    }

    /// Whether this is a copy in a forked process. It owns nothing, so nothing may be sent for it.
    pub(crate) fn is_forked(&self) -> bool {
        self.process != std::process::id()
    }

    /// Lets no more claims join a session: the next claim opens another one.
    pub(crate) fn stop_joining(&self, session: &Arc<Session>) {
        remove(&mut self.open(), session);
    }

    /// Ends a session: no more claims join it, and those that have are woken.
    pub(crate) fn end(&self, session: &Arc<Session>) {
        remove(&mut self.open(), session);
        session.end();
    }

    fn open(&self) -> MutexGuard<'_, BTreeMap<i64, Open>> {
        // Nothing that can panic runs under this lock.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn remove(open: &mut BTreeMap<i64, Open>, session: &Arc<Session>) {
    if open.get(&session.seconds).is_some_and(|open| Arc::ptr_eq(&open.session, session)) {
        open.remove(&session.seconds);
    }
}

impl Drop for Sessions {
    /// Revokes the leases. A lease that is not revoked ends by itself, because its heartbeats have stopped.
    fn drop(&mut self) {
        let open = std::mem::take(&mut *self.open());
        if self.is_forked() {
            // Leases and sockets belong to the parent process: the sockets, and streams on them, must not be closed.
            std::mem::forget((open, self.cluster.clone()));
            return;
        }
        let leases: Vec<i64> = open.values().map(|open| open.session.lease().id).collect();
        open.into_values().for_each(|open| open.heartbeat.abort());
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
