//! Connections to the members of a cluster, one at a time.
//!
//! An etcd-client that knows several members distributes requests over all of them, whether they are up or not. So each
//! of our etcd-clients knows one member.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use etcd_client::{Client, ConnectOptions};
use lock_core::toolkit::{Call, Connect};
use lock_core::{Clock, Effect, Instant, Result};

use crate::errors;

/// The members of a cluster, which are connected to in turn.
pub(crate) struct Members {
    endpoints: Vec<String>,
    connecting: ConnectOptions,
    /// The number of connections that were begun.
    begun: AtomicUsize,
}

/// An etcd-client for one member.
pub(crate) struct Link {
    pub(crate) client: Client,
    /// When the last answer came, in nanoseconds of the clock.
    answered: AtomicU64,
}

/// The pause between two pings of an idle connection. By default, servers close a connection that pings more often than
/// every 5 s.
const PING: Duration = Duration::from_secs(10);

impl Members {
    pub(crate) fn new(endpoints: Vec<String>, connecting: ConnectOptions, patience: Duration) -> Members {
        let connecting = connecting
            .with_connect_timeout(patience)
            .with_keep_alive(PING, patience)
            .with_tcp_keepalive(PING)
            .with_require_leader(true)
            .with_auto_token_refresh(true);
        Members { endpoints, connecting, begun: AtomicUsize::new(0) }
    }

    pub(crate) fn endpoints(&self) -> &[String] {
        &self.endpoints
    }
}

#[async_trait]
impl Connect for Members {
    type Connection = Link;

    /// Connects to the next member. Ends with the call: the heartbeat of a short session must not wait longer for a
    /// silent member.
    async fn connect(&self, call: &Call) -> Result<Link> {
        let next = self.begun.fetch_add(1, Ordering::Relaxed) % self.endpoints.len();
        let connecting = Client::connect([&self.endpoints[next]], Some(self.connecting.clone()));
        match call.within(connecting).await {
            Some(Ok(client)) => Ok(Link { client, answered: AtomicU64::new(0) }),
            Some(Err(error)) => Err(errors::asking(error)),
            None => Err(call.out_of_time(Effect::NotApplied)),
        }
    }

    fn is_usable(&self, _: &Link) -> bool {
        true
    }
}

impl Link {
    pub(crate) fn note_answer(&self, clock: &Clock) {
        self.answered.fetch_max(nanos(clock.now()), Ordering::Relaxed);
    }

    pub(crate) fn has_answered_since(&self, moment: Instant) -> bool {
        self.answered.load(Ordering::Relaxed) > nanos(moment)
    }
}

fn nanos(at: Instant) -> u64 {
    u64::try_from(at.since_origin().as_nanos()).unwrap_or(u64::MAX)
}
