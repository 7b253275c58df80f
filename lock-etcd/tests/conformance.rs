//! The conformance suite on etcd: each run has a server of its own, whose elections are short enough for leases of a
//! second.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lock_conformance::harness::{Count, Forget, Identity, Promise, Residue, Rises};
use lock_conformance::{Abilities, Counters, Facts, Missing, Verdict};
use lock_core::driver::{Fair, Lease};
use lock_core::{Client, Name, Options, Result};
use lock_etcd::etcd_client::{self, DeleteOptions, GetOptions, SortOrder, SortTarget};
use lock_test_servers::{self as servers, Backend, Product, Server, ServerUrl, run_on_server};

fn main() -> Verdict {
    run_on_server(Etcd)
}

#[derive(Debug)]
struct Etcd;

#[async_trait]
impl Backend for Etcd {
    fn product(&self) -> &'static dyn Product {
        &servers::Etcd
    }

    fn facts(&self) -> Facts {
        let one_trip =
            "a claim that does not wait looks before it takes a place; etcd's own tests lose that answer";
        let told_time = "leases end by a clock that starts with the leader, and no answer tells a time";
        Facts {
            // Leases have whole seconds. With a ttl of one second, a call has a third of a second. That is short for a
            // server that syncs each write, on a machine with other work.
            ttl: Duration::from_secs(2),
            // gRPC runs over HTTP/2.
            multiplexes: true,
            // The number of keys that one renewal asks about. A server accepts 128 operations.
            proven_at_once: 64,
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

    async fn open(&self, url: &str, options: Options) -> Result<Client> {
        lock_etcd::connect_with(url, options).await
    }

    fn address(&self, url: &str) -> Result<String, Missing> {
        match parsed(url) {
            several if several.hosts().contains(',') => {
                Err(Missing::because("a proxy stands before one server"))
            }
            one => Ok(one.address(2379)),
        }
    }

    async fn open_through(&self, url: &str, address: SocketAddr, options: Options) -> Result<Client> {
        lock_etcd::connect_with(&parsed(url).at(address), options).await
    }

    fn abilities(&self, server: &Server, abilities: Abilities) -> Abilities {
        let admin = Arc::new(Admin { url: server.url().to_owned() });
        Abilities {
            forget: Ok(admin.clone()),
            count: server.started_here().and(Ok(admin.clone())),
            residue: server.started_here().and(Ok(admin)),
            age: Err(Missing::because("no key is left on the server that could get old")),
            interrupt: Err(Missing::because("etcd cannot be told to cut a client's connections")),
            keep_busy: Err(Missing::because("etcd has no transaction that stays open")),
            clocks: Err(Missing::because("leases end by Go's monotonic clock, which is never set")),
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
    async fn forget(&self, name: &Name) {
        let mut raw = raw(&self.url).await;
        let queue = format!("{name}/");
        let first =
            GetOptions::new().with_prefix().with_sort(SortTarget::Create, SortOrder::Ascend).with_limit(1);
        let found = raw.get(queue, Some(first)).await.expect("an answer");
        let holder = found.kvs().first().expect("it is held");
        raw.delete(holder.key(), Some(DeleteOptions::new())).await.expect("an answer");
    }
}

#[async_trait]
impl Count for Admin {
    /// Counts the requests of clients, including keep-alives and messages on watch streams, and the writes to
    /// the store.
    async fn counters(&self) -> Counters {
        let metrics = metrics(parsed(&self.url).hosts()).await;
        let received = |method: &&str| {
            let of_it = format!("grpc_method=\"{method}\"");
            sum(&metrics, "grpc_server_msg_received_total{", &of_it)
                .expect("the server counts what it is sent")
        };
        let written = |what: &&str| {
            // The metric's names since etcd 3.5, and before.
            let [now, before] = ["etcd_mvcc", "etcd_debugging_mvcc"].map(|of| format!("{of}_{what}_total "));
            sum(&metrics, &now, "")
                .or_else(|| sum(&metrics, &before, ""))
                .expect("the server counts its writes")
        };
        Counters {
            requests: SENT.iter().map(received).sum(),
            writes: ["put", "delete"].iter().map(written).sum(),
        }
    }
}

#[async_trait]
impl Residue for Admin {
    /// Counts every key. Leases do not count: a lease belongs to a client and not to a lock.
    async fn residue(&self) -> u64 {
        let all = GetOptions::new().with_all_keys().with_count_only();
        let found = raw(&self.url).await.get("", Some(all)).await.expect("an answer");
        found.count().unsigned_abs()
    }
}

/// The gRPC methods that a client uses for its locks.
const SENT: [&str; 8] =
    ["Range", "Put", "DeleteRange", "Txn", "LeaseGrant", "LeaseRevoke", "LeaseKeepAlive", "Watch"];

fn parsed(url: &str) -> ServerUrl<'_> {
    ServerUrl::parse(url).expect("a URL that was used before")
}

async fn raw(url: &str) -> etcd_client::Client {
    let hosts: Vec<&str> = parsed(url).hosts().split(',').collect();
    etcd_client::Client::connect(hosts, None).await.expect("a URL that was used before")
}

async fn metrics(address: &str) -> String {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    let mut stream = tokio::net::TcpStream::connect(address).await.expect("the server is up");
    let request = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).await.expect("it takes requests");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.expect("it answers");
    String::from_utf8_lossy(&answer).into_owned()
}

/// The sum of the numbers in all lines that begin with `name` and contain `with`; `None` if there is no such line.
fn sum(metrics: &str, name: &str, with: &str) -> Option<u64> {
    let lines = metrics.lines().filter(|line| line.starts_with(name) && line.contains(with));
    let number = |line: &str| line.rsplit(' ').next().and_then(|number| number.parse::<f64>().ok());
    lines.map(|line| number(line).unwrap_or_else(|| panic!("no number: {line}")) as u64).reduce(|a, b| a + b)
}
