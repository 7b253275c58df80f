//! The driver of MongoDB: two `findAndModify` with a majority's confirmation, and a change stream.

use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use futures_util::TryStreamExt;
use lock_core::Owner;
use mongodb::bson::{DateTime, Document, doc};
use mongodb::change_stream::ChangeStream;
use mongodb::change_stream::event::ChangeStreamEvent;
use mongodb::error::ErrorKind;
use mongodb::options::WriteConcern;
use mongodb::{Client, Collection};

use super::{Calls, Driver, NOT_SUBSCRIBED, PLACE};
use crate::Outcome;
use crate::subjects::TTL;

/// The server holds back its answer to a change stream for so long while nothing happens.
const BEAT: Duration = Duration::from_secs(1);
/// The server's code for a document that is there already: another owner holds the lock.
const DUPLICATE_KEY: i32 = 11_000;

pub(super) struct Server(Collection<Document>);

impl Server {
    pub(super) async fn connect(url: &str) -> Outcome<Server> {
        Ok(Server(Client::with_uri_str(url).await?.database("onelock").collection(PLACE)))
    }
}

#[async_trait]
impl Driver for Server {
    type Calls = Named;

    async fn named(&self, name: &str) -> Outcome<Named> {
        Ok(Named { locks: self.0.clone(), name: name.to_owned(), changes: None })
    }
}

pub(super) struct Named {
    locks: Collection<Document>,
    name: String,
    changes: Option<ChangeStream<ChangeStreamEvent<Document>>>,
}

#[async_trait]
impl Calls for Named {
    async fn subscribe(&mut self) -> Outcome<()> {
        let freed =
            doc! { "$match": { "documentKey._id": &self.name, "updateDescription.updatedFields.owner": "" } };
        self.changes = Some(self.locks.watch().pipeline([freed]).max_await_time(BEAT).await?);
        Ok(())
    }

    async fn take(&mut self, owner: &Owner) -> Outcome<bool> {
        let now = SystemTime::now();
        let [now, expires] = [now, now + TTL].map(DateTime::from_system_time);
        let free = doc! { "_id": &self.name, "expires": { "$lte": now } };
        let take =
            doc! { "$set": { "owner": owner.to_string(), "expires": expires }, "$inc": { "token": 1_i64 } };
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

    async fn released(&mut self) -> Outcome<()> {
        let change = self.changes.as_mut().ok_or(NOT_SUBSCRIBED)?.try_next().await?;
        change.map(drop).ok_or_else(|| "the stream of changes has ended".into())
    }

    async fn release(&mut self, owner: &Owner) -> Outcome<bool> {
        let held = doc! { "_id": &self.name, "owner": owner.to_string() };
        let release = doc! { "$set": { "owner": "", "expires": DateTime::from_millis(0) } };
        let releasing = self.locks.find_one_and_update(held, release).write_concern(WriteConcern::majority());
        Ok(releasing.await?.is_some())
    }
}
