//! One node: what the scripts of lock-redlock do on a Redis server, line by line.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use lock_core::FencingToken;
use lock_memory::ServerTime;
use lock_redlock::{Ask, Freed, Held, Kept, Tells, Vote};

use crate::faults::{Guard, Loss};
use crate::setting::LONGEST_TTL;

/// A request to a node.
#[derive(Clone, Debug)]
pub enum Question {
    /// Asks for the node's time.
    Time,
    /// Asks for the node's vote.
    Grant {
        /// The lock, and the owner that asks for it.
        ask: Ask,
        /// The token that its client proposes to all nodes.
        proposed: Option<FencingToken>,
        /// The end of the attempt, by the node's clock.
        deadline: ServerTime,
    },
    /// Asks which holder the node has.
    Look {
        /// The lock.
        ask: Ask,
    },
    /// Raises the token of a grant.
    Raise {
        /// The lock, and the owner of the grant.
        ask: Ask,
        /// The token that the grant has.
        granted: FencingToken,
        /// The token that it gets.
        token: FencingToken,
    },
    /// Renews the lease.
    Renew {
        /// The lock, and its owner.
        ask: Ask,
    },
    /// Takes the lock for an owner that has a majority of the other nodes.
    Refill {
        /// The lock, and the owner.
        ask: Ask,
        /// The token of the lock.
        token: FencingToken,
        /// The end of the attempt, by the node's clock.
        deadline: ServerTime,
    },
    /// Releases the lock.
    Release {
        /// The lock, and its owner.
        ask: Ask,
        /// The choice to notify waiters, or not to.
        tells: Tells,
    },
}

/// An answer of a node.
#[derive(Clone, Debug)]
pub enum Answer {
    /// To a question for the time, which every answer carries.
    Time,
    /// To a grant.
    Vote(Vote),
    /// The request arrived after its deadline.
    Late,
    /// To a look.
    Shown(Option<Held>),
    /// To a raise: whether the lock has the new token now.
    Raised(bool),
    /// To a renewal.
    Kept(Kept),
    /// To a refill: whether the owner has the lock now.
    Refilled(bool),
    /// To a release.
    Freed(Freed),
}

/// A server that keeps keys, and may be restarted.
#[derive(Debug)]
pub struct NodeServer {
    /// The number of its current run, which changes at each restart.
    run: u64,
    data: Data,
    /// The data that it finds on its disk at a restart.
    saved: Data,
    pub(super) writes: u64,
    pub(super) guard: Guard,
}

#[derive(Clone, Debug, Default)]
struct Data {
    locks: BTreeMap<Vec<u8>, Lock>,
    tokens: BTreeMap<Vec<u8>, u64>,
    /// The run that has a vote, or waits for it.
    marker: Option<u64>,
    /// Until when that run has no vote.
    quarantine: Option<ServerTime>,
}

#[derive(Clone, Debug)]
struct Lock {
    value: Arc<str>,
    until: ServerTime,
}

/// A node takes a proposed token up to this far above its clock: a tenth of the longest ttl, less than a second.
const HIGHEST_PROPOSAL: Duration = LONGEST_TTL.checked_div(10).expect("10 is not zero");

/// After how many writes a node saves its data.
const SAVES_EVERY: u64 = 16;

impl NodeServer {
    /// Creates a node that has a vote: an operator has confirmed that no client holds a lock.
    pub fn marked() -> NodeServer {
        let data = Data { marker: Some(0), ..Data::default() };
        NodeServer { run: 0, saved: data.clone(), data, writes: 0, guard: Guard::SitsOut }
    }

    /// Returns the answer to a request, and whether clients that listen are notified.
    pub fn handle(&mut self, now: ServerTime, question: Question) -> (Answer, bool) {
        self.data.locks.retain(|_, lock| lock.until > now);
        let answer = match question {
            Question::Time => Answer::Time,
            Question::Grant { ask, proposed, deadline } => match self.sits_out(now) {
                Some(vote) => Answer::Vote(vote),
                None if now > deadline => Answer::Late,
                None => Answer::Vote(self.grant(now, &ask, proposed)),
            },
            Question::Look { ask } => Answer::Shown(self.shown(now, &ask)),
            Question::Raise { ask, granted, token } => {
                Answer::Raised(self.sits_out(now).is_none() && self.raise(&ask, granted, token))
            }
            Question::Renew { ask } => Answer::Kept(self.renew(now, &ask)),
            Question::Refill { deadline, .. } if now > deadline => Answer::Refilled(false),
            Question::Refill { ask, token, .. } => Answer::Refilled(self.refill(now, &ask, token)),
            Question::Release { ask, tells } => return self.release(&ask, tells),
        };
        (answer, false)
    }

    /// guard.lua
    fn sits_out(&mut self, now: ServerTime) -> Option<Vote> {
        if self.guard == Guard::None {
            return None;
        }
        if self.data.marker != Some(self.run) {
            self.data.quarantine = Some(now + LONGEST_TTL);
            self.data.marker = Some(self.run);
            self.has_written();
            return Some(Vote::SitsOut { left: LONGEST_TTL });
        }
        let left = self.data.quarantine?.since(now);
        (!left.is_zero()).then_some(Vote::SitsOut { left })
    }

    /// grant.lua
    fn grant(&mut self, now: ServerTime, ask: &Ask, proposed: Option<FencingToken>) -> Vote {
        let until = now + ask.ttl;
        let Some(lock) = self.data.locks.get_mut(&ask.keys.lock) else {
            return self.take(now, ask, proposed);
        };
        if ask.earlier.contains(&lock.value) {
            return self.take(now, ask, proposed);
        }
        let token = self.data.tokens.get(&ask.keys.lock).copied();
        if lock.value != ask.value {
            return Vote::No(held(lock, token, now));
        }
        lock.until = lock.until.max(until);
        let left = lock.until.since(now);
        let token = token.unwrap_or_else(|| self.mint(now, &ask.keys.lock, proposed));
        self.has_written();
        Vote::Yes { token: minted(token), left }
    }

    /// inspect.lua
    fn shown(&self, now: ServerTime, ask: &Ask) -> Option<Held> {
        let lock = self.data.locks.get(&ask.keys.lock)?;
        Some(held(lock, self.data.tokens.get(&ask.keys.lock).copied(), now))
    }

    fn take(&mut self, now: ServerTime, ask: &Ask, proposed: Option<FencingToken>) -> Vote {
        let lock = Lock { value: ask.value.clone(), until: now + ask.ttl };
        self.data.locks.insert(ask.keys.lock.clone(), lock);
        let token = self.mint(now, &ask.keys.lock, proposed);
        self.has_written();
        Vote::Yes { token: minted(token), left: ask.ttl }
    }

    fn mint(&mut self, now: ServerTime, key: &[u8], proposed: Option<FencingToken>) -> u64 {
        let previous = self.data.tokens.get(key).copied().unwrap_or(0);
        let highest = (now + HIGHEST_PROPOSAL).as_micros();
        let proposed = proposed.map_or(0, FencingToken::get).min(highest);
        let token = (previous + 1).max(now.as_micros()).max(proposed);
        self.data.tokens.insert(key.to_vec(), token);
        token
    }

    /// raise.lua
    fn raise(&mut self, ask: &Ask, granted: FencingToken, token: FencingToken) -> bool {
        if !self.is_its_own(ask) {
            return false;
        }
        let Some(stands) = self.data.tokens.get_mut(&ask.keys.lock) else { return false };
        if *stands == token.get() {
            return true;
        }
        if *stands != granted.get() {
            return false;
        }
        *stands = token.get();
        self.has_written();
        true
    }

    /// lock-redis' renew.lua
    fn renew(&mut self, now: ServerTime, ask: &Ask) -> Kept {
        let kept = match self.data.locks.get_mut(&ask.keys.lock) {
            None => return Kept::Absent,
            Some(lock) if lock.value != ask.value => return Kept::Taken,
            Some(lock) => {
                lock.until = lock.until.max(now + ask.ttl);
                Kept::Yes { left: lock.until.since(now) }
            }
        };
        self.has_written();
        kept
    }

    /// refill.lua
    fn refill(&mut self, now: ServerTime, ask: &Ask, token: FencingToken) -> bool {
        if self.data.locks.contains_key(&ask.keys.lock) {
            return self.is_its_own(ask);
        }
        let lock = Lock { value: ask.value.clone(), until: now + ask.ttl };
        self.data.locks.insert(ask.keys.lock.clone(), lock);
        let stands = self.data.tokens.entry(ask.keys.lock.clone()).or_default();
        *stands = (*stands).max(token.get());
        self.has_written();
        true
    }

    /// lock-redis' release.lua
    fn release(&mut self, ask: &Ask, tells: Tells) -> (Answer, bool) {
        if !self.is_its_own(ask) {
            return (Answer::Freed(Freed::No), false);
        }
        self.data.locks.remove(&ask.keys.lock);
        self.has_written();
        (Answer::Freed(Freed::Yes { others: None }), tells == Tells::Waiters)
    }

    fn is_its_own(&self, ask: &Ask) -> bool {
        self.data.locks.get(&ask.keys.lock).is_some_and(|lock| lock.value == ask.value)
    }

    fn has_written(&mut self) {
        self.writes += 1;
        if self.writes.is_multiple_of(SAVES_EVERY) {
            self.saved = self.data.clone();
        }
    }

    // ---- faults and the operator ------------------------------------------------------------------------------------

    /// Makes the node lose its data.
    pub fn forget(&mut self, loss: Loss) {
        match loss {
            Loss::Everything => self.start_with(Data::default()),
            Loss::Latest => self.start_with(self.saved.clone()),
            // As FLUSHALL does: the run goes on.
            Loss::Flushed => self.data = Data::default(),
        }
    }

    fn start_with(&mut self, data: Data) {
        self.run += 1;
        self.data = data;
    }

    /// Gives the node its vote: an operator confirms that no client holds a lock.
    pub fn mark(&mut self) {
        self.data.marker = Some(self.run);
        self.data.quarantine = None;
    }

    /// Deletes a lock's key.
    pub fn end_lease(&mut self, key: &[u8]) {
        self.data.locks.remove(key);
    }

    // ---- state ------------------------------------------------------------------------------------------------------

    /// Returns the value of the lock's key, its token, and what is left of the lease.
    pub(super) fn holder(&self, now: ServerTime, key: &[u8]) -> Option<(&str, u64, Duration)> {
        let lock = self.data.locks.get(key).filter(|lock| lock.until > now)?;
        let token = self.data.tokens.get(key).copied().unwrap_or(0);
        Some((&lock.value, token, lock.until.since(now)))
    }

    /// Returns the value of the lock's key and its token, whether or not its lease has ended since the last request.
    pub(super) fn granted(&self, key: &[u8]) -> Option<(&str, u64)> {
        let value = &self.data.locks.get(key)?.value;
        Some((value, self.data.tokens.get(key).copied()?))
    }

    pub(super) fn kept(&self, now: ServerTime) -> u64 {
        self.data.locks.values().filter(|lock| lock.until > now).count() as u64
    }

    pub(super) fn tokens(&self) -> u64 {
        self.data.tokens.len() as u64
    }
}

fn held(lock: &Lock, token: Option<u64>, now: ServerTime) -> Held {
    Held {
        value: lock.value.as_bytes().to_vec(),
        left: Some(lock.until.since(now)),
        token: token.map(|token| token as i64),
        now: now.as_micros() as i64,
    }
}

fn minted(token: u64) -> FencingToken {
    FencingToken::new(token).expect("the simulated servers live long after 1970")
}
