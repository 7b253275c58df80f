//! A claim of one owner on one lock's document. Each call is one `findAndModify`; renewals may share an update with others.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lock_core::driver::{
    Attempt, Busy, Claim, Grant, LossReason, Predecessor, Queueing, Release, Renewal, Request, Takeover,
    UnixTime, Watched,
};
use lock_core::toolkit::{Call, whole_millis};
use lock_core::{Effect, Error, Owner, Result};
use mongodb::bson::{Bson, DateTime, doc};
use mongodb::options::ReturnDocument;

use crate::claim_session::ClaimSession;
use crate::listening::Listening;
use crate::record::Record;
use crate::server::{IfMissing, Server, Write};
use crate::statements;

/// One owner's claim on one lock.
#[derive(Debug)]
pub(crate) struct MongoClaim {
    server: Arc<Server>,
    request: Request,
    session: ClaimSession,
    listening: Listening,
    mark: Mark,
}

/// The client's knowledge of the waiters' mark in the document.
#[derive(Clone, Copy, Debug, Default)]
struct Mark {
    /// This claim waits.
    waits: bool,
    /// A fresh mark was there when the document was last read or written.
    is_fresh: bool,
}

impl MongoClaim {
    pub(crate) fn new(server: Arc<Server>, request: Request) -> MongoClaim {
        let (session, listening, mark) = Default::default();
        MongoClaim { server, request, session, listening, mark }
    }

    /// Returns the document's `_id`. It is made for each call: many locks are held at a time, and few are asked about.
    fn key(&self) -> Bson {
        self.server.key(&self.request.name)
    }

    fn owner(&self) -> Bson {
        statements::bytes(self.request.owner.as_bytes())
    }

    /// Sends an attempt. If the server refuses it as late, the refusal tells the server's time. By that clock the
    /// attempt may still be in time, so it is sent once more.
    async fn grant(&mut self, call: &Call) -> Result<Attempt> {
        for _ in 0..2 {
            let deadline = self.deadline(call).await?;
            let (label, ttl) = (self.request.label.as_str(), whole_millis(self.request.ttl));
            let attempt = Write {
                filter: doc! { "_id": self.key() },
                pipeline: statements::attempt(&self.owner(), label, ttl, deadline),
                if_missing: IfMissing::Create,
                answer: ReturnDocument::After,
            };
            let record =
                self.server.write(call, &mut self.session, attempt).await?.ok_or_else(no_document)?;
            match (record.left(), record.token) {
                (Some(valid_for), Some(token)) if record.is_of(&self.request.owner) => {
                    return Ok(Attempt::Granted(Grant::new(token, valid_for)));
                }
                (Some(left), _) => return Ok(Attempt::Busy(self.busy(record, left))),
                (None, _) if call.left().is_zero() => break,
                (None, _) => {}
            }
        }
        Err(too_late())
    }

    /// Looks at the lock after a release as often as there are quarters of all waiters that have waited for longer, so that
    /// those ask first. Returns `None` if only an attempt can tell.
    async fn look_first(&mut self, call: &Call) -> Result<Option<Busy>> {
        for _ in 0..self.listening.quarters_in_front() {
            let Some(record) = self.server.look(call, &self.request.name).await? else { return Ok(None) };
            if let Some(left) = record.left().filter(|_| !record.is_of(&self.request.owner)) {
                return Ok(Some(self.busy(record, left)));
            }
        }
        Ok(None)
    }

    fn busy(&mut self, record: Record, left: Duration) -> Busy {
        self.mark.is_fresh = !record.needs_mark();
        Busy::default().with_free_in(left).with_holder(record.into_entry())
    }

    /// Asks for the lock in the place of `predecessor`. Sends it once more as [`grant`](Self::grant) does.
    async fn replace(&mut self, call: &Call, predecessor: &Owner) -> Result<Takeover> {
        let of = statements::bytes(predecessor.as_bytes());
        for _ in 0..2 {
            let deadline = self.deadline(call).await?;
            let (label, ttl) = (self.request.label.as_str(), whole_millis(self.request.ttl));
            let takeover = Write {
                filter: doc! { "_id": self.key(), "owner": &of },
                pipeline: statements::takeover(&self.owner(), label, ttl, deadline),
                if_missing: IfMissing::Skip,
                answer: ReturnDocument::After,
            };
            let Some(record) = self.server.write(call, &mut self.session, takeover).await? else {
                return Ok(Takeover::NotHeld);
            };
            match (record.left(), record.token) {
                (left, Some(token)) if record.is_of(&self.request.owner) => {
                    let grant = Grant::new(token, left.unwrap_or_default());
                    return Ok(Takeover::Granted { grant, others: Some(record.is_waited_for()) });
                }
                (None, _) => return Ok(Takeover::NotHeld),
                (Some(_), _) if call.left().is_zero() => break,
                (Some(_), _) => {}
            }
        }
        Err(too_late())
    }

    /// Returns the call's end by the primary's clock. If this primary has told no time yet, it is asked first.
    async fn deadline(&self, call: &Call) -> Result<DateTime> {
        self.server.prepare(call).await?;
        loop {
            if let Some(deadline) = self.server.link().primary.deadline(call) {
                return Ok(deadline);
            }
            self.server.hello(call).await?;
        }
    }

    /// Finds out why the lock is no longer this owner's.
    async fn cause(&self, call: &Call) -> Result<LossReason> {
        Ok(match self.server.look(call, &self.request.name).await? {
            Some(record) if record.was_revoked_from(&self.request.owner) => LossReason::Revoked,
            Some(record) if record.left().is_some() => LossReason::Taken,
            _ => LossReason::Gone,
        })
    }

    /// Writes the mark that a claim waits, unless there is a fresh one. A process that hands the lock over to its own
    /// tasks then lets other processes have their turns. Without the mark, the only harm is that it keeps the lock
    /// longer.
    async fn write_mark(&mut self, call: &Call) {
        if self.mark.waits && !self.mark.is_fresh {
            self.mark.is_fresh = self.server.mark(call, &self.key()).await.is_ok();
        }
    }

    async fn write(&mut self, write: Write) -> Result<Option<Record>> {
        self.server
            .write(&Call::begin(&self.request.clock, self.request.patience), &mut self.session, write)
            .await
    }
}

#[async_trait]
impl Claim for MongoClaim {
    async fn attempt(&mut self) -> Result<Attempt> {
        let call = &Call::begin(&self.request.clock, self.request.patience);
        if self.request.waits == Queueing::Queued
            && !self.listening.is_on()
            && let Some(subscription) = self.server.wakes.listen_already(&self.request.name)
        {
            self.listening.to(subscription);
            self.mark.waits = true;
        }
        let outcome = match self.look_first(call).await? {
            Some(busy) => Ok(Attempt::Busy(busy)),
            None => self.grant(call).await,
        };
        match outcome {
            Ok(Attempt::Busy(busy)) => {
                self.write_mark(call).await;
                let busy = if self.listening.is_on() { busy.and_listens() } else { busy };
                Ok(Attempt::Busy(busy))
            }
            granted @ Ok(Attempt::Granted(_)) => {
                self.listening.granted();
                granted
            }
            failed @ Err(_) => failed,
        }
    }

    async fn take_over(&mut self, predecessor: &Predecessor) -> Result<Takeover> {
        let call = &Call::begin(&self.request.clock, self.request.patience);
        self.replace(call, &predecessor.owner).await
    }

    async fn listen(&mut self) -> Result<()> {
        let call = &Call::begin(&self.request.clock, self.request.patience);
        self.mark.waits = true;
        self.write_mark(call).await;
        if !self.listening.is_on() {
            self.listening.to(self.server.wakes.listen(&self.request.name, call).await?);
        }
        Ok(())
    }

    async fn changed(&mut self) {
        self.listening.woken().await;
    }

    async fn watch(&mut self) -> Result<Watched> {
        self.session.give_back();
        let Request { owner, clock, patience, .. } = &self.request;
        self.listening.to(self.server.wakes.watch(owner, &Call::begin(clock, *patience)).await?);
        Ok(Watched::FromNowOn)
    }

    async fn renew(&mut self, ttl: Duration) -> Result<Renewal> {
        let call = &Call::begin(&self.request.clock, self.request.patience);
        let renewed = self.server.renew(call, &self.request, ttl).await?;
        self.session.give_back();
        match renewed {
            Some(valid_for) => Ok(Renewal::Held { valid_for, age: Duration::ZERO }),
            None => Ok(Renewal::Lost(self.cause(call).await?)),
        }
    }

    async fn release(&mut self) -> Result<Release> {
        let release = Write {
            filter: statements::release_filter(&self.key(), &self.owner()),
            pipeline: statements::release(self.listening.heard()),
            if_missing: IfMissing::Skip,
            // The state before shows whether the lease had ended already. Then nothing was released.
            answer: ReturnDocument::Before,
        };
        Ok(match self.write(release).await? {
            Some(record) if record.left().is_some() => {
                Release::Released { others: Some(record.is_waited_for()) }
            }
            _ => Release::NotHeld,
        })
    }

    async fn server_time(&mut self) -> Result<UnixTime> {
        let call = &Call::begin(&self.request.clock, self.request.patience);
        self.server.prepare(call).await?;
        let told = self.server.hello(call).await?.now;
        Ok(UnixTime::from_micros(told.saturating_mul(1000)))
    }
}

fn too_late() -> Error {
    Error::unavailable(Effect::NotApplied, "the server refused the attempt: it arrived after its deadline")
}

fn no_document() -> Error {
    Error::rejected("the server returned no document after an upsert; it has to be MongoDB 4.4 or later")
}
