//! Redlock as it is written down in the manual of Redis: `SET NX PX` on all servers, a majority within the time that the
//! lease is worth, `DEL` of what is one's own. No token, and no guard.

use std::time::{Duration, Instant};

use lock_core::{Owner, Random};
use redis::Script;
use redis::aio::MultiplexedConnection;

use crate::Outcome;

/// How long a server may take: "small compared to the total lock auto-release time".
const PATIENCE: Duration = Duration::from_millis(50);

const RELEASE: &str =
    "if redis.call('get',KEYS[1]) == ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end";

/// A client of five servers.
pub(super) struct Plain {
    connections: Vec<MultiplexedConnection>,
}

/// What it was granted.
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

impl Plain {
    /// Servers that can't be reached have no part in it.
    pub(super) async fn connect(urls: &[String]) -> Outcome<Plain> {
        let mut connections = Vec::new();
        for url in urls {
            let client = redis::Client::open(url.as_str())?;
            let connecting = client.get_multiplexed_async_connection();
            if let Ok(Ok(connection)) = tokio::time::timeout(PATIENCE, connecting).await {
                connections.push(connection);
            }
        }
        Ok(Plain { connections })
    }

    /// Once. `None` if no majority of the five granted it in time.
    pub(super) async fn acquire(&self, name: &str, ttl: Duration) -> Outcome<Option<Lease>> {
        let (value, began) = (Owner::mint(&Random::system()).to_string(), Instant::now());
        let mut granted = 0;
        for connection in &self.connections {
            let mut set = redis::cmd("SET");
            set.arg(name).arg(&value).arg("NX").arg("PX").arg(ttl.as_millis() as u64);
            let mut connection = connection.clone();
            let set = set.query_async::<Option<String>>(&mut connection);
            granted += u32::from(matches!(tokio::time::timeout(PATIENCE, set).await, Ok(Ok(Some(_)))));
        }
        // For the clocks' rates, as in the manual.
        let until = began + ttl - ttl / 100 - Duration::from_millis(2);
        let lease = Lease { name: name.to_owned(), value, until };
        if granted >= 3 && lease.is_held() {
            return Ok(Some(lease));
        }
        self.release(&lease).await;
        Ok(None)
    }

    pub(super) async fn release(&self, lease: &Lease) {
        for connection in &self.connections {
            let script = Script::new(RELEASE);
            let mut connection = connection.clone();
            let mut call = script.key(&lease.name);
            let release = call.arg(&lease.value).invoke_async::<i64>(&mut connection);
            // Who doesn't answer forgets it one ttl later.
            drop(tokio::time::timeout(PATIENCE, release).await);
        }
    }
}
