//! The conformance suite on ZooKeeper.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lock_conformance::harness::{Age, Count, Forget, Identity, Promise, Residue, Rises};
use lock_conformance::{Abilities, Counters, Facts, Missing, Verdict};
use lock_core::driver::{Fair, Lease};
use lock_core::{Name, Options, Result};
use lock_test_servers::{self as servers, Backend, Product, Server, ServerUrl, run_on_server};
use lock_zk::zookeeper_client::Client;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

fn main() -> Verdict {
    run_on_server(ZooKeeper)
}

#[derive(Debug)]
struct ZooKeeper;

#[async_trait]
impl Backend for ZooKeeper {
    fn product(&self) -> &'static dyn Product {
        &servers::ZooKeeper
    }

    fn facts(&self) -> Facts {
        let replays = "a connection begins with its session: a repeated request is another client's";
        let one_trip = "a claim that does not wait looks first; tests of lock-zk's own lose that answer";
        let told_time = "sessions end by a clock that starts with the server";
        Facts {
            // An attempt has a third of it. It may need a new session and four requests, each of which waits for a disk.
            ttl: Duration::from_millis(1500),
            // Pings and heartbeats are answered beside requests.
            multiplexes: true,
            // The client crate serves its connections by a thread that a fork has not got.
            opens_in_forks: false,
            replays: Err(Missing::because(replays)),
            one_trip: Err(Missing::because(one_trip)),
            told_time: Err(Missing::because(told_time)),
            ..Facts::promising([Promise {
                lease: Lease::Session,
                fair: Fair::PerProcess,
                rises: Rises::UntilAMajorityLosesItsData,
                identity: Identity::NotPromised,
            }])
        }
    }

    async fn open(&self, url: &str, options: Options) -> Result<lock_core::Client> {
        lock_zk::connect_with(url, options).await
    }

    fn address(&self, url: &str) -> Result<String, Missing> {
        match parsed(url) {
            several if several.hosts().contains(',') => {
                Err(Missing::because("a client of several servers may connect to any of them"))
            }
            one => Ok(one.address(2181)),
        }
    }

    async fn open_through(
        &self,
        url: &str,
        address: SocketAddr,
        options: Options,
    ) -> Result<lock_core::Client> {
        lock_zk::connect_with(&parsed(url).at(address), options).await
    }

    fn abilities(&self, server: &Server, abilities: Abilities) -> Abilities {
        let admin = Arc::new(Admin { url: server.url().to_owned() });
        Abilities {
            forget: Ok(admin.clone()),
            count: server.started_here().and(Ok(admin.clone())),
            residue: server.started_here().and(Ok(admin.clone())),
            age: server.started_here().and(Ok(admin)),
            interrupt: Err(Missing::because("ZooKeeper has no command that cuts connections")),
            keep_busy: Err(Missing::because("ZooKeeper has no transaction that stays open")),
            clocks: Err(Missing::because("sessions end by Java's monotonic clock, which no test can set")),
            ..abilities
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
    /// Removes the holder's node, as an administrator would. (Sessions that end are in lock-zk's own tests.)
    async fn forget(&self, name: &Name) {
        let url = parsed(&self.url);
        let folder = match url.path().trim_end_matches('/') {
            "" => lock_zk::ZooKeeper::DEFAULT_FOLDER,
            folder => folder,
        };
        let connector = Client::connector().with_session_timeout(Duration::from_secs(10)).with_fail_eagerly();
        let client = connector.connect(url.hosts()).await.expect("the server is up");
        let directory = format!("{folder}/{name}");
        let mut nodes = client.list_children(&directory).await.expect("it is held");
        nodes.sort_by_key(|node| node[node.len() - 10..].to_owned());
        let first = nodes.first().expect("it is held");
        client.delete(&format!("{directory}/{first}"), None).await.expect("it is held");
    }
}

#[async_trait]
impl Count for Admin {
    /// Counts the packets of clients, pings and heartbeats included, and the writes: each write has a zxid of its own.
    async fn counters(&self) -> Counters {
        let host = parsed(&self.url).hosts();
        let received = found(&word(host, "mntr").await, "zk_packets_received");
        let requests = received.trim().parse().expect("a number");
        let zxid = found(&word(host, "srvr").await, "Zxid:");
        let writes = u64::from_str_radix(zxid.trim().trim_start_matches("0x"), 16).expect("a number");
        Counters { requests, writes }
    }
}

#[async_trait]
impl Residue for Admin {
    /// Counts all nodes: those of owners, and the directories.
    async fn residue(&self) -> u64 {
        let host = parsed(&self.url).hosts();
        let count = found(&word(host, "mntr").await, "zk_znode_count");
        count.trim().parse().expect("a number")
    }
}

#[async_trait]
impl Age for Admin {
    /// Counts the figures, too, that the server keeps for each name directly below the root.
    async fn kept(&self) -> u64 {
        let host = parsed(&self.url).hosts();
        let figures = word(host, "mntr").await.lines().filter(|line| line.contains("_per_namespace")).count();
        assert!(figures > 0, "the server keeps such figures");
        self.residue().await + figures as u64
    }

    /// Does nothing: of a free lock only an empty directory is kept, which goes by itself.
    async fn age(&self, _by: Duration) {}
}

/// Returns what the server answers to a command of four letters.
async fn word(host: &str, word: &str) -> String {
    let mut stream = TcpStream::connect(host).await.expect("the server is up");
    stream.write_all(word.as_bytes()).await.expect("the server listens");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("the server answers");
    answer
}

/// Returns the text behind these words. Panics if there is none: a statistic that was renamed would count nothing, and
/// its test would pass.
fn found(answer: &str, what: &str) -> String {
    let found = answer.lines().find_map(|line| line.strip_prefix(what));
    found.unwrap_or_else(|| panic!("the server tells no {what}: {answer}")).to_owned()
}

fn parsed(url: &str) -> ServerUrl<'_> {
    ServerUrl::parse(url).expect("a URL that was used before")
}
