//! Values that are replaced if they have not changed, each write stamped, as in NATS KV and in object stores.
//!
//! The server knows nothing of locks: owners, leases, deadlines and tokens are in the values ([`Row`]). Only what tests
//! ask of it ([`Request::Expire`], the counters) looks into them.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use lock_core::driver::Entry;
use lock_core::toolkit::Row;

use super::{ClientId, Handled, Key, Server};
use crate::time::ServerTime;

mod messages;

pub use messages::{Answer, Notification, Request, Written};

/// Values that were written so long ago are removed. That is longer than any lease, and longer than any request can be on
/// its way.
pub const KEPT: Duration = Duration::from_secs(48 * 3600);
/// The number of old keys that each write looks at. A write adds at most one, so two looks keep the memory within twice
/// what is needed.
const LOOKED_AT: usize = 2;

/// The server: the last write of every key, and the subscribers to the next one.
#[derive(Debug)]
pub struct RegisterServer {
    values: HashMap<Key, Written>,
    /// By key: the clients that watch it, with the serial of the last `Watch` of each. Ordered, like everything that is
    /// told, so that one seed makes one simulation.
    watchers: BTreeMap<Key, BTreeMap<ClientId, u64>>,
    subscribers: BTreeSet<ClientId>,
    /// Every key that has a value once, in the order in which they are looked at.
    round: VecDeque<Key>,
    /// The revision of the last write.
    revision: u64,
    writes: u64,
}

impl RegisterServer {
    /// Creates a server that begins now. Its revisions are not those of a server that had begun before: a request that is
    /// still on its way to that one is refused.
    pub fn new(now: ServerTime) -> RegisterServer {
        RegisterServer {
            values: HashMap::new(),
            watchers: BTreeMap::new(),
            subscribers: BTreeSet::new(),
            round: VecDeque::new(),
            revision: now.as_micros(),
            writes: 0,
        }
    }

    /// Returns the row of a lock with its stamp, if it was written.
    pub fn row(&self, key: &str) -> Option<(Row, i64)> {
        let last = self.values.get(key)?;
        Some((Row::parse(&last.value).ok()?, micros(last.stamp)))
    }

    /// Returns who holds the lock of this key.
    pub fn holder(&self, now: ServerTime, key: &str) -> Option<Entry> {
        let (row, stamp) = self.row(key)?;
        row.holder(stamp, None, micros(now))
    }

    fn put(&mut self, now: ServerTime, key: Key, expected: Option<u64>, value: Arc<[u8]>) -> Handled<Self> {
        if self.values.get(&key).map(|last| last.revision) != expected {
            return Handled::quietly(Answer::Refused);
        }
        let pushes = self.write(now, key, value);
        Handled { answer: Answer::Applied { revision: self.revision }, pushes }
    }

    fn write(&mut self, now: ServerTime, key: Key, value: Arc<[u8]>) -> Vec<(ClientId, Notification)> {
        self.revision += 1;
        self.writes += 1;
        let written = Written { value: value.clone(), revision: self.revision, stamp: now };
        if self.values.insert(key.clone(), written).is_none() {
            self.round.push_back(key.clone());
        }
        self.forget(now);
        let watchers = self.watchers.get(&key).into_iter().flat_map(BTreeMap::keys);
        watchers.map(|client| (*client, Notification::Written(key.clone(), value.clone()))).collect()
    }

    fn unwatch(&mut self, from: ClientId, key: &Key, serial: u64) {
        if let Some(watchers) = self.watchers.get_mut(key)
            && watchers.get(&from).is_some_and(|watched| *watched <= serial)
        {
            watchers.remove(&from);
            if watchers.is_empty() {
                self.watchers.remove(key);
            }
        }
    }

    /// Ends the lease.
    fn end(&mut self, now: ServerTime, key: Key) -> Handled<Self> {
        let held = self.row(&key).filter(|(row, stamp)| row.holder(*stamp, None, micros(now)).is_some());
        let Some((row, stamp)) = held else { return Handled::quietly(Answer::NotHeld) };
        let pushes = self.write(now, key, row.ended(stamp, None).to_bytes().into());
        Handled { answer: Answer::Done, pushes }
    }

    /// Looks at a few keys in turn, and removes the values that are old.
    fn forget(&mut self, now: ServerTime) {
        for _ in 0..LOOKED_AT.min(self.round.len()) {
            let Some(key) = self.round.pop_front() else { return };
            if self.values.get(&key).is_some_and(|last| now >= last.stamp + KEPT) {
                self.values.remove(&key);
            } else {
                self.round.push_back(key);
            }
        }
    }
}

impl Server for RegisterServer {
    type Request = Request;
    type Answer = Answer;
    type Push = Notification;

    fn handle(&mut self, now: ServerTime, from: ClientId, request: Request) -> Handled<Self> {
        match request {
            Request::Time => {}
            Request::Get { key } => {
                return Handled::quietly(Answer::Last(self.values.get(&key).cloned()));
            }
            Request::Put { key, expected, value } => return self.put(now, key, expected, value),
            Request::Watch { key, serial } => {
                let watched = self.watchers.entry(key).or_default().entry(from).or_default();
                *watched = serial.max(*watched);
            }
            Request::Unwatch { key, serial } => self.unwatch(from, &key, serial),
            Request::Subscribe => _ = self.subscribers.insert(from),
            Request::Publish { text } => {
                let told = |client: &ClientId| (*client, Notification::Published(text.clone()));
                return Handled { answer: Answer::Done, pushes: self.subscribers.iter().map(told).collect() };
            }
            Request::Expire { key } => return self.end(now, key),
        }
        Handled::quietly(Answer::Done)
    }

    /// A value does not run out: what it means at a moment is up to its readers.
    fn expire(&mut self, _now: ServerTime) -> Vec<(ClientId, Notification)> {
        Vec::new()
    }

    fn next_expiry(&self) -> Option<ServerTime> {
        None
    }

    fn hang_up(&mut self, client: ClientId) {
        self.subscribers.remove(&client);
        self.watchers.retain(|_, watchers| {
            watchers.remove(&client);
            !watchers.is_empty()
        });
    }

    fn writes(&self) -> u64 {
        self.writes
    }

    /// Counts holders, and clients that watch a key.
    fn kept(&self, now: ServerTime) -> u64 {
        let held = self.values.keys().filter(|key| self.holder(now, key).is_some()).count();
        let watchers: usize = self.watchers.values().map(BTreeMap::len).sum();
        (held + watchers) as u64
    }

    fn tokens(&self) -> u64 {
        self.values.len() as u64
    }
}

fn micros(time: ServerTime) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}
