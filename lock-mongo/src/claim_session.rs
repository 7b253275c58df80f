//! The session of a claim, which numbers the claim's requests.
//!
//! A session's retryable writes have numbers, and the server refuses a write that arrives after one with a higher
//! number (error 225, TransactionTooOld). Attempts and release of a claim are in one session until a lock that is held for
//! long gives it back, with all attempts answered. So an attempt that arrives after its release takes nothing, whatever
//! the clocks say. There are two exceptions, in which the attempt's deadline alone protects: a standalone server has no
//! such numbers, and a release that found nothing leaves its number in memory only, so that a failover forgets it.

use std::sync::Arc;
use std::time::Duration;

use lock_core::Clock;
use mongodb::ClientSession;
use tokio::sync::{Mutex, OwnedMutexGuard};

use crate::link::Link;

/// A claim's session. Each request borrows it. A request that hangs gives it back when its task ends.
#[derive(Debug, Default)]
pub(crate) struct ClaimSession {
    session: Arc<Mutex<Option<Box<Numbered>>>>,
    /// Requests in a row that were not answered.
    unanswered: u32,
}

/// A session, and the link that it belongs to.
#[derive(Debug)]
struct Numbered {
    link: Arc<Link>,
    session: ClientSession,
}

/// The number of requests in a row that may stay unanswered before the claim takes another session.
const TOLERATED: u32 = 2;

/// The session while one request borrows it.
#[derive(Debug)]
pub(crate) struct Borrowed(OwnedMutexGuard<Option<Box<Numbered>>>);

impl ClaimSession {
    /// Waits until the request that has the session is done, and borrows it. After `wait`, takes a new session. A
    /// request that hangs in the old session stays there; its deadline bounds it.
    pub(crate) async fn borrow(&mut self, clock: &Clock, wait: Duration) -> Borrowed {
        if self.unanswered < TOLERATED
            && let Some(session) = clock.timeout(wait, self.session.clone().lock_owned()).await
        {
            return Borrowed(session);
        }
        *self = ClaimSession::default();
        Borrowed(self.session.clone().lock_owned().await)
    }

    /// Records whether the last request was answered.
    pub(crate) fn record_answered(&mut self, answered: bool) {
        self.unanswered = if answered { 0 } else { self.unanswered + 1 };
    }

    /// Gives the session back to the client's other claims if all requests in it were answered; a lock that is held for
    /// long needs none. The session's number does not fall while others use it, so a copy of an answered request that
    /// arrives later is still refused.
    pub(crate) fn give_back(&mut self) {
        if self.unanswered == 0
            && let Ok(mut idle) = self.session.try_lock()
        {
            *idle = None;
        }
    }
}

impl Borrowed {
    /// Returns the link that the session belongs to; `current` if there is no session yet.
    pub(crate) fn link(&self, current: Arc<Link>) -> Arc<Link> {
        self.0.as_ref().map_or(current, |numbered| numbered.link.clone())
    }

    /// Returns the session, and starts one on this link if there is none.
    pub(crate) async fn session(&mut self, link: &Arc<Link>) -> mongodb::error::Result<&mut ClientSession> {
        if self.0.is_none() {
            let session = link.client().start_session().await?;
            *self.0 = Some(Box::new(Numbered { link: link.clone(), session }));
        }
        Ok(&mut self.0.as_mut().expect("a session was started if there was none").session)
    }
}
