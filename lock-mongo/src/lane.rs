//! The session in which a claim's requests are numbered.
//!
//! A session's retryable writes have numbers, and the server refuses one that comes after a higher one (error 225,
//! TransactionTooOld). With attempt, renewals and release of a claim in one session, an attempt that arrives after its
//! release takes nothing, whatever the clocks say. (A standalone server has no such numbers. A release that found
//! nothing leaves its number in memory only, and a failover forgets it: then the attempt's deadline is what counts.)

use std::sync::Arc;
use std::time::Duration;

use lock_core::Clock;
use mongodb::ClientSession;
use tokio::sync::{Mutex, OwnedMutexGuard};

use crate::link::Link;

/// A claim's session. Requests borrow it: one that hangs gives it back when its task ends.
#[derive(Debug, Default)]
pub(crate) struct Lane {
    session: Arc<Mutex<Option<Numbered>>>,
    /// Requests in a row that were not answered.
    silent: u32,
}

/// A session, and the link that it belongs to.
#[derive(Debug)]
struct Numbered {
    link: Arc<Link>,
    session: ClientSession,
}

/// What a request is to a lane that has fallen silent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// It has to come after what was sent before: it stays in the lane until that has failed twice.
    Kept,
    /// It is a matter of time alone: it takes another at once.
    Free,
}

/// The session while one request has it.
#[derive(Debug)]
pub(crate) struct Borrowed(OwnedMutexGuard<Option<Numbered>>);

impl Lane {
    /// The session, once the request that has it is done; a new one after `wait`. Whatever hangs in the old one stays
    /// behind with it, and has its deadline.
    pub(crate) async fn borrow(&mut self, clock: &Clock, order: Order, wait: Duration) -> Borrowed {
        let patient = match order {
            Order::Kept => 2,
            Order::Free => 1,
        };
        if self.silent < patient
            && let Some(session) = clock.timeout(wait, self.session.clone().lock_owned()).await
        {
            return Borrowed(session);
        }
        *self = Lane::default();
        Borrowed(self.session.clone().lock_owned().await)
    }

    /// Takes note of whether the last request was answered.
    pub(crate) fn was_answered(&mut self, answered: bool) {
        self.silent = if answered { 0 } else { self.silent + 1 };
    }
}

impl Borrowed {
    /// The link that the session belongs to; if there is no session, the one in use.
    pub(crate) fn link(&self, current: Arc<Link>) -> Arc<Link> {
        self.0.as_ref().map_or(current, |numbered| numbered.link.clone())
    }

    /// The session, begun on this link if there is none.
    pub(crate) async fn session(&mut self, link: &Arc<Link>) -> mongodb::error::Result<&mut ClientSession> {
        if self.0.is_none() {
            let session = link.client().start_session().await?;
            *self.0 = Some(Numbered { link: link.clone(), session });
        }
        Ok(&mut self.0.as_mut().expect("it was just begun if there was none").session)
    }
}
