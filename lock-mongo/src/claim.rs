//! A claim: one owner's business with one document, each call one `findAndModify`.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lock_core::driver::{Attempt, Busy, Call, Cause, Claim, Grant, Release, Renewal, Request, Watched};
use lock_core::{Done, Error, Listening, Result};
use mongodb::bson::{Bson, DateTime, doc};
use mongodb::options::ReturnDocument;

use crate::lane::{Lane, Order};
use crate::record::Record;
use crate::server::{Missing, Server, Write};
use crate::statements;

/// One owner's claim on one lock.
#[derive(Debug)]
pub(crate) struct MongoClaim {
    server: Arc<Server>,
    request: Request,
    /// The document's `_id`.
    key: Bson,
    owner: Bson,
    lane: Lane,
    listening: Option<Listening>,
    mark: Mark,
}

/// Whether the document has to say that this claim waits.
#[derive(Clone, Copy, Debug, Default)]
struct Mark {
    waits: bool,
    /// As the last look saw it.
    stands: bool,
}

impl MongoClaim {
    pub(crate) fn new(server: Arc<Server>, request: Request) -> MongoClaim {
        let key = server.key(&request.name);
        let owner = statements::bytes(request.owner.as_bytes());
        MongoClaim {
            server,
            request,
            key,
            owner,
            lane: Lane::default(),
            listening: None,
            mark: Mark::default(),
        }
    }

    /// Asks for the lock. An attempt that the server took for late may be in time by what its refusal told of its
    /// clock, and is then sent once more.
    async fn grant(&mut self, call: &Call) -> Result<Attempt> {
        for _ in 0..2 {
            let deadline = self.deadline(call).await?;
            let (label, ttl) = (self.request.label.as_str(), millis(self.request.ttl));
            let attempt = Write {
                filter: doc! { "_id": &self.key },
                pipeline: statements::attempt(&self.owner, label, ttl, deadline),
                missing: Missing::Made,
                answer: ReturnDocument::After,
                order: Order::Kept,
            };
            let record = self.server.write(call, &mut self.lane, attempt).await?.ok_or_else(no_document)?;
            match (record.left(), record.token) {
                (Some(valid_for), Some(token)) if record.is_of(&self.request.owner) => {
                    return Ok(Attempt::Granted(Grant { token, valid_for, age: Duration::ZERO }));
                }
                (Some(left), _) => {
                    self.mark.stands = !record.wants_a_mark();
                    let holder = record.into_entry().map(Box::new);
                    return Ok(Attempt::Busy(Busy { queued: false, free_in: Some(left), holder }));
                }
                (None, _) if call.left().is_zero() => break,
                (None, _) => {}
            }
        }
        Err(Error::unavailable(Done::No, "the attempt reached the server too late, and was refused for it"))
    }

    /// The call's end by the primary's clock, which is asked for first if it has not been heard yet.
    async fn deadline(&self, call: &Call) -> Result<DateTime> {
        self.server.prepare(call).await?;
        loop {
            if let Some(deadline) = self.server.link().primary.deadline(call) {
                return Ok(deadline);
            }
            self.server.hello(call).await?;
        }
    }

    /// Leaves a mark that somebody waits, unless there is one: whoever hands the lock over to tasks of its own process
    /// then lets others have their turns. Without it, that process keeps the lock longer than it would: no more.
    async fn leave_mark(&mut self, call: &Call) {
        if self.mark.waits && !self.mark.stands {
            self.mark.stands = self.server.mark(call, &self.key).await.is_ok();
        }
    }

    async fn write(&mut self, write: Write) -> Result<Option<Record>> {
        self.server
            .write(&Call::begin(&self.request.clock, self.request.patience), &mut self.lane, write)
            .await
    }
}

#[async_trait]
impl Claim for MongoClaim {
    async fn attempt(&mut self) -> Result<Attempt> {
        let call = &Call::begin(&self.request.clock, self.request.patience);
        let outcome = self.grant(call).await;
        match outcome {
            // A holder waits for nothing: a wake-up that it took would be missed by a waiter of this process.
            Ok(Attempt::Granted(_)) => self.listening = None,
            Ok(Attempt::Busy(_)) => self.leave_mark(call).await,
            Err(_) => {}
        }
        outcome
    }

    async fn listen(&mut self) -> Result<()> {
        let call = &Call::begin(&self.request.clock, self.request.patience);
        self.mark.waits = true;
        self.leave_mark(call).await;
        if self.listening.is_none() {
            let listening = self.server.wakes.listen(&self.request.name, call.clock(), call.left());
            self.listening = Some(listening.await?);
        }
        Ok(())
    }

    async fn changed(&mut self) {
        match &self.listening {
            Some(listening) => listening.woken().await,
            None => std::future::pending().await,
        }
    }

    async fn watch(&mut self) -> Result<Watched> {
        let Request { owner, clock, patience, .. } = &self.request;
        self.listening = Some(self.server.wakes.watch(owner, clock, *patience).await?);
        Ok(Watched::FromNowOn)
    }

    async fn renew(&mut self, ttl: Duration) -> Result<Renewal> {
        let renew = Write {
            filter: doc! { "_id": &self.key },
            pipeline: statements::renew(&self.owner, millis(ttl)),
            missing: Missing::LeftOut,
            answer: ReturnDocument::After,
            order: Order::Free,
        };
        let owner = self.request.owner;
        Ok(match self.write(renew).await? {
            Some(record) => match record.left() {
                Some(valid_for) if record.is_of(&owner) => Renewal::Held { valid_for, age: Duration::ZERO },
                _ if record.was_revoked_from(&owner) => Renewal::Lost(Cause::Revoked),
                Some(_) => Renewal::Lost(Cause::Taken),
                None => Renewal::Lost(Cause::Gone),
            },
            None => Renewal::Lost(Cause::Gone),
        })
    }

    async fn release(&mut self) -> Result<Release> {
        let release = Write {
            filter: statements::given_up(&self.key, &self.owner),
            pipeline: statements::release(),
            missing: Missing::LeftOut,
            // What had ended by itself was not given up.
            answer: ReturnDocument::Before,
            order: Order::Kept,
        };
        Ok(match self.write(release).await? {
            Some(record) if record.left().is_some() => {
                Release::Released { others: Some(record.is_waited_for()) }
            }
            _ => Release::NotHeld,
        })
    }
}

fn no_document() -> Error {
    Error::rejected("the server answered no document to an upsert; it has to be MongoDB 4.4 or later")
}

/// A ttl for the server, which counts in milliseconds: never less than was asked for.
fn millis(ttl: Duration) -> i64 {
    i64::try_from(ttl.as_nanos().div_ceil(1_000_000)).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ttl_is_rounded_up() {
        assert_eq!(millis(Duration::from_nanos(1)), 1);
        assert_eq!(millis(Duration::from_micros(10_001)), 11);
        assert_eq!(millis(Duration::from_secs(30)), 30_000);
    }
}
