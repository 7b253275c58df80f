//! The driver of MongoDB: the library's requests in sessions like the library's, on a client set up like the library's.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use futures_util::TryStreamExt;
use lock_core::{Owner, Random};
use lock_mongo::floor;
use mongodb::bson::{Bson, DateTime, Document, doc};
use mongodb::change_stream::ChangeStream;
use mongodb::options::{FindOneAndUpdateOptions, ReturnDocument};
use mongodb::{Client, ClientSession, Collection};

use super::raw::{Alone, Calls, Cycles, Holder, Pushes};
use crate::Outcome;
use crate::raw;
use crate::subjects::{Side, Subject, TTL, Worker};

/// How long a request may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long the server holds back its answer to a change stream while nothing happens.
const BEAT: Duration = Duration::from_secs(1);

pub(super) struct Floor {
    client: Client,
    random: Random,
}

impl Floor {
    pub(super) async fn connect(url: &str) -> Outcome<Floor> {
        // Makes the collection.
        onelock::connect(url).await?;
        Floor::open(url).await
    }

    /// Sets up the driver, which connects with its first request.
    async fn open(url: &str) -> Outcome<Floor> {
        Ok(Floor {
            client: floor::client(raw::mongo::options(url).await?, PATIENCE)?,
            random: Random::system(),
        })
    }

    fn requests(&self, name: &str) -> Arc<Requests> {
        let (client, random) = (self.client.clone(), self.random.clone());
        Arc::new(Requests { locks: floor::locks(&client), client, random, key: floor::key(name) })
    }
}

/// Sets up the driver for one name. It connects with its first request.
pub(super) async fn alone(url: &str, name: &str) -> Outcome<Box<dyn Side>> {
    Ok(Box::new(Alone::new(Floor::open(url).await?.requests(name))))
}

#[async_trait]
impl Subject for Floor {
    async fn worker(&self, name: &str) -> Outcome<Box<dyn Worker>> {
        Ok(Box::new(Cycles(self.requests(name))))
    }

    async fn side(&self, name: &str) -> Outcome<Box<dyn Side>> {
        let requests = self.requests(name);
        let stream = requests.locks.watch().pipeline(floor::freed()).max_await_time(BEAT).await?;
        let told = Changes { stream: stream.with_type(), key: requests.key.clone() };
        Ok(Box::new(Holder::new(requests, Box::new(told))))
    }
}

/// The requests of one name.
struct Requests {
    client: Client,
    locks: Collection<Document>,
    random: Random,
    key: Bson,
}

/// One acquisition.
struct Claim {
    session: ClientSession,
    owner: Bson,
}

impl Requests {
    async fn update(
        &self,
        session: &mut ClientSession,
        filter: Document,
        pipeline: Vec<Document>,
        upsert: bool,
    ) -> Outcome<Option<Document>> {
        let state = if upsert { ReturnDocument::After } else { ReturnDocument::Before };
        let options = FindOneAndUpdateOptions::builder()
            .upsert(upsert)
            .return_document(state)
            .projection(floor::shown())
            .write_concern(floor::majority())
            .max_time(PATIENCE)
            .build();
        Ok(self.locks.find_one_and_update(filter, pipeline).with_options(options).session(session).await?)
    }
}

#[async_trait]
impl Calls for Requests {
    type Claim = Claim;

    async fn claim(&self) -> Outcome<Claim> {
        let owner = floor::owner(&Owner::mint(&self.random));
        Ok(Claim { session: self.client.start_session().await?, owner })
    }

    async fn take(&self, Claim { session, owner }: &mut Claim) -> Outcome<bool> {
        let deadline = DateTime::from_system_time(SystemTime::now() + PATIENCE);
        let take = floor::attempt(owner, "lock-bench", TTL, deadline);
        let document = self.update(session, doc! { "_id": &self.key }, take, true).await?;
        Ok(document.is_some_and(|document| document.get("owner") == Some(&*owner)))
    }

    async fn release(&self, Claim { session, owner }: &mut Claim) -> Outcome<()> {
        let filter = doc! { "_id": &self.key, "owner": &*owner };
        match self.update(session, filter, floor::release(), false).await? {
            Some(_) => Ok(()),
            None => Err("the floor's lock was not released".into()),
        }
    }
}

/// The change stream.
struct Changes {
    stream: ChangeStream<Document>,
    key: Bson,
}

#[async_trait]
impl Pushes for Changes {
    async fn next(&mut self) -> Outcome<()> {
        while let Some(event) = self.stream.try_next().await? {
            if event.get_document("documentKey").is_ok_and(|key| key.get("_id") == Some(&self.key)) {
                return Ok(());
            }
        }
        Err("the stream of changes has ended".into())
    }
}
