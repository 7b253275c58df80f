//! The connection for calls without a claim (inspect, revoke, check). Its session has no locks on the server, and is
//! replaced when the connection breaks.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lock_core::driver::Call;
use lock_core::{Effect, Result};

use crate::errors;
use crate::link::{Failure, Link, Site};
use crate::session::not_opened;

/// The connection for calls without a claim.
#[derive(Debug)]
pub(crate) struct QueryLink {
    site: Site,
    current: Mutex<Arc<Link>>,
    /// Locked by the call that connects: one at a time.
    connecting: tokio::sync::Mutex<()>,
}

/// A timeout that is longer than any server grants, so that the server grants its longest. The session holds no locks.
pub(crate) const LONGEST_TIMEOUT: Duration = Duration::from_millis(i32::MAX as u64);

impl QueryLink {
    pub(crate) fn new(site: Site, link: Link) -> QueryLink {
        let (current, connecting) = (Mutex::new(Arc::new(link)), tokio::sync::Mutex::default());
        QueryLink { site, current, connecting }
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

    /// Returns a link that works, as far as is known. Connects if there is none.
    pub(crate) async fn link(&self, call: &Call) -> Result<Arc<Link>> {
        if let Some(link) = self.alive() {
            return Ok(link);
        }
        let one =
            call.within(self.connecting.lock()).await.ok_or_else(|| call.out_of_time(Effect::NotApplied))?;
        if let Some(link) = self.alive() {
            return Ok(link);
        }
        let opened = Link::open(&self.site, 1, LONGEST_TIMEOUT, None, call).await;
        let link = Arc::new(opened.map_err(|why| not_opened(why, call))?);
        let old = std::mem::replace(&mut *self.current(), link.clone());
        // Its client would reconnect by itself.
        old.end().await;
        drop(one);
        Ok(link)
    }

    fn alive(&self) -> Option<Arc<Link>> {
        let link = self.current().clone();
        link.is_alive().then_some(link)
    }

    fn current(&self) -> MutexGuard<'_, Arc<Link>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
