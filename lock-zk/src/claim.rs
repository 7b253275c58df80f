//! A claim of one owner on one lock. Its attempts, their repetitions and its release use one session.

mod listening;
mod renewal;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lock_core::driver::{Attempt, Busy, Claim, Grant, LossReason, Release, Renewal, Request, Watched};
use lock_core::toolkit::Call;
use lock_core::{Effect, Error, FencingToken, Instant, Result};
use tokio::sync::Notify;
use zookeeper_client::Error as ZkError;

use self::listening::Ahead;
use crate::directory::Directory;
use crate::errors;
use crate::link::{Failure, Link};
use crate::place::{Place, Position};
use crate::session::{Absent, Member, Membership, Session, SessionState};
use crate::sessions::Sessions;
use crate::watches::Watching;

/// One owner's claim on one lock.
#[derive(Debug)]
pub(crate) struct ZkClaim {
    sessions: Arc<Sessions>,
    request: Request,
    place: Place,
    wakes: Arc<Notify>,
    membership: Option<Membership>,
    held: Option<Held>,
    /// The deadline that the holder was told last.
    told: Option<Instant>,
    /// The watch that wakes a waiter: on the node ahead, or on the directory.
    watching: Option<Watching>,
    /// The watch on the own node, since the first renewal.
    own: Option<Watching>,
    /// When the server first refused the release.
    refused_since: Option<Instant>,
}

/// A lock that was granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Held {
    /// The lock is held, as far as is known.
    Still,
    /// The lock was revoked, and its holder is notified.
    Revoked,
}

/// Why a call has no answer yet.
enum CallError {
    /// The session is over: the claim has nothing left on the server.
    Over,
    Failed(Error),
}

impl From<Error> for CallError {
    fn from(error: Error) -> CallError {
        CallError::Failed(error)
    }
}

impl ZkClaim {
    pub(crate) fn new(sessions: Arc<Sessions>, directory: Directory, request: Request) -> ZkClaim {
        let place = Place::new(directory, request.owner);
        ZkClaim {
            sessions,
            request,
            place,
            wakes: Arc::default(),
            membership: None,
            held: None,
            told: None,
            watching: None,
            own: None,
            refused_since: None,
        }
    }

    fn call(&self) -> Call {
        Call::begin(&self.request.clock, self.request.patience)
    }

    /// Joins a session that is alive. If the claim has a place in a session that is not alive, it gives that back
    /// first, so that it never has two places.
    async fn join_session(&mut self, call: &Call) -> Result<Arc<Session>> {
        if let Some(membership) = &self.membership {
            let session = membership.session().clone();
            match session.state() {
                SessionState::Alive => return Ok(session),
                SessionState::Retired | SessionState::Closed => _ = self.give_back(call).await?,
                SessionState::Over => {}
            }
            self.leave_session();
        }
        let member = Member { owner: self.request.owner, wakes: self.wakes.clone() };
        let membership = self.sessions.join(call, self.request.ttl, &member).await?;
        let session = membership.session().clone();
        self.membership = Some(membership);
        Ok(session)
    }

    /// Leaves the session: the claim has no node in it, and never will have one.
    fn leave_session(&mut self) {
        self.place.forget();
        (self.watching, self.own) = (None, None);
        (self.membership, self.held, self.told) = (None, None, None);
    }

    // ---- attempt ----------------------------------------------------------------------------------------------------

    async fn attempt_in_session(&mut self, call: &Call) -> Result<Attempt, CallError> {
        let session = self.join_session(call).await?;
        loop {
            let link = self.link(&session, call).await?;
            let outcome = self.look(&link, &session, call).await;
            match outcome {
                Ok(Some(attempt)) => return Ok(attempt),
                // Something has changed meanwhile.
                Ok(None) if !call.is_over() => {}
                Ok(None) => return Err(self.out_of_time(call).into()),
                Err(Failure::Broken) => session.cut(link.number),
                Err(Failure::Refused(e)) => return Err(errors::refused(e).into()),
                Err(Failure::Persistent(path)) => return Err(errors::persistent_node(&path).into()),
                Err(Failure::Late) => {
                    self.handle_late(&link, &session, call).await;
                    return Err(self.out_of_time(call).into());
                }
            }
        }
    }

    async fn link(&self, session: &Session, call: &Call) -> Result<Arc<Link>, CallError> {
        self.settled_link(session, call).await.map_err(|absent| match absent {
            Absent::Over => CallError::Over,
            Absent::Late => self.out_of_time(call).into(),
        })
    }

    /// Returns a link on which the effects of all earlier links are known. Cuts a link on which a request may still be
    /// on its way, also after an attempt that was dropped before it could do so itself.
    async fn settled_link(&self, session: &Session, call: &Call) -> Result<Arc<Link>, Absent> {
        let uncertain = self.place.uncertain_up_to();
        session.cut(uncertain);
        session.link(call, uncertain).await
    }

    /// Looks at the queue once, and enters it if that is wanted. Returns `None` if that has to be repeated.
    async fn look(
        &mut self,
        link: &Link,
        session: &Session,
        call: &Call,
    ) -> Result<Option<Attempt>, Failure> {
        let timeout = session.timeout();
        match self.place.find_position(link, call, &self.request, timeout).await? {
            Position::First { czxid } => {
                // A zxid is negative only if the server returned none.
                let token = u64::try_from(czxid).ok().and_then(FencingToken::new);
                let Some(token) = token else { return Err(Failure::Refused(ZkError::Unimplemented)) };
                self.watching = None;
                self.held = Some(Held::Still);
                let deadlines = session.deadlines();
                self.told = Some(deadlines.ends());
                let (valid_for, age) = deadlines.left_at(call.began());
                Ok(Some(Attempt::Granted(Grant::new(token, valid_for).with_age(age))))
            }
            Position::Revoked { path } => {
                session.remove_at_deadline(path);
                self.held = Some(Held::Revoked);
                Ok(None)
            }
            Position::Behind { ahead } => {
                // This also reads the node ahead: it may be no ticket.
                let busy = match self.watch(link, session, call, &ahead).await? {
                    Ahead::Watched => Busy::queued().and_listens(),
                    Ahead::Hidden => Busy::queued(),
                    Ahead::Gone => return Ok(None),
                };
                self.held = None;
                Ok(Some(Attempt::Busy(busy)))
            }
            Position::Outside => Ok(Some(Attempt::Busy(Busy::default()))),
            Position::Unknown => Ok(None),
        }
    }

    /// Handles a call that had no answer in time. A request that is still on its way must not arrive: the session is
    /// reconnected, which ends the old connection on the server's side, too.
    async fn handle_late(&self, link: &Link, session: &Session, call: &Call) {
        if self.place.uncertain_up_to() >= link.number {
            // Bounded by the call. The release looks at what the new link shows.
            self.settled_link(session, call).await.ok();
        } else if !link.has_answered_since(call.began()) {
            session.cut(link.number);
        }
    }

    fn out_of_time(&self, call: &Call) -> Error {
        call.out_of_time(if self.place.may_be_there() { Effect::Unknown } else { Effect::NotApplied })
    }

    // ---- release ----------------------------------------------------------------------------------------------------

    async fn give_back(&mut self, call: &Call) -> Result<Release> {
        let Some(session) = self.membership.as_ref().map(|membership| membership.session().clone()) else {
            return Ok(Release::NotHeld);
        };
        if !self.place.may_be_there() {
            return Ok(Release::NotHeld);
        }
        loop {
            let link = match self.settled_link(&session, call).await {
                Ok(link) => link,
                Err(Absent::Over) => return Ok(Release::NotHeld),
                Err(Absent::Late) => return Err(call.out_of_time(Effect::Unknown)),
            };
            let path = self.place.path();
            match self.place.give_up(&link, call).await {
                Ok(release) => {
                    path.iter().for_each(|path| session.forget_revoked(path));
                    return Ok(release);
                }
                Err(Failure::Broken) => session.cut(link.number),
                Err(Failure::Refused(e)) => return Err(errors::refused(e)),
                Err(Failure::Persistent(path)) => return Err(errors::persistent_node(&path)),
                Err(Failure::Late) => {
                    if !link.has_answered_since(call.began()) {
                        session.cut(link.number);
                    }
                    return Err(call.out_of_time(Effect::Unknown));
                }
            }
        }
    }
}

impl ZkClaim {
    /// Handles a release that the server refuses. The node goes only with its session, and others wait behind it. If
    /// the server refuses for a whole ttl, the session is given up.
    fn handle_refused_release(&mut self, call: &Call, refused: Error) -> Result<Release> {
        let Some(membership) = &self.membership else { return Err(refused) };
        self.sessions.stop_joining(membership.session());
        let since = *self.refused_since.get_or_insert(call.began());
        if call.clock().now().since(since) < self.request.ttl {
            return Err(refused);
        }
        self.sessions.give_up(membership.session());
        Ok(Release::NotHeld)
    }
}

#[async_trait]
impl Claim for ZkClaim {
    async fn attempt(&mut self) -> Result<Attempt> {
        let call = self.call();
        loop {
            match self.attempt_in_session(&call).await {
                Ok(attempt) => return Ok(attempt),
                Err(CallError::Failed(e)) => return Err(e),
                Err(CallError::Over) => {
                    self.leave_session();
                    if call.is_over() {
                        return Err(call.out_of_time(Effect::NotApplied));
                    }
                }
            }
        }
    }

    async fn listen(&mut self) -> Result<()> {
        let call = self.call();
        match self.begin_to_listen(&call).await {
            Ok(()) => Ok(()),
            Err(CallError::Failed(e)) => Err(e),
            Err(CallError::Over) => {
                self.leave_session();
                Err(Error::unavailable(Effect::NotApplied, "the session with the server has ended"))
            }
        }
    }

    async fn changed(&mut self) {
        self.wakes.notified().await;
    }

    /// Does nothing itself. The renewal that the core sends next reads the own node, and watches it from then on.
    async fn watch(&mut self) -> Result<Watched> {
        Ok(Watched::FromNowOn)
    }

    async fn renew(&mut self, _ttl: Duration) -> Result<Renewal> {
        let call = self.call();
        let (Some(membership), Some(held)) = (&self.membership, self.held) else {
            return Ok(Renewal::Lost(LossReason::Gone));
        };
        if held == Held::Revoked {
            return Ok(Renewal::Lost(LossReason::Revoked));
        }
        let session = membership.session().clone();
        if session.state() != SessionState::Alive {
            return Ok(Renewal::Lost(LossReason::Session));
        }
        match self.renew_within(&session, &call).await {
            Ok(renewal) => Ok(renewal),
            Err(CallError::Over) => Ok(Renewal::Lost(LossReason::Session)),
            Err(CallError::Failed(e)) => Err(e),
        }
    }

    async fn release(&mut self) -> Result<Release> {
        let call = self.call();
        self.watching = None;
        let release = match self.give_back(&call).await {
            Err(e) if !e.is_transient() => self.handle_refused_release(&call, e)?,
            release => release?,
        };
        self.leave_session();
        Ok(release)
    }
}

impl Drop for ZkClaim {
    /// Lets the session remove the node of a claim that is dropped without a release.
    fn drop(&mut self) {
        if let Some(membership) = &self.membership
            && self.place.may_be_there()
            && !self.sessions.is_forked()
        {
            membership.session().add_abandoned(self.place.take());
        }
    }
}
