//! Wake-ups, seen from the claims: one connection per client hears of releases, opened at the first listen.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use lock_core::driver::Call;
use lock_core::{Clock, Context, Done, Error, Hub, Instant, Listening, Name, Prefix, Result};
use tokio::sync::{mpsc, oneshot};

use super::feed::{Feed, Heard, Order, Trouble};
use super::session::Sessions;
use super::table::Marks;
use crate::table::{Key, Listener};

/// Where the claims of a client listen. The feed ends when this is dropped.
#[derive(Debug)]
pub(super) struct Wakes {
    hub: Hub,
    heard: Heard,
    orders: mpsc::UnboundedSender<Order>,
    /// Until the first listen starts it.
    feed: Mutex<Option<Feed>>,
}

impl Wakes {
    pub(super) fn new(sessions: Arc<Sessions>, prefix: Prefix, context: Context) -> Wakes {
        let (hub, heard) = (Hub::default(), Heard::default());
        let (orders, received) = mpsc::unbounded_channel();
        let feed = Feed::new(sessions, prefix, context, hub.clone(), heard.clone(), received);
        Wakes { hub, heard, orders, feed: Mutex::new(Some(feed)) }
    }

    /// Listens from now on to whatever is heard.
    pub(super) fn listen(&self, name: &Name) -> Listening {
        self.hub.listen(name)
    }

    /// From its return on, releases in `table` are heard.
    ///
    /// `Unsupported` if a pooler stands in between, through which none would be.
    pub(super) async fn hear(&self, call: &Call, table: i64) -> Result<()> {
        if self.heard.is(table) {
            return Ok(());
        }
        match call.clock().timeout(call.left(), self.order(table)).await {
            Some(Ok(())) => Ok(()),
            Some(Err(Trouble::Lent)) => Err(Error::unsupported(LENT)),
            Some(Err(Trouble::Broken(how))) => Err(Error::unavailable(Done::No, how)),
            None => Err(Error::unavailable(
                Done::No,
                "the server did not say in time that it would tell of releases",
            )),
        }
    }

    async fn order(&self, table: i64) -> Result<(), Trouble> {
        if let Some(feed) = self.feed.lock().unwrap_or_else(PoisonError::into_inner).take() {
            tokio::spawn(feed.run());
        }
        let (reply, answer) = oneshot::channel();
        let ended = |_| Trouble::Broken("the feed of wake-ups has ended".to_owned());
        self.orders.send(Order { table, reply }).map_err(|_| ended(()))?;
        answer.await.map_err(|_| ended(()))?
    }
}

pub(super) const LENT: &str = "a pooler lends us the server's sessions for each transaction: nobody hears of a release \
    through it; waiting falls back to looking again and again";

/// A claim that listens; stops when dropped.
#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) listening: Listening,
    pub(super) key: Key,
    pub(super) marks: Marks,
    pub(super) marked: Mutex<Instant>,
}

impl Waiter {
    fn is_due(&self, clock: &Clock) -> bool {
        let marked = *self.marked.lock().unwrap_or_else(PoisonError::into_inner);
        clock.now().since(marked) > super::table::REFRESHED
    }
}

#[async_trait]
impl Listener for Waiter {
    async fn woken(&self) {
        self.listening.woken().await;
    }

    async fn go_on(&self, call: &Call) {
        if !self.is_due(call.clock()) {
            return;
        }
        let asked = call.clock().now();
        // Without a mark the release is found by looking.
        if self.marks.leave(call, &self.key).await.is_ok() {
            *self.marked.lock().unwrap_or_else(PoisonError::into_inner) = asked;
        }
    }
}
