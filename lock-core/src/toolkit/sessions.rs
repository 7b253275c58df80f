//! The sessions of a client: one for each ttl, which its claims share.
//!
//! Here is which session a claim joins, that only one is opened at a time, and when a session is idle. How a session is
//! kept alive and proven differs between servers: each backend has a task for that.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::task::AbortHandle;

use super::Call;
use crate::clock::Instant;
use crate::process::Process;

/// A session with a server, which a task of the backend keeps alive for all claims in it.
///
/// [`Sessions`] calls these methods under its own lock, so they must not use it.
pub trait Keepable: fmt::Debug + Send + Sync + 'static {
    /// A claim, as its session knows it: what it is found by, and how it is woken.
    type Member: Clone + fmt::Debug + Send + Sync + 'static;

    /// Returns whether the session is kept alive, and certain at `now`. Another claim can then rely on it.
    fn is_usable(&self, now: Instant) -> bool;

    /// Returns whether a claim is in the session, or has left something that the session has to remove.
    fn is_in_use(&self) -> bool;

    /// Adds a claim.
    fn add_member(&self, member: &Self::Member);

    /// Removes a claim, which may not be there any more.
    fn remove_member(&self, member: &Self::Member);
}

/// The sessions of one client that claims can join: one for each ttl.
///
/// The first claim of a ttl opens the session. Other claims wait for that, no longer than their own time. A session
/// that has ended, or is not certain any more, takes no claims: the next claim opens another session in its place.
///
/// The task of a session asks now and then whether it is idle. A session that a claim has joined since the last
/// question stays until the next one, so that a claim that comes and goes does not need a new session each time.
///
/// In a fork of the process that opened the client, no session is idle and none is returned to be ended: all of them
/// belong to the first process.
#[derive(Debug)]
pub struct Sessions<S: Keepable> {
    process: Process,
    /// Ordered, so that one seed makes one simulation.
    open: Mutex<BTreeMap<Duration, Open<S>>>,
    /// Held while a session is opened.
    opening: tokio::sync::Mutex<()>,
}

#[derive(Debug)]
struct Open<S> {
    session: Arc<S>,
    task: AbortHandle,
    /// A claim joined since the task last asked whether the session is idle.
    has_joined: bool,
}

/// The state in which a claim finds the client's session.
#[derive(Debug)]
pub enum Joining<'a, S: Keepable> {
    /// The claim is in a session that was open.
    Joined(Membership<S>),
    /// There is no session that the claim can join: it has to open one.
    Vacant(Vacant<'a, S>),
}

/// The place of a session that has to be opened. No other session is opened while this exists. If it is dropped, the
/// next claim that waits opens the session.
#[derive(Debug)]
pub struct Vacant<'a, S: Keepable> {
    sessions: &'a Sessions<S>,
    ttl: Duration,
    member: S::Member,
    _opening: tokio::sync::MutexGuard<'a, ()>,
}

/// A claim's membership in a session. It ends when this is dropped.
#[must_use = "the claim leaves the session when this value is dropped: keep it"]
#[derive(Debug)]
pub struct Membership<S: Keepable> {
    session: Arc<S>,
    member: S::Member,
}

impl<S: Keepable> Sessions<S> {
    /// Starts without sessions. `process` is the one that opened the client.
    pub fn new(process: Process) -> Sessions<S> {
        Sessions { process, open: Mutex::default(), opening: tokio::sync::Mutex::default() }
    }

    /// Adds a claim to the session of this ttl, or lets its caller open one. Returns `None` if the call is over while
    /// another claim opens a session. Then nothing was asked of the server.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: if the future is dropped, the claim has not joined.
    pub async fn join(&self, call: &Call, ttl: Duration, member: &S::Member) -> Option<Joining<'_, S>> {
        if let Some(membership) = self.join_open(call, ttl, member) {
            return Some(Joining::Joined(membership));
        }
        let opening = call.within(self.opening.lock()).await?;
        // Another claim may have opened it while this one waited.
        Some(match self.join_open(call, ttl, member) {
            Some(membership) => Joining::Joined(membership),
            None => {
                let member = member.clone();
                Joining::Vacant(Vacant { sessions: self, ttl, member, _opening: opening })
            }
        })
    }

    /// Lets no more claims join a session if it is idle: it is not in use, and no claim has joined since this was last
    /// asked. Returns whether it is idle; its task then ends it.
    pub fn close_if_idle(&self, session: &Arc<S>) -> bool {
        // Claims join under this lock.
        let mut open = self.open();
        if self.is_forked() || take_joined(&mut open, session) || session.is_in_use() {
            return false;
        }
        remove(&mut open, session);
        true
    }

    /// Lets no more claims join this session: the next claim opens another one. A session that has taken its place
    /// stays.
    pub fn stop_joining(&self, session: &Arc<S>) {
        remove(&mut self.open(), session);
    }

    /// Returns the sessions that have not been closed, by their ttl.
    pub fn all(&self) -> Vec<Arc<S>> {
        self.open().values().map(|open| open.session.clone()).collect()
    }

    /// Takes out all sessions, with their tasks, when the client is dropped. The caller ends them.
    ///
    /// In a fork returns none, and leaves what they have open untouched.
    pub fn take_all(&self) -> Vec<(Arc<S>, AbortHandle)> {
        let open = std::mem::take(&mut *self.open());
        if self.is_forked() {
            // The parent process goes on with their sockets, so nothing may be closed here.
            std::mem::forget(open);
            return Vec::new();
        }
        open.into_values().map(|Open { session, task, .. }| (session, task)).collect()
    }

    /// Returns whether the current process is a fork of the one that opened the client.
    pub fn is_forked(&self) -> bool {
        self.process.is_another()
    }

    fn join_open(&self, call: &Call, ttl: Duration, member: &S::Member) -> Option<Membership<S>> {
        let mut open = self.open();
        let open = open.get_mut(&ttl).filter(|open| open.session.is_usable(call.clock().now()))?;
        open.has_joined = true;
        Some(Membership::new(open.session.clone(), member.clone()))
    }

    fn open(&self) -> MutexGuard<'_, BTreeMap<Duration, Open<S>>> {
        // What runs under this lock leaves the map whole, even if it panics.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns whether a claim joined since this was last asked. No claim joins a session that is not in the map.
fn take_joined<S>(open: &mut BTreeMap<Duration, Open<S>>, session: &Arc<S>) -> bool {
    let found = open.values_mut().find(|open| Arc::ptr_eq(&open.session, session));
    found.is_some_and(|open| std::mem::take(&mut open.has_joined))
}

fn remove<S>(open: &mut BTreeMap<Duration, Open<S>>, session: &Arc<S>) {
    open.retain(|_, open| !Arc::ptr_eq(&open.session, session));
}

impl<S: Keepable> Vacant<'_, S> {
    /// Puts the session that was opened in its place, with the claim in it. `keep` starts the task that keeps it alive,
    /// and must not use the [`Sessions`] itself.
    ///
    /// A session that was in this place has ended, or ends without new claims: its task ends by itself.
    pub fn fill(self, session: S, keep: impl FnOnce(Arc<S>) -> AbortHandle) -> Membership<S> {
        let Vacant { sessions, ttl, member, _opening } = self;
        let session = Arc::new(session);
        let membership = Membership::new(session.clone(), member);
        // Under this lock, so that the task finds the session in its place, however soon it ends it.
        let mut open = sessions.open();
        let task = keep(session.clone());
        open.insert(ttl, Open { session, task, has_joined: true });
        membership
    }
}

impl<S: Keepable> Membership<S> {
    fn new(session: Arc<S>, member: S::Member) -> Membership<S> {
        session.add_member(&member);
        Membership { session, member }
    }

    /// Returns the session.
    pub fn session(&self) -> &Arc<S> {
        &self.session
    }

    /// Returns the claim, as its session knows it.
    pub fn member(&self) -> &S::Member {
        &self.member
    }
}

impl<S: Keepable> Drop for Membership<S> {
    fn drop(&mut self) {
        self.session.remove_member(&self.member);
    }
}

#[cfg(test)]
mod tests;
