//! A claim: one owner's business with one lock. Its attempts, their repetitions and its release go over one session.

mod listening;
mod renewal;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lock_core::driver::{Attempt, Busy, Call, Cause, Claim, Grant, Release, Renewal, Request};
use lock_core::{Done, Error, FencingToken, Instant, Result};
use tokio::sync::Notify;
use zookeeper_client::Error as ZkError;

use crate::directory::Directory;
use crate::errors;
use crate::link::{Failure, Link};
use crate::place::{Place, Stand};
use crate::session::{Absent, Seat, Session, Sessions, State};
use crate::watches::Watching;

/// One owner's claim on one lock.
#[derive(Debug)]
pub(crate) struct ZkClaim {
    sessions: Arc<Sessions>,
    request: Request,
    place: Place,
    wakes: Arc<Notify>,
    seat: Option<Seat>,
    held: Option<Held>,
    /// Until when the holder was told that it is certain.
    told: Option<Instant>,
    watching: Option<Watching>,
    /// Of the own node, once it was renewed.
    own: Option<Watching>,
    /// Whether `changed` is waited for.
    listening: bool,
}

/// A lock that was granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Held {
    /// As far as anybody has said.
    Still,
    /// Its holder has been told that somebody wants it to give up.
    Revoked,
}

/// Why a call has no answer yet.
enum Trouble {
    /// The session is over: nothing of this claim is left.
    Over,
    Failed(Error),
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Trouble {
        Trouble::Failed(error)
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
            seat: None,
            held: None,
            told: None,
            watching: None,
            own: None,
            listening: false,
        }
    }

    fn call(&self) -> Call {
        Call::begin(&self.request.clock, self.request.patience)
    }

    /// Takes a seat in a session that is alive. A place that it has in one that was given up is given back first, so
    /// that it never has two.
    async fn sit_down(&mut self, call: &Call) -> Result<Arc<Session>> {
        if let Some(seat) = &self.seat {
            let session = seat.session.clone();
            match session.state() {
                State::Alive => return Ok(session),
                State::Retired | State::Closed => _ = self.give_back(call).await?,
                State::Over => {}
            }
            self.leave();
        }
        let seat = self.sessions.join(call, self.request.ttl, self.request.owner, &self.wakes).await?;
        let session = seat.session.clone();
        self.seat = Some(seat);
        Ok(session)
    }

    /// Nothing of this claim is left in its session, nor can be.
    fn leave(&mut self) {
        self.place.forget();
        (self.watching, self.own) = (None, None);
        (self.seat, self.held, self.told) = (None, None, None);
    }

    // ---- attempt ----------------------------------------------------------------------------------------------------

    async fn try_to_stand(&mut self, call: &Call) -> Result<Attempt, Trouble> {
        let session = self.sit_down(call).await?;
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
                Err(Failure::Late) => {
                    self.is_late(&link, &session, call).await;
                    return Err(self.out_of_time(call).into());
                }
            }
        }
    }

    async fn link(&self, session: &Session, call: &Call) -> Result<Arc<Link>, Trouble> {
        session.link(call, self.place.uncertain_up_to()).await.map_err(|absent| match absent {
            Absent::Over => Trouble::Over,
            Absent::Late => self.out_of_time(call).into(),
        })
    }

    /// One look at the queue, with a place in it where one is wanted. `None` if it has to be repeated.
    async fn look(
        &mut self,
        link: &Link,
        session: &Session,
        call: &Call,
    ) -> Result<Option<Attempt>, Failure> {
        let timeout = session.timeout();
        match self.place.stand(link, call, &self.request, timeout).await? {
            Stand::First { czxid } => {
                // A zxid is never negative but where the server told none.
                let token = u64::try_from(czxid).ok().and_then(FencingToken::new);
                let Some(token) = token else { return Err(Failure::Refused(ZkError::Unimplemented)) };
                self.watching = None;
                self.held = Some(Held::Still);
                let certain = session.ends();
                self.told = Some(certain);
                Ok(Some(Attempt::Granted(Grant { token, valid_for: certain.since(call.began()) })))
            }
            Stand::Revoked { path } => {
                session.condemn(path);
                self.held = Some(Held::Revoked);
                Ok(None)
            }
            Stand::Behind { ahead } => {
                if self.listening && !self.watch(link, session, call, &ahead).await? {
                    return Ok(None);
                }
                self.held = None;
                Ok(Some(Attempt::Busy(Busy { queued: true, ..Busy::default() })))
            }
            Stand::Outside => Ok(Some(Attempt::Busy(Busy::default()))),
            Stand::Unknown => Ok(None),
        }
    }

    /// No answer came in time. What may still arrive is kept from it: the session is connected anew, which ends the old
    /// connection on the server's side too, whatever is on its way there.
    async fn is_late(&self, link: &Link, session: &Session, call: &Call) {
        if self.place.uncertain_up_to() >= link.number {
            session.cut(link.number);
            // Bounded by the call; what it answers is looked at by the release.
            session.link(call, link.number).await.ok();
        } else if !link.was_heard_since(call.began()) {
            session.cut(link.number);
        }
    }

    fn out_of_time(&self, call: &Call) -> Error {
        call.out_of_time(if self.place.may_be_there() { Done::Unknown } else { Done::No })
    }

    // ---- release ----------------------------------------------------------------------------------------------------

    async fn give_back(&mut self, call: &Call) -> Result<Release> {
        let Some(session) = self.seat.as_ref().map(|seat| seat.session.clone()) else {
            return Ok(Release::NotHeld);
        };
        if !self.place.may_be_there() {
            return Ok(Release::NotHeld);
        }
        loop {
            let link = match session.link(call, self.place.uncertain_up_to()).await {
                Ok(link) => link,
                Err(Absent::Over) => return Ok(Release::NotHeld),
                Err(Absent::Late) => return Err(call.out_of_time(Done::Unknown)),
            };
            match self.place.give_up(&link, call).await {
                Ok(given_up) => {
                    given_up.condemned.into_iter().for_each(|path| session.condemn(path));
                    return Ok(given_up.release);
                }
                Err(Failure::Broken) => session.cut(link.number),
                Err(Failure::Refused(e)) => return Err(errors::refused(e)),
                Err(Failure::Late) => {
                    if !link.was_heard_since(call.began()) {
                        session.cut(link.number);
                    }
                    return Err(call.out_of_time(Done::Unknown));
                }
            }
        }
    }
}

#[async_trait]
impl Claim for ZkClaim {
    async fn attempt(&mut self) -> Result<Attempt> {
        let call = self.call();
        loop {
            match self.try_to_stand(&call).await {
                Ok(attempt) => return Ok(attempt),
                Err(Trouble::Failed(e)) => return Err(e),
                Err(Trouble::Over) => {
                    self.leave();
                    if call.is_over() {
                        return Err(call.out_of_time(Done::No));
                    }
                }
            }
        }
    }

    async fn listen(&mut self) -> Result<()> {
        let call = self.call();
        match self.begin_to_listen(&call).await {
            Ok(()) => Ok(()),
            Err(Trouble::Failed(e)) => Err(e),
            Err(Trouble::Over) => {
                self.leave();
                Err(Error::unavailable(Done::No, "the session with the server has ended"))
            }
        }
    }

    async fn changed(&mut self) {
        self.wakes.notified().await;
    }

    async fn renew(&mut self, _ttl: Duration) -> Result<Renewal> {
        let call = self.call();
        let (Some(seat), Some(held)) = (&self.seat, self.held) else { return Ok(Renewal::Lost(Cause::Gone)) };
        if held == Held::Revoked {
            return Ok(Renewal::Lost(Cause::Revoked));
        }
        let session = seat.session.clone();
        if session.state() != State::Alive {
            return Ok(Renewal::Lost(Cause::Session));
        }
        match self.renew_within(&session, &call).await {
            Ok(renewal) => Ok(renewal),
            Err(Trouble::Over) => Ok(Renewal::Lost(Cause::Session)),
            Err(Trouble::Failed(e)) => Err(e),
        }
    }

    async fn release(&mut self) -> Result<Release> {
        let call = self.call();
        (self.watching, self.listening) = (None, false);
        let release = self.give_back(&call).await?;
        self.leave();
        Ok(release)
    }
}
