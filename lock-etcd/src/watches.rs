//! Watches, as claims use them: on the key before a claim's own key, and on its own key.
//!
//! A waiter watches from *now*, and looks again once the server has made the watch. It does not watch from a known
//! revision: as soon as another client writes, that revision is in the past, and the server then serves the watch from
//! its slow path, 90 ms late. Even "now" is in the past if another client writes while the watch is made. So each such
//! watch is made twice, and the first event counts.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lock_core::toolkit::Call;
use lock_core::{Clock, Effect, Error, Result};
use tokio::sync::{Notify, mpsc, oneshot};

use crate::cluster::Cluster;
use crate::feed::Feed;
use crate::transactions::KeyMetadata;

/// The watches of a client's claims. The feed ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Watches {
    table: Table,
    orders: mpsc::UnboundedSender<Order>,
    /// The feed, until the first watch starts it.
    feed: Mutex<Option<Feed>>,
    clock: Clock,
}

/// The watches that claims have. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table(Arc<Mutex<Entries>>);

#[derive(Debug, Default)]
pub(crate) struct Entries {
    pub(crate) watches: HashMap<i64, Entry>,
    last: i64,
}

/// One watch.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) key: Vec<u8>,
    pub(crate) kind: Kind,
    /// Notified of events.
    pub(crate) wake: Arc<Notify>,
    /// The server was asked for the watch.
    pub(crate) watched: bool,
    /// Receives the outcome once the server has made the watch.
    pub(crate) made: Option<oneshot::Sender<Result<(), WatchError>>>,
}

#[derive(Clone, Debug)]
pub(crate) enum Kind {
    /// A key that a claim waits for: the claim is woken when the key is deleted.
    Before,
    /// A claim's own key, last seen with this value at this revision. The claim is woken when the key is deleted or
    /// gets another owner.
    Own { value: Vec<u8>, modified: i64 },
}

/// An order to the feed.
#[derive(Debug)]
pub(crate) enum Order {
    /// Make this watch at once.
    Now(i64),
    /// Make this watch a little later: most locks are released before another client could take them away.
    Soon(i64),
    /// Remove this watch.
    Gone(i64),
}

/// Why a watch cannot be made.
#[derive(Clone, Debug)]
pub(crate) enum WatchError {
    /// The server refuses it to this user.
    Refused(String),
    Broken(String),
}

/// A claim's watch. It ends when dropped.
#[derive(Debug)]
pub(crate) struct Watching {
    id: i64,
    table: Table,
    orders: mpsc::UnboundedSender<Order>,
}

impl Watches {
    pub(crate) fn new(
        cluster: Arc<Cluster>,
        random: lock_core::Random,
        patience: std::time::Duration,
    ) -> Watches {
        let (orders, received) = mpsc::unbounded_channel();
        let (table, clock) = (Table::default(), cluster.clock.clone());
        let feed = Feed::new(cluster, random, patience, table.clone(), received);
        Watches { table, orders, feed: Mutex::new(Some(feed)), clock }
    }

    /// Watches a key from now on. Returns once the server has made the watch. Every deletion of the key from then on
    /// notifies `wake`.
    ///
    /// `Unsupported` if the user has no right to watch.
    pub(crate) async fn before(&self, call: &Call, key: &[u8], wake: &Arc<Notify>) -> Result<Watching> {
        let (made, told) = oneshot::channel();
        let entry = Entry {
            key: key.to_vec(),
            kind: Kind::Before,
            wake: wake.clone(),
            watched: false,
            made: Some(made),
        };
        let watching = self.add(entry, Order::Now);
        let broken = |_| WatchError::Broken("the client's task for wake-ups has ended".to_owned());
        match call.within(told).await.map(|told| told.unwrap_or_else(|ended| Err(broken(ended)))) {
            Some(Ok(())) => Ok(watching),
            Some(Err(WatchError::Refused(why))) => Err(Error::unsupported(format!("{REFUSED}: {why}"))),
            Some(Err(WatchError::Broken(how))) => Err(Error::unavailable(Effect::NotApplied, how)),
            None => Err(call.out_of_time(Effect::NotApplied)),
        }
    }

    /// Watches a claim's own key from its last seen revision on. The watch is made a little later.
    pub(crate) fn own(
        &self,
        key: &[u8],
        value: &[u8],
        metadata: KeyMetadata,
        wake: &Arc<Notify>,
    ) -> Watching {
        let kind = Kind::Own { value: value.to_vec(), modified: metadata.modified };
        self.add(
            Entry { key: key.to_vec(), kind, wake: wake.clone(), watched: false, made: None },
            Order::Soon,
        )
    }

    fn add(&self, entry: Entry, order: impl Fn(i64) -> Order) -> Watching {
        if let Some(feed) = self.feed.lock().unwrap_or_else(PoisonError::into_inner).take() {
            tokio::spawn(feed.run(self.clock.clone()));
        }
        let id = self.table.add(entry);
        // Fails only if the feed has ended, which means that its runtime has ended.
        let _: Result<(), _> = self.orders.send(order(id));
        Watching { id, table: self.table.clone(), orders: self.orders.clone() }
    }
}

impl Table {
    pub(crate) fn entries(&self) -> MutexGuard<'_, Entries> {
        // Nothing that can panic runs under this lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, entry: Entry) -> i64 {
        let mut entries = self.entries();
        entries.last += 1;
        let id = entries.last;
        entries.watches.insert(id, entry);
        id
    }

    /// Wakes the claim that has this watch.
    pub(crate) fn wake(&self, id: i64) {
        if let Some(entry) = self.entries().watches.get(&id) {
            entry.wake.notify_one();
        }
    }

    pub(crate) fn wake_all(&self) {
        self.entries().watches.values().for_each(|entry| entry.wake.notify_one());
    }
}

impl Entry {
    /// Tells the claim that waits for this watch whether it was made.
    pub(crate) fn report_made(&mut self, outcome: Result<(), WatchError>) {
        if let Some(made) = self.made.take() {
            // The claim may not wait any more.
            drop(made.send(outcome));
        }
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.table.entries().watches.remove(&self.id);
        let _: Result<(), _> = self.orders.send(Order::Gone(self.id));
    }
}

const REFUSED: &str = "the server refuses a watch to this user; waiters poll instead";
