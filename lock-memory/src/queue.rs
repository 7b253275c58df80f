//! The driver of a [`QueueServer`]: places in a queue, kept by a session that many claims share.
//!
//! That a session lives does not prove that a lock is held. Therefore every heartbeat's answer tells what the session
//! has.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lock_core::driver::{
    Attempt, Busy, Claim, Driver, Fair, Fencing, Finding, Grant, Inspection, Lease, Level, Lists, Release,
    Renewal, Request, Revocation, Revoked, Wakes, Watched,
};
use lock_core::toolkit::{Call, Prefix, Subscription};
use lock_core::{Clock, Effect, Error, FencingToken, Info, Instant, LossReason, Name, Result};
use tokio::runtime::Handle;

use crate::server::Key;
use crate::server::queue::{Answer, Claimed, QueueServer, Request as Ask, Standing};
use crate::session::{Membership, Proof, Session, Sessions, State};
use crate::wire::{Connection, Wire, unexpected};
use crate::{LONGEST_TTL, SHORTEST_TTL};

/// Claims locks on a [`QueueServer`].
#[derive(Debug)]
pub struct QueueDriver {
    sessions: Arc<Sessions>,
    prefix: Prefix,
    info: Arc<Info>,
}

impl QueueDriver {
    /// Creates a driver of the server at the other end of `wire`, called `server`. Heartbeats run on `runtime`.
    pub fn new(
        wire: Arc<dyn Wire<QueueServer>>,
        server: &str,
        prefix: Prefix,
        clock: Clock,
        runtime: Handle,
    ) -> QueueDriver {
        let sessions = Arc::new(Sessions::new(Connection::new(wire, clock), runtime));
        QueueDriver { sessions, prefix, info: Arc::new(info(server)) }
    }

    /// Sets the identity of the server, which is the same for all drivers of that server.
    #[must_use]
    pub(crate) fn of(mut self, identity: String) -> QueueDriver {
        Arc::make_mut(&mut self.info).identity = Some(identity);
        self
    }

    fn key(&self, name: &Name) -> Key {
        self.prefix.key(name).into()
    }

    async fn ask(&self, patience: Duration, request: Ask) -> Result<Answer> {
        let connection = &self.sessions.connection;
        connection.ask(&connection.call(patience), request).await
    }
}

fn info(server: &str) -> Info {
    let mut info =
        Info::new("memory-queue", server, Fencing::Always, Lease::Session, SHORTEST_TTL..=LONGEST_TTL);
    info.fair = Fair::PerProcess;
    info.lists = Lists::Held;
    info.wakes = Wakes::Pushed;
    info.clock = "the process's own, which is not set from outside";
    info.data_loss =
        "everything is lost with the process, holders included; a new process's tokens begin at its clock"
            .to_owned();
    info.requests_per_hand_over = 2;
    info
}

#[async_trait]
impl Driver for QueueDriver {
    fn info(&self) -> Arc<Info> {
        self.info.clone()
    }

    fn claim(&self, request: Request) -> Box<dyn Claim> {
        let claimed = (request.owner, self.key(&request.name));
        // Listens by owner, because two claims of one client may have places in one queue.
        let wakes = self.sessions.hub.listen(&request.owner.to_name());
        let sessions = self.sessions.clone();
        Box::new(QueueClaim {
            sessions,
            claimed,
            request,
            wakes,
            membership: None,
            serial: 0,
            unanswered: false,
            held: None,
        })
    }

    async fn inspect(&self, name: &Name, patience: Duration) -> Result<Inspection> {
        match self.ask(patience, Ask::Inspect { key: self.key(name) }).await? {
            Answer::Inspected(inspection) => Ok(inspection),
            other => Err(unexpected(&other)),
        }
    }

    async fn revoke(&self, name: &Name, revocation: Revocation) -> Result<Revoked> {
        let Revocation { holder, by, label, when, patience, .. } = revocation;
        match self.ask(patience, Ask::Revoke { key: self.key(name), holder, by, label, when }).await? {
            Answer::Revoked(revoked) => Ok(revoked),
            other => Err(unexpected(&other)),
        }
    }

    async fn names(&self, beginning: &str, patience: Duration) -> Result<Vec<Name>> {
        let beginning = format!("{}{beginning}", self.prefix.as_str()).into();
        match self.ask(patience, Ask::List { beginning }).await? {
            Answer::Listed(keys) => {
                Ok(keys.iter().filter_map(|key| self.prefix.name(key.as_bytes())).collect())
            }
            other => Err(unexpected(&other)),
        }
    }

    async fn check(&self, patience: Duration) -> Result<Vec<Finding>> {
        self.ask(patience, Ask::Time).await?;
        let message = "in this process".to_owned();
        Ok(vec![Finding::new("reachable", Level::Good, message)])
    }
}

/// One owner's claim on one lock. Its attempts, their repetitions and its release go over one session.
#[derive(Debug)]
struct QueueClaim {
    sessions: Arc<Sessions>,
    claimed: Claimed,
    request: Request,
    /// Woken when the place in front of the claim's place, or its own place, is gone.
    wakes: Subscription,
    membership: Option<Membership>,
    /// The serial of the last attempt.
    serial: u64,
    /// An attempt in this session was not answered: it may still arrive.
    unanswered: bool,
    held: Option<Held>,
}

/// The client's knowledge of a granted lock.
#[derive(Clone, Copy, Debug)]
struct Held {
    token: FencingToken,
    /// When the attempt was sent. It kept the session alive, as a heartbeat does.
    asked: Instant,
    /// The number of the last heartbeat that was sent before the latest news of this lock: its answer may not include
    /// them. Heartbeats are numbered, because two events may have the same time of a clock.
    news: u64,
    /// The latest news were a change, and not the grant.
    invalidated: bool,
}

#[async_trait]
impl Claim for QueueClaim {
    async fn attempt(&mut self) -> Result<Attempt> {
        let call = &self.call();
        // A session that has ended has done nothing, so another one is tried, once.
        for _ in 0..2 {
            let (answer, session, asked) = self.take_place(call).await?;
            match answer {
                Answer::Granted(token) => {
                    self.held = Some(Held { token, asked, news: session.heartbeats(), invalidated: false });
                    return Ok(Attempt::Granted(Grant::new(token, session.timeout)));
                }
                Answer::Busy { queued: true } => return Ok(Attempt::Busy(Busy::queued())),
                Answer::Busy { queued: false } => return Ok(Attempt::Busy(Busy::default())),
                Answer::NoSession => self.sessions.end(&session, State::Over),
                Answer::Refused => {
                    return Err(Error::unavailable(Effect::NotApplied, "the attempt came after its release"));
                }
                other => return Err(unexpected(&other)),
            }
        }
        Err(Error::unavailable(Effect::NotApplied, "the session with the server has ended"))
    }

    async fn changed(&mut self) {
        self.wakes.woken().await;
        self.invalidate();
    }

    /// The server notifies the owner of every place that is gone.
    async fn watch(&mut self) -> Result<Watched> {
        Ok(Watched::SinceTheGrant)
    }

    /// Sends nothing: the session is kept alive, and the answers to its heartbeats tell what it has.
    async fn renew(&mut self, _ttl: Duration) -> Result<Renewal> {
        let call = &self.call();
        let start = self.request.clock.now();
        if self.is_woken().await {
            self.invalidate();
        }
        let (Some(membership), Some(held)) = (&self.membership, &mut self.held) else {
            return Ok(Renewal::Lost(LossReason::Gone));
        };
        loop {
            // Created before the look, so that no proof is missed from here on.
            let proven = membership.session().proven();
            if let Some(renewal) =
                held.judge(&membership.session().proof(), &self.claimed, membership.session().timeout, start)
            {
                held.invalidated = false;
                return Ok(renewal);
            }
            membership.session().want_proof();
            call.within(proven).await.ok_or_else(|| call.out_of_time(Effect::Unknown))?;
        }
    }

    async fn release(&mut self) -> Result<Release> {
        self.give_back(&self.call()).await
    }
}

impl QueueClaim {
    /// Makes one attempt over a session that is alive. Also returns that session, and when the attempt was sent.
    async fn take_place(&mut self, call: &Call) -> Result<(Answer, Arc<Session>, Instant)> {
        let session = self.join_session(call).await?;
        self.serial += 1;
        let Request { label, waits, clock, .. } = &self.request;
        let asked = clock.now();
        let ((owner, key), label) = (self.claimed.clone(), label.clone());
        let request =
            Ask::Attempt { key, owner, label, session: session.id, serial: self.serial, waits: *waits };
        let answer = self.ask(call, request).await.inspect_err(|_| self.unanswered = true)?;
        Ok((answer, session, asked))
    }

    /// Joins a session that is alive. If the claim has a place in a session that was given up, releases that place
    /// first, so that it never has two places.
    async fn join_session(&mut self, call: &Call) -> Result<Arc<Session>> {
        if let Some(membership) = &self.membership {
            match membership.session().state() {
                State::Alive => return Ok(membership.session().clone()),
                State::Retired => _ = self.give_back(call).await?,
                State::Over => {}
            }
        }
        // Nothing of this claim is left in that session, and nothing can arrive there.
        (self.membership, self.held, self.unanswered) = (None, None, false);
        let membership = self.sessions.join(call, self.request.ttl, &self.claimed).await?;
        let session = membership.session().clone();
        self.membership = Some(membership);
        Ok(session)
    }

    async fn give_back(&mut self, call: &Call) -> Result<Release> {
        let Some(session) = self.membership.as_ref().map(|membership| membership.session().clone()) else {
            return Ok(Release::NotHeld);
        };
        let state = session.state();
        if state == State::Over {
            return Ok(Release::NotHeld);
        }
        let (owner, key) = self.claimed.clone();
        // A session without heartbeats does not show that an attempt has arrived a second time. Attempts in the next
        // session would find its place, which would end with the old session.
        let defeat = (self.unanswered || state == State::Retired).then_some(session.id);
        let answer = self.ask(call, Ask::Release { key, owner, serial: self.serial, defeat }).await?;
        self.unanswered = false;
        self.held = None;
        match answer {
            Answer::Released { others } => Ok(Release::Released { others: Some(others) }),
            Answer::NotHeld => Ok(Release::NotHeld),
            other => Err(unexpected(&other)),
        }
    }

    /// Notes that what is known so far no longer proves the lock.
    fn invalidate(&mut self) {
        if let (Some(membership), Some(held)) = (&self.membership, &mut self.held) {
            (held.news, held.invalidated) = (membership.session().heartbeats(), true);
        }
    }

    async fn is_woken(&self) -> bool {
        tokio::select! {
            biased;
            () = self.wakes.woken() => true,
            () = std::future::ready(()) => false,
        }
    }

    async fn ask(&self, call: &Call, request: Ask) -> Result<Answer> {
        self.sessions.connection.ask(call, request).await
    }

    fn call(&self) -> Call {
        self.sessions.connection.call(self.request.patience)
    }
}

impl Held {
    /// Returns what a proof says about the lock, counted from `start`; `None` if the proof is too old to tell.
    fn judge(&self, proof: &Proof, claimed: &Claimed, timeout: Duration, start: Instant) -> Option<Renewal> {
        if proof.state != State::Alive {
            return Some(Renewal::Lost(LossReason::Session));
        }
        let mut asked = self.asked;
        if proof.number > self.news {
            match proof.has.get(claimed) {
                Some(Standing::Holds(token)) if *token == self.token => asked = proof.asked,
                Some(Standing::Revoked) => return Some(Renewal::Lost(LossReason::Revoked)),
                // Another place than the one that was granted does not count.
                Some(Standing::Holds(_) | Standing::Waits) | None => {
                    return Some(Renewal::Lost(LossReason::Gone));
                }
            }
        } else if self.invalidated {
            return None;
        }
        let (valid_for, age) = ((asked + timeout).since(start), start.since(asked));
        (valid_for > timeout * 2 / 3).then_some(Renewal::Held { valid_for, age })
    }
}
