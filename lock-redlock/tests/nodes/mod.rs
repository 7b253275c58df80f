//! Several Redis servers of one test, or those of the process that started this one.

#![allow(dead_code, reason = "each test program uses a part of it")]

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use lock_conformance::Counters;
use lock_core::driver::Context;
use lock_core::toolkit::Prefix;
use lock_core::{Client, Clock, Options, Random, Result};
use lock_redlock::{Redis, RedisNode, Redlock, VoteRegistry};
use lock_test_servers::{self as servers, Absence, Owned, RedisAdmin, Settings};
use redis::Cmd;
use redis::aio::MultiplexedConnection;

/// The usual number of nodes.
pub(crate) const FIVE: usize = 5;

/// No case asks for a longer ttl. New nodes get their votes at once.
pub(crate) const MAX_TTL: Duration = Duration::from_secs(300);

/// The longest time that one node may take for an answer: five of them share the machine with their clients.
const NODE_PATIENCE: Duration = Duration::from_secs(1);
/// The same where the network is made slow: as long as the call may take.
const ANY_PATIENCE: Duration = Duration::from_secs(5);

/// Several servers, in their order.
#[derive(Debug)]
pub(crate) struct Nodes {
    owned: Vec<Owned>,
    urls: Vec<String>,
    max_ttl: Duration,
    node_patience: Duration,
}

impl fmt::Display for Nodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.owned.first() {
            Some(first) => write!(f, "{} of {}", self.owned.len(), first.version()),
            None => write!(f, "{} servers", self.urls.len()),
        }
    }
}

impl Nodes {
    /// Starts so many servers, and marks each as one on which no client holds a lock.
    pub(crate) fn start(
        count: usize,
        max_ttl: Duration,
        settings: &Settings,
    ) -> std::result::Result<Nodes, Absence> {
        let nodes = Nodes::unmarked(count, settings)?.with_max_ttl(max_ttl);
        nodes.mark();
        Ok(nodes)
    }

    /// Starts so many servers, which have no vote yet.
    pub(crate) fn unmarked(count: usize, settings: &Settings) -> std::result::Result<Nodes, Absence> {
        let owned: Vec<Owned> = (0..count)
            .map(|_| Owned::start(&servers::Redis, settings))
            .collect::<std::result::Result<_, _>>()?;
        let urls = owned.iter().map(|server| server.url().to_owned()).collect();
        Ok(Nodes { owned, urls, max_ttl: MAX_TTL, node_patience: NODE_PATIENCE })
    }

    /// Takes servers that another process or test has started.
    pub(crate) fn at(urls: Vec<String>) -> Nodes {
        Nodes { owned: Vec::new(), urls, max_ttl: MAX_TTL, node_patience: NODE_PATIENCE }
    }

    /// Returns the same servers behind a network that may be slow.
    pub(crate) fn behind(&self, addresses: &[SocketAddr]) -> Nodes {
        let urls = addresses.iter().map(|address| format!("redis://{address}")).collect();
        Nodes { owned: Vec::new(), urls, max_ttl: self.max_ttl, node_patience: ANY_PATIENCE }
    }

    pub(crate) fn with_max_ttl(self, max_ttl: Duration) -> Nodes {
        Nodes { max_ttl, ..self }
    }

    pub(crate) fn max_ttl(&self) -> Duration {
        self.max_ttl
    }

    pub(crate) fn mark(&self) {
        let redlock = self.redlock();
        // On a runtime of its own, because the caller may be on one.
        let marking = std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async {
                let client = redlock.open(Options::default()).await.expect("they are up");
                client.init().await.expect("they can be marked");
            });
        });
        marking.join().expect("they are marked");
    }

    pub(crate) fn servers(&self) -> &[Owned] {
        &self.owned
    }

    pub(crate) fn urls(&self) -> &[String] {
        &self.urls
    }

    pub(crate) fn addresses(&self) -> Vec<String> {
        self.urls.iter().map(|url| url.trim_start_matches("redis://").to_owned()).collect()
    }

    pub(crate) fn url(&self) -> String {
        format!(
            "redlock://{}/?max_ttl={}ms&node_patience={}ms",
            self.addresses().join(","),
            self.max_ttl.as_millis(),
            self.node_patience.as_millis()
        )
    }

    pub(crate) fn redlock(&self) -> Redlock {
        let nodes = self.urls.iter().map(|url| Redis::from_url(url)).collect::<Result<_>>();
        let redlock = Redlock::of(nodes.expect("their URLs")).expect("an odd number of them");
        let redlock =
            redlock.max_ttl(self.max_ttl).and_then(|redlock| redlock.node_patience(self.node_patience));
        redlock.expect("within bounds")
    }

    /// Returns one of the nodes, to be asked by itself.
    pub(crate) fn node(&self, at: usize) -> RedisNode {
        node_at(&self.urls[at], &Arc::default(), self.max_ttl)
    }

    pub(crate) async fn open(&self, options: Options) -> Result<Client> {
        self.redlock().open(options).await
    }

    /// Sends the same command to each node.
    pub(crate) async fn each(&self, command: &Cmd) {
        for url in &self.urls {
            command.exec_async(&mut admin(url).await).await.expect("it is carried out");
        }
    }

    /// Deletes the key of a lock that is held.
    pub(crate) async fn forget(&self, key: &str) {
        let mut forgot = 0;
        for url in &self.urls {
            let mut delete = redis::cmd("DEL");
            let deleted: usize = delete.arg(key).query_async(&mut admin(url).await).await.expect("DEL");
            forgot += deleted;
        }
        assert!(forgot > self.urls.len() / 2, "{key} was held, but by {forgot} of {}", self.urls.len());
    }

    pub(crate) async fn counters(&self) -> Counters {
        let mut all = Counters::default();
        for url in &self.urls {
            let info: String =
                redis::cmd("INFO").arg("everything").query_async(&mut admin(url).await).await.expect("INFO");
            let calls = |command: &str| find(&info, &format!("cmdstat_{command}:calls="));
            // A command that was never sent has no line. Each node was marked, or has granted a lock, before.
            let asked = calls("evalsha").expect("the server counts calls of evalsha");
            let sent = ["eval", "subscribe", "unsubscribe"];
            all.requests += asked + sent.iter().filter_map(|command| calls(command)).sum::<u64>();
            all.writes += find(&info, "rdb_changes_since_last_save:").expect("the server counts changes");
        }
        all
    }

    /// Counts the keys that are neither tokens nor the nodes' own, and the channels, on all nodes.
    pub(crate) async fn residue(&self) -> u64 {
        let mut residue = 0;
        for url in &self.urls {
            let mut admin = RedisAdmin::of(url).await;
            residue += admin.keys_without(&[TOKEN, MARKER, QUARANTINE]).await.len() as u64;
            residue += admin.channel_count().await;
        }
        residue
    }

    /// Returns what is kept on the node that keeps most, without its marker and its quarantine.
    pub(crate) async fn kept(&self) -> u64 {
        let mut kept = 0;
        for url in &self.urls {
            let mut admin = RedisAdmin::of(url).await;
            let own = admin.keys_with(&[MARKER, QUARANTINE]).await.len() as u64;
            kept = kept.max(admin.key_count().await - own + admin.channel_count().await);
        }
        kept
    }

    /// Brings the end of every key nearer by `by`, except for the nodes' own.
    pub(crate) async fn age(&self, by: Duration) {
        for url in &self.urls {
            RedisAdmin::of(url).await.age(by, &[MARKER, QUARANTINE]).await;
        }
    }

    pub(crate) async fn interrupt(&self) {
        for url in &self.urls {
            RedisAdmin::of(url).await.interrupt().await;
        }
    }
}

/// The ends of the keys of tokens, of a node's marker and of its quarantine.
const TOKEN: &str = ":lock~t";
const MARKER: &str = ":lock~m";
const QUARANTINE: &str = ":lock~q";

/// Returns a node for the server at this URL. `registry` is shared with the other nodes.
pub(crate) fn node_at(url: &str, registry: &Arc<VoteRegistry>, max_ttl: Duration) -> RedisNode {
    let redis = Redis::from_url(url).expect("its URL");
    let context = Context::new(Clock::system(), Random::system(), ANY_PATIENCE);
    RedisNode::new(redis, context, &Prefix::default(), max_ttl, registry.clone()).expect("its settings")
}

pub(crate) async fn admin(url: &str) -> MultiplexedConnection {
    RedisAdmin::of(url).await.connection().clone()
}

/// Returns the number after `label`, if the label is there.
fn find(info: &str, label: &str) -> Option<u64> {
    let found = info.lines().find_map(|line| line.strip_prefix(label))?;
    let digits = found.split(|c: char| !c.is_ascii_digit()).next()?;
    Some(digits.parse().unwrap_or_else(|_| panic!("no number behind {label}: {found}")))
}
