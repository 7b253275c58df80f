//! Sessions of a client, each kept alive by a task, and what their heartbeats prove.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use lock_core::toolkit::{self, Call, Hub, Joining, Keepable, Process};
use lock_core::{Effect, Error, Instant, Result};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;
use tokio::task::AbortHandle;

use crate::server::queue::{Answer, Claimed, Moved, QueueServer, Request, SessionId, Standing};
use crate::wire::{Connection, Pushed, unexpected};

/// A client's sessions, and what they share.
#[derive(Debug)]
pub(crate) struct Sessions {
    pub(crate) connection: Arc<Connection<QueueServer>>,
    /// Wakes claims by their owner, as the server's messages name it.
    pub(crate) hub: Hub,
    /// Where the heartbeats run.
    runtime: Handle,
    open: toolkit::Sessions<Session>,
}

/// A claim's membership in a session. It ends when this is dropped.
pub(crate) type Membership = toolkit::Membership<Session>;

/// A session that the server has opened.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) id: SessionId,
    pub(crate) timeout: Duration,
    proof: Mutex<Proof>,
    /// Notified when there is a new proof. Not a `watch`, which wakes its waiters in a random order.
    proven: Notify,
    /// The claims that belong to it.
    members: Mutex<BTreeSet<Claimed>>,
    /// The number of heartbeats that were sent.
    sent: AtomicU64,
    /// Notified when a claim needs a proof now.
    wanted: Notify,
}

/// The proof of a session by its last answered heartbeat.
#[derive(Clone, Debug)]
pub(crate) struct Proof {
    /// When that heartbeat was sent. From then on the session lives for its timeout, at least.
    pub(crate) asked: Instant,
    /// The number of that heartbeat; zero if there was none yet.
    pub(crate) number: u64,
    /// The places of the session.
    pub(crate) has: Arc<BTreeMap<Claimed, Standing>>,
    /// The state of the session.
    pub(crate) state: State,
}

/// The state of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// The session is kept alive.
    Alive,
    /// No proof came in time. It is not known whether the server still has the session, and it gets no more heartbeats.
    Retired,
    /// The server said that it has ended.
    Over,
}

impl Sessions {
    pub(crate) fn new(connection: Connection<QueueServer>, runtime: Handle) -> Sessions {
        let hub = Hub::default();
        let woken = hub.clone();
        connection.receive(Box::new(move |pushed| match pushed {
            Pushed::Push(Moved(owner)) => woken.wake(&owner.to_string()),
            Pushed::Gap => woken.wake_all(),
        }));
        let open = toolkit::Sessions::new(Process::this());
        Sessions { connection: Arc::new(connection), hub, runtime, open }
    }

    /// Returns a membership in the session of this timeout, and opens the session if there is none. After an error,
    /// nothing was done for the claim.
    pub(crate) async fn join(
        self: &Arc<Self>,
        call: &Call,
        timeout: Duration,
        claimed: &Claimed,
    ) -> Result<Membership> {
        let too_late = || Error::unavailable(Effect::NotApplied, "no session could be opened in time");
        let vacant = match self.open.join(call, timeout, claimed).await.ok_or_else(too_late)? {
            Joining::Joined(membership) => return Ok(membership),
            Joining::Vacant(vacant) => vacant,
        };
        let asked = self.connection.clock().now();
        let request = Request::OpenSession { timeout };
        let id = match self.connection.ask(call, request).await.map_err(|e| too_late().with_source(e))? {
            Answer::Opened(id) => id,
            other => return Err(unexpected(&other)),
        };
        Ok(vacant.fill(Session::new(id, timeout, asked), |session| self.keep(session)))
    }

    /// Starts the task that keeps a session alive.
    fn keep(self: &Arc<Self>, session: Arc<Session>) -> AbortHandle {
        let keeping = keep_alive(session, self.connection.clone(), Arc::downgrade(self));
        self.runtime.spawn(keeping).abort_handle()
    }

    /// Closes a session if it is idle. Returns whether it did.
    fn close_if_idle(&self, session: &Arc<Session>) -> bool {
        let is_idle = self.open.close_if_idle(session);
        if is_idle {
            self.connection.tell(Request::CloseSession { session: session.id });
        }
        is_idle
    }

    /// Gives no more memberships in a session, and wakes the claims that have one.
    pub(crate) fn end(&self, session: &Arc<Session>, state: State) {
        self.open.stop_joining(session);
        session.change_proof(|proof| proof.state = state);
        // Wakes the task of the session, which then ends.
        session.want_proof();
        let claims: Vec<Claimed> = session.members().iter().cloned().collect();
        claims.iter().for_each(|(owner, _)| self.hub.wake(&owner.to_string()));
    }
}

impl Drop for Sessions {
    fn drop(&mut self) {
        for (session, heartbeat) in self.open.take_all() {
            heartbeat.abort();
            self.connection.tell(Request::CloseSession { session: session.id });
        }
    }
}

/// Keeps a session alive until it is idle or has ended, or until a proof does not come in time.
async fn keep_alive(
    session: Arc<Session>,
    connection: Arc<Connection<QueueServer>>,
    sessions: Weak<Sessions>,
) {
    let clock = connection.clock();
    loop {
        let next = session.proof().asked + session.timeout / 3;
        tokio::select! {
            biased;
            () = session.wanted.notified() => {}
            () = clock.sleep_until(next) => {
                if sessions.upgrade().is_none_or(|sessions| sessions.close_if_idle(&session)) {
                    return;
                }
            }
        }
        if session.state() != State::Alive {
            return;
        }
        let state = heartbeat(&session, &connection).await;
        if state != State::Alive {
            if let Some(sessions) = sessions.upgrade() {
                sessions.end(&session, state);
            }
            return;
        }
    }
}

/// Asks for a proof until there is one, or until it would be too late.
async fn heartbeat(session: &Session, connection: &Connection<QueueServer>) -> State {
    let clock = connection.clock();
    while clock.now() < session.ends() {
        let (asked, number) = (clock.now(), session.sent.fetch_add(1, Ordering::SeqCst) + 1);
        // A quarter of the timeout, so that one lost message does not end the session.
        let call = connection.call((session.timeout / 4).min(session.ends().since(asked)));
        let answer = connection.ask(&call, Request::Heartbeat { session: session.id }).await;
        // Another call has learned that the session has ended. Its claims are in another session by now, so their
        // places here would look as if no claim had them.
        let state = session.state();
        if state != State::Alive {
            return state;
        }
        match answer {
            Ok(Answer::Kept(has)) if clock.now() < session.ends() => {
                session.release_unclaimed_places(&has, connection);
                session.change_proof(|proof| {
                    *proof = Proof { asked, number, has: Arc::new(has), state: State::Alive }
                });
                return State::Alive;
            }
            Ok(Answer::NoSession) => return State::Over,
            // No answer, or one that came too late. The time limit of the call was pause enough.
            Ok(_) | Err(_) => {}
        }
    }
    State::Retired
}

impl Session {
    fn new(id: SessionId, timeout: Duration, asked: Instant) -> Session {
        let proof = Proof { asked, number: 0, has: Arc::default(), state: State::Alive };
        let (proof, members) = (Mutex::new(proof), Mutex::default());
        let (proven, wanted) = (Notify::new(), Notify::new());
        Session { id, timeout, proof, proven, members, sent: AtomicU64::new(0), wanted }
    }

    pub(crate) fn state(&self) -> State {
        self.latest().state
    }

    /// Returns what is known now.
    pub(crate) fn proof(&self) -> Proof {
        self.latest().clone()
    }

    /// Resolves when there is another proof than at the time of this call.
    pub(crate) fn proven(&self) -> Notified<'_> {
        self.proven.notified()
    }

    /// Changes what is known, and wakes all that wait for a proof.
    fn change_proof(&self, change: impl FnOnce(&mut Proof)) {
        change(&mut self.latest());
        self.proven.notify_waiters();
    }

    fn latest(&self) -> MutexGuard<'_, Proof> {
        self.proof.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns how many heartbeats have been sent so far. Only the answers to later ones are certain to show the
    /// present state.
    pub(crate) fn heartbeats(&self) -> u64 {
        self.sent.load(Ordering::SeqCst)
    }

    /// Asks for a proof at once.
    pub(crate) fn want_proof(&self) {
        self.wanted.notify_one();
    }

    /// Returns until when the session is certain to live.
    fn ends(&self) -> Instant {
        self.latest().asked + self.timeout
    }

    /// Releases places that no claim of this client has: an attempt arrived twice, the second time after its release.
    /// The server reports a revoked place for as long as the session lives, so such a place is released only when it is
    /// reported for the first time.
    fn release_unclaimed_places(
        &self,
        has: &BTreeMap<Claimed, Standing>,
        connection: &Connection<QueueServer>,
    ) {
        let told = self.proof().has;
        let members = self.members();
        let unknown = has.iter().filter(|(claimed, _)| !members.contains(*claimed));
        let news = unknown.filter(|(claimed, standing)| {
            **standing != Standing::Revoked || told.get(*claimed) != Some(&Standing::Revoked)
        });
        let unclaimed: Vec<Claimed> = news.map(|(claimed, _)| claimed.clone()).collect();
        drop(members);
        for (owner, key) in unclaimed {
            connection.tell(Request::Release { key, owner, serial: u64::MAX, defeat: Some(self.id) });
        }
    }

    fn members(&self) -> MutexGuard<'_, BTreeSet<Claimed>> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Keepable for Session {
    type Member = Claimed;

    fn is_usable(&self, now: Instant) -> bool {
        self.state() == State::Alive && now < self.ends()
    }

    fn is_in_use(&self) -> bool {
        !self.members().is_empty()
    }

    fn add_member(&self, claimed: &Claimed) {
        self.members().insert(claimed.clone());
    }

    fn remove_member(&self, claimed: &Claimed) {
        self.members().remove(claimed);
    }
}
