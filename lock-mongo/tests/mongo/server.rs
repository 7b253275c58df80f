//! Fixtures of the tests: servers, claims, and documents.

use std::time::Duration;

use lock_conformance::claims::{self, Terms};
pub(crate) use lock_conformance::claims::{busy, granted, succeeded};
pub(crate) use lock_conformance::timing::{Answered, until};
use lock_core::driver::{Claim, Grant, Predecessor, Queueing};
use lock_core::{Client, Name, Options};
use lock_mongo::mongodb::bson::spec::BinarySubtype;
use lock_mongo::mongodb::bson::{Binary, Bson, Document, doc};
use lock_mongo::mongodb::{self, Collection};
use lock_test_servers::{Clock, Owned, Product, Settings};

/// The longest time that the calls of a claim may take, unless the test says otherwise.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// A server that one test has for itself.
pub(crate) struct Server(pub(crate) Owned);

impl Server {
    pub(crate) fn start(product: &'static dyn Product, args: &[&str]) -> Server {
        Server::start_with(product, args, Clock::Machines)
    }

    pub(crate) fn start_with(product: &'static dyn Product, args: &[&str], clock: Clock) -> Server {
        let args = args.iter().map(|arg| (*arg).to_owned()).collect();
        let settings = Settings { args, clock, ..Settings::default() };
        Server(Owned::start(product, &settings).expect("such a server was started before"))
    }

    pub(crate) async fn client(&self) -> Client {
        open(self.0.url()).await
    }

    pub(crate) async fn raw(&self) -> mongodb::Client {
        mongodb::Client::with_uri_str(self.0.url()).await.unwrap()
    }

    pub(crate) async fn locks(&self) -> Collection<Document> {
        locks(&self.raw().await)
    }

    pub(crate) async fn admin(&self, command: Document) -> Document {
        self.raw().await.database("admin").run_command(command).await.unwrap()
    }

    /// Returns how many commands of this kind the server has been sent.
    pub(crate) async fn commands(&self, kind: &str) -> i64 {
        let status = self.admin(doc! { "serverStatus": 1 }).await;
        let commands = status.get_document("metrics").unwrap().get_document("commands").unwrap();
        commands.get_document(kind).unwrap().get_i64("total").unwrap()
    }

    /// Returns the server's URL with another address.
    pub(crate) fn through(&self, address: impl std::fmt::Display) -> String {
        self.0.url().replace(&format!("127.0.0.1:{}", self.0.port()), &address.to_string())
    }
}

pub(crate) fn locks(client: &mongodb::Client) -> Collection<Document> {
    client.database("onelock").collection("onelock_locks")
}

pub(crate) async fn open(url: &str) -> Client {
    lock_mongo::connect_with(url, Options::default().patience(PATIENCE)).answered().await
}

pub(crate) fn name(name: &str) -> Name {
    Name::new(name).unwrap()
}

/// Returns a lock's `_id`.
pub(crate) fn key(name: &str) -> Bson {
    Bson::Binary(Binary { subtype: BinarySubtype::Generic, bytes: name.as_bytes().to_vec() })
}

pub(crate) async fn document(locks: &Collection<Document>, name: &str) -> Option<Document> {
    locks.find_one(doc! { "_id": key(name) }).await.unwrap()
}

pub(crate) fn claim(client: &Client, lock: &str, ttl: Duration) -> Box<dyn Claim> {
    claim_with(client, lock, ttl, PATIENCE)
}

pub(crate) fn claim_with(client: &Client, lock: &str, ttl: Duration, patience: Duration) -> Box<dyn Claim> {
    claims::claim(client, lock, terms(ttl, patience))
}

/// Acquires a lock, and returns what a successor of its holder has to name.
pub(crate) async fn held(client: &Client, lock: &str, ttl: Duration) -> (Box<dyn Claim>, Predecessor, Grant) {
    let (mut holder, named) = claims::predecessor(client, lock, terms(ttl, PATIENCE));
    let grant = granted(&mut holder).await;
    (holder, named, grant)
}

pub(crate) fn terms(ttl: Duration, patience: Duration) -> Terms<'static> {
    Terms { ttl, patience, waits: Queueing::Queued, label: "$owner" }
}

pub(crate) fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(test);
    runtime.shutdown_timeout(Duration::from_secs(2));
}

pub(crate) const LONG: Duration = Duration::from_secs(20);
