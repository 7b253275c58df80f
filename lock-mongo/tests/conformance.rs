//! MongoDB under the suite: a replica set of one, and a standalone server.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::time::Duration;

use async_trait::async_trait;
use lock_conformance::servers::{self, Absence, Clock, Owned, Product, Program, Server, Settings, catalogue};
use lock_conformance::{Counters, Data, Harness, Need, OwnServer, Step, Verdict};
use lock_core::{Client, Name, Options, Result};
use lock_mongo::mongodb::bson::{Bson, Document, doc};
use lock_mongo::mongodb::{self, Collection};
use tokio::runtime;

fn main() -> Verdict {
    // A part of a case that is played by this program, started once more, is of one of the two.
    match std::env::var(STANDALONE).is_ok() {
        true => verdict(&servers::StandaloneMongoDb),
        false if std::env::var_os(catalogue::MONGODB.variable).is_some() => verdict(&servers::MongoDb),
        false => verdict(&servers::MongoDb).and(verdict(&servers::StandaloneMongoDb)),
    }
}

/// Says to this program, started once more, that its server is a standalone one.
const STANDALONE: &str = "LOCK_TEST_MONGODB_STANDALONE";

fn verdict(product: &'static dyn Product) -> Verdict {
    match Server::find(product) {
        Ok(server) => lock_conformance::run(MongoDb { product, server, clients: Mutex::default() }),
        Err(Absence::NotRun(why)) => lock_conformance::not_run("mongodb", &why),
        Err(Absence::Failure(why)) => lock_conformance::failed("mongodb", &why),
    }
}

#[derive(Debug)]
struct MongoDb {
    product: &'static dyn Product,
    server: Server,
    /// By the runtimes of the cases. None is dropped while its runtime ends.
    clients: Mutex<HashMap<runtime::Id, mongodb::Client>>,
}

#[async_trait]
impl Harness for MongoDb {
    fn name(&self) -> String {
        let kind = if self.is_standalone() { "standalone" } else { "replica set" };
        format!("{} ({kind})", self.server)
    }

    async fn open(&self, options: Options) -> Result<Client> {
        lock_mongo::connect_with(self.server.url(), options).await
    }

    /// A request is more than a thousand bytes. A network that brings one in a millisecond, or in two, has five thirds of
    /// this for it; with 900 ms it is too late.
    fn ttl(&self) -> Duration {
        Duration::from_millis(1200)
    }

    fn can(&self, need: Need) -> Result<(), String> {
        let is_owned = self.server.owned().is_some();
        match need {
            Need::Forget | Need::Residue | Need::Proxy => Ok(()),
            Need::Process if cfg!(unix) => Ok(()),
            Need::OwnProgram if !is_owned => {
                Err("the server was not started here: there is none of a case's own".to_owned())
            }
            Need::Program | Need::OwnProgram => Program::find().map(drop).map_err(|a| a.to_string()),
            Need::ServerClock if is_owned => servers::clock::can_be_set(),
            Need::Counters | Need::Age | Need::Interrupt | Need::OwnServer | Need::Durable if is_owned => {
                Ok(())
            }
            _ => Err(format!("the server was not started here: the suite does not {need}")),
        }
    }

    fn url(&self) -> String {
        self.server.url().to_owned()
    }

    fn environment(&self) -> Vec<(&'static str, String)> {
        let mut environment = vec![(catalogue::MONGODB.variable, self.url())];
        environment.extend(self.is_standalone().then(|| (STANDALONE, "1".to_owned())));
        environment
    }

    fn address(&self) -> String {
        address(self.server.url())
    }

    async fn open_through(&self, address: SocketAddr, options: Options) -> Result<Client> {
        open_through(self.server.url(), address, options).await
    }

    async fn forget(&self, name: &Name) {
        let gone =
            doc! { "$set": { "expires": mongodb::bson::DateTime::from_millis(1) }, "$unset": { "owner": 1 } };
        self.locks().await.update_one(doc! { "_id": key(name) }, gone).await.expect("an update");
    }

    /// What clients send, as the server counts commands; what the storage engine has written to the collection.
    async fn counters(&self) -> Counters {
        let status = self.admin(doc! { "serverStatus": 1 }).await;
        let calls = |command: &str| number(&status, &["metrics", "commands", command, "total"]);
        let stages = [doc! { "$collStats": { "storageStats": {} } }];
        let mut stats = self.locks().await.aggregate(stages).await.expect("statistics");
        let writes = match stats.advance().await.expect("an answer") {
            true => {
                let stats = stats.deserialize_current().expect("a document");
                let calls = |what: &str| number(&stats, &["storageStats", "wiredTiger", "cursor", what]);
                ["insert calls", "update calls", "modify calls", "remove calls"].map(calls).iter().sum()
            }
            false => 0,
        };
        Counters { requests: ["findAndModify", "find", "update"].map(calls).iter().sum(), writes }
    }

    /// Locks that are held or wait to be forgotten at once: what is left of the others is their token.
    async fn residue(&self) -> u64 {
        let left = doc! { "$or": [{ "owner": { "$exists": true } }, { "token": { "$exists": false } }] };
        self.locks().await.count_documents(left).await.expect("a count")
    }

    async fn kept(&self) -> u64 {
        self.locks().await.count_documents(doc! {}).await.expect("a count")
    }

    /// Dates documents of free locks back: their tokens, and with them when they may go.
    async fn age(&self, by: Duration) {
        let millis = i64::try_from(by.as_millis()).expect("not that old");
        let older = doc! {
            "token": { "$subtract": ["$token", millis * 1000] },
            "forget": { "$subtract": ["$forget", millis] },
        };
        let free = doc! { "owner": { "$exists": false }, "token": { "$exists": true } };
        self.locks().await.update_many(free, vec![doc! { "$set": older }]).await.expect("an update");
    }

    /// Ends whatever runs, change streams among them, and cuts the connection of whoever asks next.
    async fn interrupt(&self) {
        self.admin(doc! { "killAllSessions": [] }).await;
        let next = doc! { "failCommands": ["findAndModify"], "closeConnection": true };
        self.admin(doc! { "configureFailPoint": "failCommand", "mode": { "times": 1 }, "data": next }).await;
    }

    async fn own_server(&self) -> Box<dyn OwnServer> {
        self.own(Settings::default())
    }

    async fn own_server_with_clock(&self) -> Box<dyn OwnServer> {
        self.own(Settings { clock: Clock::Own, ..Settings::default() })
    }
}

impl MongoDb {
    fn is_standalone(&self) -> bool {
        format!("{:?}", self.product) == "StandaloneMongoDb"
    }

    fn own(&self, settings: Settings) -> Box<dyn OwnServer> {
        Box::new(Own(Owned::start(self.product, &settings).expect("another was started before")))
    }

    async fn client(&self) -> mongodb::Client {
        let case = runtime::Handle::current().id();
        let known = self.clients.lock().expect("nobody panics under this lock").get(&case).cloned();
        if let Some(client) = known {
            return client;
        }
        let client =
            mongodb::Client::with_uri_str(self.server.url()).await.expect("a URL that was used before");
        self.clients.lock().expect("nobody panics under this lock").entry(case).or_insert(client).clone()
    }

    async fn locks(&self) -> Collection<Document> {
        self.client().await.database("onelock").collection("onelock_locks")
    }

    async fn admin(&self, command: Document) -> Document {
        self.client().await.database("admin").run_command(command).await.expect("an answer")
    }
}

/// The number at `path`, zero if it isn't there.
fn number(document: &Document, path: &[&str]) -> u64 {
    let (field, folders) = path.split_last().expect("a path");
    let folder = folders.iter().try_fold(document, |at, folder| at.get_document(folder).ok());
    match folder.and_then(|folder| folder.get(field)) {
        Some(Bson::Int64(n)) => n.unsigned_abs(),
        Some(Bson::Int32(n)) => u64::from(n.unsigned_abs()),
        Some(Bson::Double(n)) => *n as u64,
        _ => 0,
    }
}

fn key(name: &Name) -> Bson {
    let bytes = name.as_str().as_bytes().to_vec();
    Bson::Binary(mongodb::bson::Binary { subtype: mongodb::bson::spec::BinarySubtype::Generic, bytes })
}

/// `host:port` of a URL with one host.
fn address(url: &str) -> String {
    let (_, address, _) = split(url);
    if address.contains(':') { address.to_owned() } else { format!("{address}:27017") }
}

/// A client at `url`, but for the address; of that server alone, whatever it says of where its set is.
async fn open_through(url: &str, address: SocketAddr, options: Options) -> Result<Client> {
    let (before, _, after) = split(url);
    lock_mongo::connect_with(&format!("{before}{address}{after}"), options).await
}

/// What stands before host and port, these, and what follows.
fn split(url: &str) -> (&str, &str, &str) {
    let start = url.find("://").map_or(0, |at| at + 3);
    let end = url[start..].find(['/', '?']).map_or(url.len(), |at| start + at);
    let start = url[start..end].rfind('@').map_or(start, |at| start + at + 1);
    (&url[..start], &url[start..end], &url[end..])
}

#[derive(Debug)]
struct Own(Owned);

#[async_trait]
impl OwnServer for Own {
    async fn open(&self, options: Options) -> Result<Client> {
        lock_mongo::connect_with(self.0.url(), options).await
    }

    fn url(&self) -> String {
        self.0.url().to_owned()
    }

    fn pause(&mut self) {
        self.0.pause().expect("it runs");
    }

    fn resume(&mut self) {
        self.0.resume().expect("it was paused");
    }

    fn kill(&mut self) {
        self.0.kill().expect("it runs");
    }

    fn start(&mut self, data: Data) {
        self.0.restart(data).expect("it starts again");
    }

    fn step_clock(&mut self, step: Step) {
        self.0.step_clock(step).expect("its clock can be set");
    }

    fn address(&self) -> String {
        address(self.0.url())
    }

    async fn open_through(&self, address: SocketAddr, options: Options) -> Result<Client> {
        open_through(self.0.url(), address, options).await
    }
}
