//! Wake-ups, as the claims see them. One connection per client receives the notifications of releases and revokes. It
//! is opened at the first listen.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use lock_core::driver::{Call, Context, Prefix, Subscription};
use lock_core::{Clock, Effect, Error, Instant, Name, Owner, Result};
use tokio::sync::{mpsc, oneshot};

use super::feed::{Feed, Hubs, ListenRequest, ListenedTable, Trouble};
use super::session::Sessions;
use super::table::Marks;
use crate::table::{Key, Listener};

/// Where the claims of a client listen. The feed, which is the task with that connection, ends when this is dropped.
#[derive(Debug)]
pub(super) struct Wakes {
    hubs: Hubs,
    listened: ListenedTable,
    requests: mpsc::UnboundedSender<ListenRequest>,
    /// The feed, until the first listen starts it.
    feed: Mutex<Option<Feed>>,
}

impl Wakes {
    pub(super) fn new(sessions: Arc<Sessions>, prefix: Prefix, context: Context) -> Wakes {
        let (hubs, listened) = (Hubs::default(), ListenedTable::default());
        let (requests, received) = mpsc::unbounded_channel();
        let feed = Feed::new(sessions, prefix, context, hubs.clone(), listened.clone(), received);
        Wakes { hubs, listened, requests, feed: Mutex::new(Some(feed)) }
    }

    /// Listens from now on to the releases of `name`, as far as they are received.
    pub(super) fn listen(&self, name: &Name) -> Subscription {
        self.hubs.waiters.listen(name)
    }

    /// Listens from now on to the revokes of this owner's locks, as far as they are received.
    pub(super) fn watch(&self, owner: &Owner) -> Subscription {
        self.hubs.holders.listen(&owner.to_name())
    }

    /// From its return on, notifications of releases and revokes in `table` are received; if the table is not known,
    /// those in the table of locks.
    ///
    /// `Unsupported` if there is a pooler in between, because none would be received through it.
    pub(super) async fn ensure_listening(&self, call: &Call, table: Option<i64>) -> Result<()> {
        if table.map_or(self.listened.is_any(), |table| self.listened.is(table)) {
            return Ok(());
        }
        match call.clock().timeout(call.left(), self.request(table)).await {
            Some(Ok(())) => Ok(()),
            Some(Err(Trouble::Pooled)) => Err(Error::unsupported(POOLED)),
            Some(Err(Trouble::Broken(how))) => Err(Error::unavailable(Effect::NotApplied, how)),
            None => Err(Error::unavailable(
                Effect::NotApplied,
                "the server did not confirm in time that it sends notifications",
            )),
        }
    }

    async fn request(&self, table: Option<i64>) -> Result<(), Trouble> {
        if let Some(feed) = self.feed.lock().unwrap_or_else(PoisonError::into_inner).take() {
            tokio::spawn(feed.run());
        }
        let (reply, answer) = oneshot::channel();
        let ended = |_| Trouble::Broken("the feed of wake-ups has ended".to_owned());
        self.requests.send(ListenRequest { table, reply }).map_err(|_| ended(()))?;
        answer.await.map_err(|_| ended(()))?
    }
}

pub(super) const POOLED: &str = "a pooler lends the server's sessions for each transaction: no notification of a \
    release comes through it, so waiters look again and again";

/// A holding claim's subscription to revokes. It ends when it is dropped.
#[derive(Debug)]
pub(super) struct Holder(pub(super) Subscription);

#[async_trait]
impl Listener for Holder {
    async fn woken(&self) {
        self.0.woken().await;
    }
}

/// A waiting claim's subscription to releases. It ends when it is dropped.
#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) listening: Subscription,
    pub(super) wakes: Arc<Wakes>,
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

    async fn refresh_mark(&self, call: &Call) {
        if !self.is_due(call.clock()) {
            return;
        }
        let asked = call.clock().now();
        // Without a mark, the waiter finds the release by looking.
        if let Ok(table) = self.marks.write(call, &self.key).await {
            *self.marked.lock().unwrap_or_else(PoisonError::into_inner) = asked;
            // The table may have been created anew since. If this fails, the waiter finds the release by looking, too.
            let _: Result<()> = self.wakes.ensure_listening(call, Some(table)).await;
        }
    }
}
