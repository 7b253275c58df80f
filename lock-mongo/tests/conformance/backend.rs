//! MongoDB as the conformance suite's backend: a replica set of one member, and a standalone server.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use lock_conformance::harness::{
    Age, Busy, Count, Forget, Identity, Interrupt, KeepBusy, Promise, Residue, Rises, ToldTime,
};
use lock_conformance::{Abilities, Counters, Facts, Missing};
use lock_core::driver::{Fair, Lease};
use lock_core::{Client, Name, Options, Result};
use lock_mongo::mongodb::bson::{Bson, Document, doc};
use lock_mongo::mongodb::{self, ClientSession, Collection};
use lock_test_servers::{Backend, Product, Server, ServerUrl};
use tokio::runtime;

/// The kind of a server that belongs to no set.
#[allow(dead_code, reason = "only one of the two suites has such a server")]
pub(crate) const STANDALONE: &str = "standalone";

/// A MongoDB of one kind.
#[derive(Debug)]
pub(crate) struct MongoDb {
    pub(crate) product: &'static dyn Product,
    pub(crate) kind: &'static str,
    /// Further environment variables with which this program, started once more, tests the same server.
    pub(crate) environment: &'static [(&'static str, &'static str)],
}

#[async_trait]
impl Backend for MongoDb {
    fn product(&self) -> &'static dyn Product {
        self.product
    }

    fn name(&self, server: &Server) -> String {
        format!("{server} ({})", self.kind)
    }

    fn environment(&self) -> Vec<(&'static str, String)> {
        self.environment.iter().map(|&(name, value)| (name, value.to_owned())).collect()
    }

    fn facts(&self) -> Facts {
        // Of a standalone server, and of a replica set. docs/semantics.md has the hour: how far a clock may be set back.
        let clock_step = Duration::from_secs(3600);
        let rises = [Rises::WhileDataIsKept { clock_step }, Rises::WhileAMajorityKeepsItsData { clock_step }];
        let promised = rises.map(|rises| Promise {
            lease: Lease::Lock,
            fair: Fair::No,
            rises,
            identity: Identity::Told,
        });
        Facts {
            // A request has more than a thousand bytes. A network that takes one or two milliseconds for each byte has
            // five thirds of this ttl for a request. With 900 ms, the request would be too late.
            ttl: Duration::from_millis(1200),
            told_time: Ok(ToldTime),
            ..Facts::promising(promised)
        }
    }

    async fn open(&self, url: &str, options: Options) -> Result<Client> {
        lock_mongo::connect_with(url, options).await
    }

    fn address(&self, url: &str) -> Result<String, Missing> {
        Ok(parsed(url).address(27017))
    }

    /// Connects to that server alone, whatever addresses it reports for its set.
    async fn open_through(&self, url: &str, address: SocketAddr, options: Options) -> Result<Client> {
        lock_mongo::connect_with(&parsed(url).at(address), options).await
    }

    fn abilities(&self, server: &Server, abilities: Abilities) -> Abilities {
        let admin = Arc::new(Admin { url: server.url().to_owned() });
        Abilities {
            keep_busy: match self.kind {
                STANDALONE => Err(Missing::because("a standalone server has no transactions")),
                _ => Ok(admin.clone()),
            },
            count: server.started_here().and(Ok(admin.clone())),
            age: server.started_here().and(Ok(admin.clone())),
            ..abilities.with_admin(&admin)
        }
    }
}

/// The suite's access to a server past the backend.
#[derive(Debug)]
struct Admin {
    url: String,
}

#[async_trait]
impl Forget for Admin {
    async fn forget(&self, name: &Name) {
        let gone =
            doc! { "$set": { "expires": mongodb::bson::DateTime::from_millis(1) }, "$unset": { "owner": 1 } };
        let held = doc! { "_id": key(name), "owner": { "$exists": true } };
        let forgot = locks(&self.url).await.update_one(held, gone).await.expect("an update");
        assert_eq!(forgot.modified_count, 1, "{name} was held");
    }
}

#[async_trait]
impl Count for Admin {
    /// Returns the server's count of the clients' commands, and the storage engine's count of writes to the collection.
    async fn counters(&self) -> Counters {
        let status = admin(&self.url, doc! { "serverStatus": 1 }).await;
        let calls = |command: &str| number(&status, &["metrics", "commands", command, "total"]);
        let stages = [doc! { "$collStats": { "storageStats": {} } }];
        let mut stats = locks(&self.url).await.aggregate(stages).await.expect("statistics");
        assert!(
            stats.advance().await.expect("an answer"),
            "a lock was granted before, so the collection exists"
        );
        let stats = stats.deserialize_current().expect("a document");
        let written = |what: &str| number(&stats, &["storageStats", "wiredTiger", "cursor", what]);
        let writes = ["insert calls", "update calls", "modify", "remove calls"].map(written).iter().sum();
        Counters { requests: ["findAndModify", "find", "update"].map(calls).iter().sum(), writes }
    }
}

#[async_trait]
impl Residue for Admin {
    /// Counts documents of held locks, and those that refused attempts have left. The others only keep a token.
    async fn residue(&self) -> u64 {
        let left = doc! { "$or": [{ "owner": { "$exists": true } }, { "token": { "$exists": false } }] };
        locks(&self.url).await.count_documents(left).await.expect("a count")
    }
}

#[async_trait]
impl Age for Admin {
    async fn kept(&self) -> u64 {
        locks(&self.url).await.count_documents(doc! {}).await.expect("a count")
    }

    /// Ages the documents of free locks by `by`: their tokens, and the times when they may be deleted.
    async fn age(&self, by: Duration) {
        let millis = i64::try_from(by.as_millis()).expect("not that old");
        let older = doc! {
            "token": { "$subtract": ["$token", millis * 1000] },
            "forget": { "$subtract": ["$forget", millis] },
        };
        let free = doc! { "owner": { "$exists": false }, "token": { "$exists": true } };
        locks(&self.url).await.update_many(free, vec![doc! { "$set": older }]).await.expect("an update");
    }
}

#[async_trait]
impl Interrupt for Admin {
    /// Ends all running operations, change streams included, and cuts the connection of the next `findAndModify`.
    async fn interrupt(&self) {
        admin(&self.url, doc! { "killAllSessions": [] }).await;
        let next = doc! { "failCommands": ["findAndModify"], "closeConnection": true };
        admin(&self.url, doc! { "configureFailPoint": "failCommand", "mode": { "times": 1 }, "data": next })
            .await;
    }
}

#[async_trait]
impl KeepBusy for Admin {
    async fn keep_busy(&self, names: &[Name]) -> Box<dyn Busy> {
        let (locks, keys) = (locks(&self.url).await, names.iter().map(key).collect::<Vec<Bson>>());
        let theirs = doc! { "_id": { "$in": keys } };
        let mut session = client(&self.url).await.start_session().await.expect("a session");
        loop {
            session.start_transaction().await.expect("it has begun none");
            let keep = locks.update_many(theirs.clone(), doc! { "$set": { "label": "kept" } });
            match keep.session(&mut session).await {
                Ok(kept) => {
                    assert_eq!(kept.matched_count, names.len() as u64, "each name has a document");
                    return Box::new(Transaction(session));
                }
                // One of them is being renewed.
                Err(e) if e.contains_label(mongodb::error::TRANSIENT_TRANSACTION_ERROR) => {
                    session.abort_transaction().await.expect("it is open");
                }
                Err(e) => panic!("an update: {e}"),
            }
        }
    }
}

/// An open transaction.
#[derive(Debug)]
struct Transaction(ClientSession);

#[async_trait]
impl Busy for Transaction {
    async fn end(mut self: Box<Self>) {
        self.0.abort_transaction().await.expect("it is open");
    }
}

/// Returns one client for each case (by its runtime) and server. No client is dropped while its runtime ends: the
/// `mongodb` crate would panic.
async fn client(url: &str) -> mongodb::Client {
    type Clients = Mutex<HashMap<(runtime::Id, String), mongodb::Client>>;
    static CLIENTS: OnceLock<Clients> = OnceLock::new();
    let clients = || CLIENTS.get_or_init(Clients::default).lock().expect("nothing panics under this lock");
    let of = (runtime::Handle::current().id(), url.to_owned());
    let known = clients().get(&of).cloned();
    if let Some(client) = known {
        return client;
    }
    let client = mongodb::Client::with_uri_str(url).await.expect("a URL that was used before");
    clients().entry(of).or_insert(client).clone()
}

async fn locks(url: &str) -> Collection<Document> {
    client(url).await.database("onelock").collection("onelock_locks")
}

async fn admin(url: &str, command: Document) -> Document {
    client(url).await.database("admin").run_command(command).await.expect("an answer")
}

/// Returns the number at `path`. Panics if there is none: a statistic that was renamed would count nothing, and its
/// test would pass.
fn number(document: &Document, path: &[&str]) -> u64 {
    let (field, folders) = path.split_last().expect("a path");
    let folder = folders.iter().try_fold(document, |at, folder| at.get_document(folder).ok());
    match folder.and_then(|folder| folder.get(field)) {
        Some(Bson::Int64(n)) => n.unsigned_abs(),
        Some(Bson::Int32(n)) => u64::from(n.unsigned_abs()),
        Some(Bson::Double(n)) => *n as u64,
        other => panic!("the server counts no {path:?}: {other:?}"),
    }
}

fn key(name: &Name) -> Bson {
    let bytes = name.as_str().as_bytes().to_vec();
    Bson::Binary(mongodb::bson::Binary { subtype: mongodb::bson::spec::BinarySubtype::Generic, bytes })
}

fn parsed(url: &str) -> ServerUrl<'_> {
    ServerUrl::parse(url).expect("a URL that was used before")
}
