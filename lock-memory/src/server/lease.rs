//! Compare-and-set with a lease per lock, as in Redis, SQL rows and MongoDB.
//!
//! While a client waits, the server knows nothing of it except, perhaps, that it listens for a release.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::time::Duration;

use lock_core::driver::{Entry, Revoked, When};
use lock_core::{FencingToken, Label, LossReason, Owner, OwnerBytes};

use super::{ClientId, Handled, Key, Server, shown, token};
use crate::time::ServerTime;

mod messages;

pub use messages::{Answer, Notification, Request};

/// The distance of the clock beyond a token before the server may forget the token. The clock may also fall
/// back by that much without a token falling too.
pub const TOKEN_MEMORY: Duration = Duration::from_secs(3600);
/// The number of old names that each grant looks at. A grant adds at most one name, so two looks keep the memory within
/// twice what is needed.
const LOOKED_AT: usize = 2;

/// The server: every lock that is held, that a client listens to, or whose token may not be forgotten yet.
#[derive(Debug, Default)]
pub struct LeaseServer {
    locks: HashMap<Key, Lock>,
    /// Clients that subscribed to revokes. Ordered, like every notification, so that one seed makes one
    /// simulation.
    watchers: BTreeSet<ClientId>,
    /// The key of every lock once, in the order in which they are looked at.
    round: VecDeque<Key>,
    writes: u64,
}

#[derive(Debug, Default)]
struct Lock {
    /// The last token that was granted; zero before the first.
    token: u64,
    holder: Option<Holder>,
    /// The last owner from which the lock was revoked, and the deadline of the attempt that had got it.
    revoked: Option<(Owner, ServerTime)>,
    /// With the serial of each client's last `Listen`. Ordered, so that one seed makes one simulation.
    listeners: BTreeMap<ClientId, u64>,
}

#[derive(Debug)]
struct Holder {
    owner: Owner,
    label: Label,
    since: ServerTime,
    ends: ServerTime,
    /// The deadline of the last attempt that was granted. Each attempt of an owner has a later one.
    deadline: ServerTime,
    /// The owner from which the lock was revoked. It may release the lock before its deadline.
    stands_for: Option<Owner>,
}

impl Server for LeaseServer {
    type Request = Request;
    type Answer = Answer;
    type Push = Notification;

    fn handle(&mut self, now: ServerTime, from: ClientId, request: Request) -> Handled<Self> {
        match request {
            Request::Time => Handled::quietly(Answer::Done),
            Request::Attempt { key, owner, label, ttl, deadline } => {
                let ends = now + ttl;
                let attempt = Holder { owner, label, since: now, ends, deadline, stands_for: None };
                Handled::quietly(self.attempt(now, key, attempt))
            }
            Request::Succeed { key, predecessor, owner, label, ttl, deadline } => {
                let ends = now + ttl;
                let attempt = Holder { owner, label, since: now, ends, deadline, stands_for: None };
                Handled::quietly(self.take_over(now, from, &key, predecessor, attempt))
            }
            Request::Renew { key, owner, ttl } => Handled::quietly(self.renew(now, &key, owner, ttl)),
            Request::Release { key, owner } => self.release(now, from, &key, owner),
            Request::Listen { key, serial } => {
                let listened = self.lock(key).listeners.entry(from).or_default();
                *listened = serial.max(*listened);
                Handled::quietly(Answer::Done)
            }
            Request::Watch => {
                self.watchers.insert(from);
                Handled::quietly(Answer::Done)
            }
            Request::Unlisten { key, serial } => {
                if let Some(lock) = self.locks.get_mut(&key)
                    && lock.listeners.get(&from).is_some_and(|listened| *listened <= serial)
                {
                    lock.listeners.remove(&from);
                }
                Handled::quietly(Answer::Done)
            }
            Request::Revoke { key, holder, by, label, when } => {
                self.revoke(now, &key, &holder, (by, label), when)
            }
            Request::Expire { key } => self.end(now, &key),
            Request::Inspect { key } => Handled::quietly(Answer::Holder(self.inspect(now, &key))),
            Request::List { beginning } => Handled::quietly(Answer::Listed(self.list(now, &beginning))),
        }
    }

    /// Notifies no client when a lease ends by itself: a waiter knows the time from its failed attempt.
    fn expire(&mut self, _now: ServerTime) -> Vec<(ClientId, Notification)> {
        Vec::new()
    }

    fn next_expiry(&self) -> Option<ServerTime> {
        None
    }

    fn hang_up(&mut self, client: ClientId) {
        self.watchers.remove(&client);
        for lock in self.locks.values_mut() {
            lock.listeners.remove(&client);
        }
    }

    fn writes(&self) -> u64 {
        self.writes
    }

    /// Counts holders, and clients that listen.
    fn kept(&self, now: ServerTime) -> u64 {
        let kept = |lock: &Lock| usize::from(lock.held(now).is_some()) + lock.listeners.len();
        self.locks.values().map(kept).sum::<usize>() as u64
    }

    fn tokens(&self) -> u64 {
        self.locks.len() as u64
    }
}

impl LeaseServer {
    /// Returns how many names the server remembers.
    pub fn names(&self) -> usize {
        self.locks.len()
    }

    fn attempt(&mut self, now: ServerTime, key: Key, attempt: Holder) -> Answer {
        if now > attempt.deadline {
            return Answer::Refused;
        }
        let lock = self.lock(key);
        if lock.was_revoked_since(&attempt) {
            return Answer::Refused;
        }
        match lock.held_mut(now) {
            Some(holder) if holder.owner != attempt.owner => Answer::Busy { left: holder.ends.since(now) },
            Some(holder) => {
                // The owner has asked before: the same grant, and never less time than it had.
                let prolonged = holder.keep_until(attempt.ends);
                holder.deadline = holder.deadline.max(attempt.deadline);
                let left = holder.ends.since(now);
                let token = token(lock.token);
                self.writes += u64::from(prolonged);
                Answer::Granted { token, left }
            }
            None => {
                let (token, left) = lock.grant(now, attempt);
                self.writes += 1;
                self.forget(now);
                Answer::Granted { token, left }
            }
        }
    }

    fn take_over(
        &mut self,
        now: ServerTime,
        from: ClientId,
        key: &Key,
        predecessor: Owner,
        attempt: Holder,
    ) -> Answer {
        if now > attempt.deadline {
            return Answer::Refused;
        }
        let lock = self.locks.get_mut(key);
        let Some(lock) = lock.filter(|lock| lock.held(now).is_some_and(|holder| holder.owner == predecessor))
        else {
            return Answer::NotHeld;
        };
        if lock.was_revoked_since(&attempt) {
            return Answer::Refused;
        }
        let (token, left) = lock.grant(now, attempt);
        self.writes += 1;
        Answer::Succeeded { token, left, others: lock.has_others(from) }
    }

    fn renew(&mut self, now: ServerTime, key: &str, owner: Owner, ttl: Duration) -> Answer {
        let Some(lock) = self.locks.get_mut(key) else { return Answer::Lost(LossReason::Gone) };
        let revoked = lock.revoked.is_some_and(|(revoked, _)| revoked == owner);
        match lock.held_mut(now) {
            Some(holder) if holder.owner == owner => {
                let prolonged = holder.keep_until(now + ttl);
                let left = holder.ends.since(now);
                self.writes += u64::from(prolonged);
                Answer::Renewed { left }
            }
            _ if revoked => Answer::Lost(LossReason::Revoked),
            Some(_) => Answer::Lost(LossReason::Taken),
            None => Answer::Lost(LossReason::Gone),
        }
    }

    fn release(&mut self, now: ServerTime, from: ClientId, key: &Key, owner: Owner) -> Handled<Self> {
        let lock = self.locks.get_mut(key);
        let Some(lock) =
            lock.filter(|lock| lock.held(now).is_some_and(|holder| holder.is_given_up_by(owner)))
        else {
            return Handled::quietly(Answer::NotHeld);
        };
        lock.holder = None;
        self.writes += 1;
        let others = lock.has_others(from);
        Handled { answer: Answer::Released { others }, pushes: lock.wake(key) }
    }

    fn revoke(
        &mut self,
        now: ServerTime,
        key: &Key,
        holder: &OwnerBytes,
        (by, label): (Owner, Label),
        when: When,
    ) -> Handled<Self> {
        let Some(lock) = self.locks.get_mut(key) else {
            return Handled::quietly(Answer::Revoked(Revoked::NotHeld));
        };
        let Some(held) = lock.held(now).filter(|held| shown(held.owner) == *holder) else {
            return Handled::quietly(Answer::Revoked(Revoked::NotHeld));
        };
        let (ends, owner, deadline) = (held.ends, held.owner, held.deadline);
        let stands_for = match held.stands_for {
            // Revoked once more: the first holder is the one that may still rely on the lock and has to be told.
            Some(first) => first,
            None => {
                lock.revoked = Some((owner, deadline));
                owner
            }
        };
        self.writes += 1;
        let mut pushes: Vec<_> =
            self.watchers.iter().map(|client| (*client, Notification::Revoked(stands_for))).collect();
        let revoked = match when {
            When::HoldersDeadline => {
                let (deadline, stands_for) = (now, Some(stands_for));
                // The attempt is over: it was this request.
                lock.holder = Some(Holder { owner: by, label, since: now, ends, deadline, stands_for });
                Revoked::FreeIn(ends.since(now))
            }
            When::Now => {
                lock.holder = None;
                pushes.extend(lock.wake(key));
                Revoked::Free
            }
        };
        Handled { answer: Answer::Revoked(revoked), pushes }
    }

    /// Ends the lease.
    fn end(&mut self, now: ServerTime, key: &Key) -> Handled<Self> {
        let Some(lock) = self.locks.get_mut(key).filter(|lock| lock.held(now).is_some()) else {
            return Handled::quietly(Answer::NotHeld);
        };
        lock.holder = None;
        self.writes += 1;
        Handled { answer: Answer::Done, pushes: lock.wake(key) }
    }

    fn list(&self, now: ServerTime, beginning: &str) -> Vec<Key> {
        let held = self.locks.iter().filter(|(_, lock)| lock.held(now).is_some());
        held.map(|(key, _)| key.clone()).filter(|key| key.starts_with(beginning)).collect()
    }

    fn inspect(&self, now: ServerTime, key: &str) -> Option<Entry> {
        let lock = self.locks.get(key)?;
        let holder = lock.held(now)?;
        let mut entry = Entry::new(shown(holder.owner));
        entry.label = Some(holder.label.clone());
        entry.token = Some(token(lock.token));
        entry.since = Some(now.since(holder.since));
        entry.expires_in = Some(holder.ends.since(now));
        Some(entry)
    }

    fn lock(&mut self, key: Key) -> &mut Lock {
        self.locks.entry(key).or_insert_with_key(|key| {
            self.round.push_back(key.clone());
            Lock::default()
        })
    }

    /// Looks at a few names in turn, and forgets those of which nothing has to be kept.
    fn forget(&mut self, now: ServerTime) {
        for _ in 0..LOOKED_AT.min(self.round.len()) {
            let Some(key) = self.round.pop_front() else { return };
            if self.locks.get(&key).is_some_and(|lock| lock.is_over(now)) {
                self.locks.remove(&key);
            } else {
                self.round.push_back(key);
            }
        }
    }
}

impl Lock {
    /// Returns the holder, if its lease has not ended.
    fn held(&self, now: ServerTime) -> Option<&Holder> {
        self.holder.as_ref().filter(|holder| holder.ends > now)
    }

    fn held_mut(&mut self, now: ServerTime) -> Option<&mut Holder> {
        self.holder.as_mut().filter(|holder| holder.ends > now)
    }

    /// Returns whether the attempt had got the lock before it was revoked, and arrives once more. It must not undo the
    /// revoke.
    fn was_revoked_since(&self, attempt: &Holder) -> bool {
        self.revoked.is_some_and(|(owner, deadline)| owner == attempt.owner && attempt.deadline <= deadline)
    }

    /// Makes `attempt` the holder. Returns its token, and the time that it has.
    fn grant(&mut self, now: ServerTime, attempt: Holder) -> (FencingToken, Duration) {
        self.token = (self.token + 1).max(now.as_micros());
        let left = attempt.ends.since(now);
        self.holder = Some(attempt);
        (token(self.token), left)
    }

    /// Returns whether other clients listen. The client `from` may listen, too, but it knows the waiters of its own
    /// process.
    fn has_others(&self, from: ClientId) -> bool {
        self.listeners.keys().any(|client| *client != from)
    }

    /// Returns whether the lock can be forgotten: the next token then comes from the clock, and is higher.
    fn is_over(&self, now: ServerTime) -> bool {
        let forgettable = ServerTime::from_micros(self.token) + TOKEN_MEMORY;
        self.held(now).is_none() && self.listeners.is_empty() && now >= forgettable
    }

    fn wake(&self, key: &Key) -> Vec<(ClientId, Notification)> {
        self.listeners.keys().map(|client| (*client, Notification::Released(key.clone()))).collect()
    }
}

impl Holder {
    /// Returns whether a release of `owner` ends this hold: it is this owner's, or it has replaced this owner's since a
    /// revoke.
    fn is_given_up_by(&self, owner: Owner) -> bool {
        self.owner == owner || self.stands_for == Some(owner)
    }

    /// Moves the end of the lease to `ends`, but never to an earlier time. Returns whether it moved.
    fn keep_until(&mut self, ends: ServerTime) -> bool {
        let later = ends > self.ends;
        self.ends = self.ends.max(ends);
        later
    }
}
