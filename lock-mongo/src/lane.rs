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
pub(crate) struct Lane(Arc<Mutex<Option<Numbered>>>);

/// A session, and the link that it belongs to.
#[derive(Debug)]
struct Numbered {
    link: Arc<Link>,
    session: ClientSession,
}

/// The session while one request has it.
#[derive(Debug)]
pub(crate) struct Borrowed(OwnedMutexGuard<Option<Numbered>>);

impl Lane {
    /// The session, once the request that has it is done; a new one after `wait`.
    pub(crate) async fn borrow(&mut self, clock: &Clock, wait: Duration) -> Borrowed {
        match clock.timeout(wait, self.0.clone().lock_owned()).await {
            Some(session) => Borrowed(session),
            None => {
                // Whatever hangs there stays behind, and has its deadline.
                *self = Lane::default();
                Borrowed(self.0.clone().lock_owned().await)
            }
        }
    }
}

impl Borrowed {
    /// The session on this link, begun if there is none. Sessions are the driver's, and not another client's.
    pub(crate) async fn session(&mut self, link: &Arc<Link>) -> mongodb::error::Result<&mut ClientSession> {
        if self.0.as_ref().is_some_and(|numbered| !Arc::ptr_eq(&numbered.link, link)) {
            *self.0 = None;
        }
        if self.0.is_none() {
            let session = link.client().start_session().await?;
            *self.0 = Some(Numbered { link: link.clone(), session });
        }
        Ok(&mut self.0.as_mut().expect("it was just begun if there was none").session)
    }
}
