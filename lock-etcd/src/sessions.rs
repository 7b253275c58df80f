//! The sessions of a client: one for each distinct ttl, kept alive by one task each, closed when idle.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lock_core::driver::Call;
use lock_core::{Clock, Done, Error, Random, Result};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use crate::cluster::Cluster;
use crate::heartbeat;
use crate::keys::Layout;
use crate::lease::Grant;
use crate::session::{Seat, Session};
use crate::slots::Slots;
use crate::watches::Watches;

/// A client's sessions, and all else that its claims share.
#[derive(Debug)]
pub(crate) struct Sessions {
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) layout: Layout,
    pub(crate) slots: Arc<Slots>,
    pub(crate) watches: Watches,
    pub(crate) random: Random,
    /// The process that opened them.
    process: u32,
    /// Where heartbeats live.
    runtime: Handle,
    open: Mutex<BTreeMap<i64, Open>>,
    /// One opens at a time; what it has asked for and not been told, by seconds.
    opening: tokio::sync::Mutex<HashMap<i64, Grant>>,
}

#[derive(Debug)]
struct Open {
    session: Arc<Session>,
    heartbeat: AbortHandle,
}

/// How long the last words to a server may take.
const FAREWELL: Duration = Duration::from_secs(1);

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

    /// A seat in the session of so many seconds, which is opened if there is none. An error means that nothing was done
    /// for the claim.
    pub(crate) async fn join(
        self: &Arc<Self>,
        call: &Call,
        seconds: i64,
        key: &[u8],
        wake: &Arc<Notify>,
    ) -> Result<Seat> {
        if let Some(seat) = self.join_open(seconds, key, wake) {
            return Ok(seat);
        }
        let too_late = || Error::unavailable(Done::No, "no session could be opened in time");
        let mut unanswered = call.within(self.opening.lock()).await.ok_or_else(too_late)?;
        if let Some(seat) = self.join_open(seconds, key, wake) {
            return Ok(seat);
        }
        let grant = self.grant(&mut unanswered, seconds);
        let lease = grant.ask(&self.cluster, call).await?;
        unanswered.remove(&seconds);
        Ok(self.begin(Session::new(seconds, lease, grant.asked), key, wake))
    }

    /// A new grant, or the one that nobody answered, while much of it is left.
    fn grant(&self, unanswered: &mut HashMap<i64, Grant>, seconds: i64) -> Grant {
        let now = self.clock().now();
        let half = Duration::from_secs(seconds.unsigned_abs()) / 2;
        let is_fresh = |grant: &&Grant| now.since(grant.asked) < half;
        let grant = unanswered.get(&seconds).filter(is_fresh).copied();
        let grant = grant.unwrap_or_else(|| Grant::new(&self.random, seconds, now));
        unanswered.insert(seconds, grant);
        grant
    }

    fn join_open(&self, seconds: i64, key: &[u8], wake: &Arc<Notify>) -> Option<Seat> {
        let open = self.open();
        let session = open.get(&seconds).map(|open| &open.session)?;
        let is_usable = session.is_alive() && session.ends() > self.clock().now();
        is_usable.then(|| session.seat(key, wake))
    }

    fn begin(self: &Arc<Self>, session: Session, key: &[u8], wake: &Arc<Notify>) -> Seat {
        let session = Arc::new(session);
        let seat = session.seat(key, wake);
        let heartbeat =
            heartbeat::keep_alive(session.clone(), self.cluster.clone(), Arc::downgrade(self), self.process);
        let heartbeat = self.runtime.spawn(heartbeat).abort_handle();
        // One that was there before has run out: its task ends by itself.
        self.open().insert(session.seconds, Open { session, heartbeat });
        seat
    }

    /// Gives no more seats in a session if nobody sits in it; its lease is to be revoked then. Whether it was.
    pub(crate) fn close_if_idle(&self, session: &Arc<Session>) -> bool {
        let mut open = self.open();
        // Seats are given away under this lock.
        let is_idle = !self.are_copied() && !session.is_in_use();
        if is_idle {
            remove(&mut open, session);
        }
        is_idle
    }

    /// Whether a session is on this lease.
    pub(crate) fn has_lease(&self, lease: i64) -> bool {
        self.open().values().any(|open| open.session.lease().id == lease)
    }

    /// Whether this is a copy in a fork, which owns nothing: nothing is to be sent for it.
    pub(crate) fn are_copied(&self) -> bool {
        self.process != std::process::id()
    }

    /// Gives no more seats in a session: the next claim opens another.
    pub(crate) fn fills_up(&self, session: &Arc<Session>) {
        remove(&mut self.open(), session);
    }

    /// Gives no more seats in a session, and wakes those who have one.
    pub(crate) fn end(&self, session: &Arc<Session>) {
        remove(&mut self.open(), session);
        session.ended();
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
    /// A lease that is not revoked ends by itself: nobody keeps it alive.
    fn drop(&mut self) {
        let open = std::mem::take(&mut *self.open());
        if self.are_copied() {
            // The leases are the parent's, and so are the sockets: neither they nor what is open on them is to be closed.
            std::mem::forget((open, self.cluster.clone()));
            return;
        }
        let leases: Vec<i64> = open.values().map(|open| open.session.lease().id).collect();
        open.into_values().for_each(|open| open.heartbeat.abort());
        let cluster = self.cluster.clone();
        if !leases.is_empty() {
            self.runtime.spawn(async move {
                let call = &Call::begin(&cluster.clock, FAREWELL);
                for lease in leases {
                    cluster.revoke(call, lease).await.ok();
                }
            });
        }
    }
}
