//! Wake-ups, as the claims see them. One connection per client receives the notifications of releases and revokes. It
//! is opened at the first listen.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use lock_core::driver::Context;
use lock_core::toolkit::{Call, Feed, Prefix, QueuePosition, Subscription};
use lock_core::{Clock, Instant, Name, Owner, Result};

use super::feed::{ListenedTable, LocksTable, Notifications};
use super::session::Sessions;
use super::table::Marks;
use crate::table::{Key, Listener};

/// The wake-ups to which the claims of a client listen.
#[derive(Debug)]
pub(super) struct Wakes {
    feed: Feed<Notifications>,
    listened: ListenedTable,
}

impl Wakes {
    pub(super) fn new(sessions: Arc<Sessions>, prefix: Prefix, context: Context) -> Wakes {
        let listened = ListenedTable::default();
        let notifications = Notifications::new(sessions, prefix, &context, listened.clone());
        Wakes { feed: Feed::new(notifications, context), listened }
    }

    /// Listens to the releases of `name` in the table with this number.
    ///
    /// `Unsupported` if there is a pooler in between, because no notification would be received through it.
    pub(super) async fn listen(&self, call: &Call, name: &Name, table: i64) -> Result<Subscription> {
        let listening = self.feed.listen(name, LocksTable, call).await?;
        self.follow(call, table).await?;
        Ok(listening)
    }

    /// Listens to the revokes of this owner's locks, as `listen` does. `table` is `None` if the claim doesn't know the
    /// table's number.
    pub(super) async fn watch(&self, call: &Call, owner: &Owner, table: Option<i64>) -> Result<Subscription> {
        let watching = self.feed.watch(*owner, LocksTable, call).await?;
        if let Some(table) = table {
            self.follow(call, table).await?;
        }
        Ok(watching)
    }

    /// Returns when notifications of releases and revokes in the table with this number are received. For a claim that
    /// listens already.
    ///
    /// `Unsupported` as for `listen`.
    pub(super) async fn confirm(&self, call: &Call, table: i64) -> Result<()> {
        self.feed.confirm(LocksTable, call).await?;
        self.follow(call, table).await
    }

    /// Has the feed look for the table again, if it listens to one with another number: one of them was created anew.
    async fn follow(&self, call: &Call, table: i64) -> Result<()> {
        match self.listened.is(table) {
            true => Ok(()),
            false => self.feed.subscribe(LocksTable, call).await,
        }
    }
}

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

    fn heard(&self) -> u32 {
        self.listening.heard()
    }

    fn quarters_in_front(&self) -> u32 {
        self.listening.standing().map_or(0, QueuePosition::quarters_in_front)
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
            let _: Result<()> = self.wakes.confirm(call, table).await;
        }
    }
}
