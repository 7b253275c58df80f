//! Redlock as the manual of Redis describes it: `SET NX PX` on all servers, a majority within the validity time of the
//! lease, and `DEL` of the client's own value. It has no token, and no guard.

use std::time::{Duration, Instant};

use lock_core::{Owner, Random};
use redis::aio::MultiplexedConnection;
use redis::{Client, RedisResult, Script};

use crate::Outcome;

/// How long a server may take: "small compared to the total lock auto-release time".
const PATIENCE: Duration = Duration::from_millis(50);

const RELEASE: &str =
    "if redis.call('get',KEYS[1]) == ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end";

/// A client of five servers.
pub(super) struct Plain {
    servers: Vec<Server>,
}

/// One of the servers.
struct Server {
    client: Client,
    /// None as long as the server can't be reached.
    connection: Option<MultiplexedConnection>,
}

/// A lock that was granted.
pub(super) struct Lease {
    name: String,
    value: String,
    until: Instant,
}

impl Lease {
    pub(super) fn is_held(&self) -> bool {
        Instant::now() < self.until
    }
}

impl Server {
    /// Connects, if there is no connection. A server that can't be reached takes no part this time.
    async fn reach(&mut self) {
        if self.connection.is_none() {
            let connecting = self.client.get_multiplexed_async_connection();
            self.connection = tokio::time::timeout(PATIENCE, connecting).await.ok().and_then(Result::ok);
        }
    }

    async fn grants(&mut self, set: &redis::Cmd) -> bool {
        let Some(connection) = &mut self.connection else { return false };
        match tokio::time::timeout(PATIENCE, set.query_async::<Option<String>>(connection)).await {
            Ok(Ok(granted)) => granted.is_some(),
            Ok(Err(_)) => {
                self.connection = None;
                false
            }
            Err(_) => false,
        }
    }
}

impl Plain {
    /// Creates a client. It connects to the servers at its first acquisition.
    pub(super) fn of(urls: &[String]) -> Outcome<Plain> {
        let server = |url: &String| Ok(Server { client: Client::open(url.as_str())?, connection: None });
        Ok(Plain { servers: urls.iter().map(server).collect::<RedisResult<_>>()? })
    }

    /// Tries once. Returns `None` if no majority of the five granted it in time.
    pub(super) async fn acquire(&mut self, name: &str, ttl: Duration) -> Outcome<Option<Lease>> {
        for server in &mut self.servers {
            server.reach().await;
        }
        let (value, began) = (Owner::mint(&Random::system()).to_string(), Instant::now());
        let mut granted = 0;
        for server in &mut self.servers {
            let mut set = redis::cmd("SET");
            set.arg(name).arg(&value).arg("NX").arg("PX").arg(ttl.as_millis() as u64);
            granted += u32::from(server.grants(&set).await);
        }
        // A margin for the drift of the clocks, as in the manual.
        let until = began + ttl - ttl / 100 - Duration::from_millis(2);
        let lease = Lease { name: name.to_owned(), value, until };
        if granted >= 3 && lease.is_held() {
            return Ok(Some(lease));
        }
        self.release(&lease).await;
        Ok(None)
    }

    pub(super) async fn release(&self, lease: &Lease) {
        for connection in self.servers.iter().filter_map(|server| server.connection.as_ref()) {
            let script = Script::new(RELEASE);
            let mut connection = connection.clone();
            let mut call = script.key(&lease.name);
            let release = call.arg(&lease.value).invoke_async::<i64>(&mut connection);
            // A server that doesn't answer drops the key one ttl later.
            drop(tokio::time::timeout(PATIENCE, release).await);
        }
    }
}
