//! The connection for calls without a claim (inspect, revoke, check). Its session has no locks on the server, and is
//! replaced when the connection breaks.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lock_core::toolkit::{Call, Connect, SharedConnection};
use lock_core::{Effect, Result};

use crate::errors;
use crate::link::{Failure, Link, Site};

/// The connection for calls without a claim.
#[derive(Debug)]
pub(crate) struct QueryLink(SharedConnection<NewSession>);

/// Opens each connection in a session of its own.
struct NewSession(Site);

/// A timeout that is longer than any server grants, so that the server grants its longest. The session holds no locks.
pub(crate) const LONGEST_TIMEOUT: Duration = Duration::from_millis(i32::MAX as u64);

#[async_trait]
impl Connect for NewSession {
    type Connection = Link;

    async fn connect(&self, call: &Call) -> Result<Link> {
        Link::open(&self.0, 1, LONGEST_TIMEOUT, None, call).await.map_err(|why| why.into_error(call))
    }

    fn is_usable(&self, link: &Link) -> bool {
        link.is_alive()
    }

    /// The old link's client would reconnect by itself.
    async fn discard(&self, link: Arc<Link>) {
        link.end().await;
    }
}

impl QueryLink {
    pub(crate) fn new(site: Site) -> QueryLink {
        QueryLink(SharedConnection::new(NewSession(site)))
    }

    /// Returns the outcome of a request on `link`; `None` if the link is broken. The caller then sends the request
    /// again on another link, so it must be harmless to do it twice.
    pub(crate) async fn settle<T>(
        &self,
        link: &Link,
        call: &Call,
        outcome: Result<T, Failure>,
    ) -> Result<Option<T>> {
        match outcome {
            Ok(out) => return Ok(Some(out)),
            Err(Failure::Refused(e)) => return Err(errors::refused(e)),
            Err(Failure::Persistent(path)) => return Err(errors::persistent_node(&path)),
            Err(Failure::Broken) => link.end().await,
            Err(Failure::Late) if !link.has_answered_since(call.began()) => link.end().await,
            Err(Failure::Late) => {}
        }
        if call.is_over() { Err(call.out_of_time(Effect::Unknown)) } else { Ok(None) }
    }

    /// Closes the connection, if there is one.
    pub(crate) fn close(&self) {
        if let Some(link) = self.0.usable() {
            self.0.give_up(&link);
        }
    }

    /// Returns a link that works, as far as is known. Connects if there is none.
    pub(crate) async fn link(&self, call: &Call) -> Result<Arc<Link>> {
        self.0.get(call).await
    }
}
