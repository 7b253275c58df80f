//! Watches, seen from the claims: on the key before one's own, and on one's own.
//!
//! A waiter watches from *now*, and looks again once the watch is there. From a revision that is past already, and the
//! next one is past as soon as anybody writes, a server serves a watch from its slow path, 90 ms late. Even "now" is past
//! if somebody writes while the watch is made: so it is made twice, and the first event counts.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lock_core::driver::Call;
use lock_core::{Clock, Done, Error, Result};
use tokio::sync::{Notify, mpsc, oneshot};

use crate::cluster::Cluster;
use crate::feed::Feed;
use crate::transactions::Standing;

/// Where the claims of a client watch. The feed ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Watches {
    table: Table,
    orders: mpsc::UnboundedSender<Order>,
    /// Until the first watch starts it.
    feed: Mutex<Option<Feed>>,
    clock: Clock,
}

/// The watches that somebody has. Cheap to clone.
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
    /// Told of events.
    pub(crate) wake: Arc<Notify>,
    /// Whether the server was asked for it.
    pub(crate) watched: bool,
    /// Told once the server has made it.
    pub(crate) made: Option<oneshot::Sender<Result<(), Trouble>>>,
}

#[derive(Clone, Debug)]
pub(crate) enum Kind {
    /// Of a key that is waited for: wakes when it goes.
    Before,
    /// Of an own key, with this value, last seen at this revision: wakes when it goes, or becomes another's.
    Own { value: Vec<u8>, modified: i64 },
}

/// What the feed is told.
#[derive(Debug)]
pub(crate) enum Order {
    /// There is a watch to be made, at once.
    Now(i64),
    /// There is one that may wait a little: most locks are given back before anybody could take them away.
    Soon(i64),
    /// Nobody has it any more.
    Gone(i64),
}

/// Why a watch can't be made.
#[derive(Clone, Debug)]
pub(crate) enum Trouble {
    /// The server won't do it for this user.
    Refused(String),
    Broken(String),
}

/// A claim that watches; stops when dropped.
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

    /// Watches a key from now on. Returns once the server has made the watch; whatever happens to the key from then on
    /// wakes.
    ///
    /// `Unsupported` if this user may not.
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
        let broken = |_| Trouble::Broken("the feed of wake-ups has ended".to_owned());
        match call.within(told).await.map(|told| told.unwrap_or_else(|ended| Err(broken(ended)))) {
            Some(Ok(())) => Ok(watching),
            Some(Err(Trouble::Refused(why))) => Err(Error::unsupported(format!("{REFUSED}: {why}"))),
            Some(Err(Trouble::Broken(how))) => Err(Error::unavailable(Done::No, how)),
            None => Err(call.out_of_time(Done::No)),
        }
    }

    /// Watches an own key, from where it was last seen on, and soon.
    pub(crate) fn own(&self, key: &[u8], value: &[u8], standing: Standing, wake: &Arc<Notify>) -> Watching {
        let kind = Kind::Own { value: value.to_vec(), modified: standing.modified };
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
        // If the feed has ended, so has its runtime.
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

    /// The watch's owner has something to look at.
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
    /// Tells who waits for it that it is made, or won't be.
    pub(crate) fn is_made(&mut self, outcome: Result<(), Trouble>) {
        if let Some(made) = self.made.take() {
            // Who asked may have gone.
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

const REFUSED: &str = "the server refuses a watch; waiting falls back to looking again and again";
