//! The driver of MongoDB: two `findAndModify` with a majority's confirmation, and a change stream.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use futures_util::TryStreamExt;
use lock_core::Owner;
use mongodb::bson::{DateTime, Document, doc};
use mongodb::change_stream::ChangeStream;
use mongodb::error::ErrorKind;
use mongodb::options::WriteConcern;
use mongodb::{Client, Collection};

use super::{Calls, PLACE, Pushes, side, worker};
use crate::Outcome;
use crate::raw;
use crate::subjects::{Side, Subject, TTL, Worker};

/// How long the server holds back its answer to a change stream while nothing happens.
const BEAT: Duration = Duration::from_secs(1);
/// The server's code for a document that is there already: another owner holds the lock.
const DUPLICATE_KEY: i32 = 11_000;

pub(super) struct Baseline(Collection<Document>);

impl Baseline {
    pub(super) async fn connect(url: &str) -> Outcome<Baseline> {
        let client: Client = raw::mongo::connect(url).await?;
        Ok(Baseline(client.database("onelock").collection(PLACE)))
    }

    fn named(&self, name: &str) -> Named {
        Named { locks: self.0.clone(), name: name.to_owned() }
    }
}

#[async_trait]
impl Subject for Baseline {
    async fn worker(&self, name: &str) -> Outcome<Box<dyn Worker>> {
        Ok(worker(self.named(name)))
    }

    async fn side(&self, name: &str) -> Outcome<Box<dyn Side>> {
        let freed =
            doc! { "$match": { "documentKey._id": name, "updateDescription.updatedFields.owner": "" } };
        let releases = self.0.watch().pipeline([freed]).max_await_time(BEAT).await?;
        Ok(side(Arc::new(self.named(name)), Box::new(Changes(releases.with_type()))))
    }
}

struct Named {
    locks: Collection<Document>,
    name: String,
}

#[async_trait]
impl Calls for Named {
    type Claim = String;

    fn claim(&self, owner: Owner) -> String {
        owner.to_string()
    }

    async fn take(&self, owner: &mut String) -> Outcome<bool> {
        let now = SystemTime::now();
        let [now, expires] = [now, now + TTL].map(DateTime::from_system_time);
        let free = doc! { "_id": &self.name, "expires": { "$lte": now } };
        let take = doc! { "$set": { "owner": &*owner, "expires": expires }, "$inc": { "token": 1_i64 } };
        let taking =
            self.locks.find_one_and_update(free, take).upsert(true).write_concern(WriteConcern::majority());
        match taking.await {
            Ok(_) => Ok(true),
            Err(error) => match &*error.kind {
                ErrorKind::Command(refused) if refused.code == DUPLICATE_KEY => Ok(false),
                _ => Err(error.into()),
            },
        }
    }

    async fn release(&self, owner: &mut String) -> Outcome<bool> {
        let held = doc! { "_id": &self.name, "owner": &*owner };
        let release = doc! { "$set": { "owner": "", "expires": DateTime::from_millis(0) } };
        let releasing = self.locks.find_one_and_update(held, release).write_concern(WriteConcern::majority());
        Ok(releasing.await?.is_some())
    }
}

struct Changes(ChangeStream<Document>);

#[async_trait]
impl Pushes for Changes {
    async fn next(&mut self) -> Outcome<()> {
        self.0.try_next().await?.map(drop).ok_or_else(|| "the stream of changes has ended".into())
    }
}
