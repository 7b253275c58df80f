//! How locks are stored on the server: the keys of a lock, the scripts that read and write them, and how a holder is
//! written down.

use lock_core::driver::{Entry, Request};
use lock_core::{Label, Owner};
use redis::Cmd;

use crate::redisson::{self, TokenSource};
use crate::scripts::{self, Scripts};
use crate::side::{Kind, side_key};
use crate::value::{self, Seen};

/// How locks are stored on the server. Clients exclude each other only if they use the same layout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Layout {
    /// This library's own: a plain key, which also excludes clients that use `SET name value NX PX ttl`.
    #[default]
    Own,
    /// That of Redisson's `RLock`: a hash, and Redisson's channel. Programs that use Redisson and this library then
    /// exclude and wake each other. Holders of this library have tokens, Redisson's have none.
    Redisson,
    /// That of Redisson's `RFencedLock`: as [`Redisson`](Layout::Redisson), and both get their tokens from one counter,
    /// which stays on the server for ever.
    RedissonFenced,
}

/// The keys of one lock.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    pub(crate) lock: Vec<u8>,
    pub(crate) token: Vec<u8>,
    /// The holder's label, where it has a key of its own.
    label: Option<Vec<u8>>,
    /// The channel on which its releases are published.
    pub(crate) releases: Vec<u8>,
}

impl Keys {
    /// Returns the keys of the scripts that take and show the lock.
    pub(crate) fn with_token(&self) -> Vec<&[u8]> {
        [&*self.lock, &self.token].into_iter().chain(self.label.as_deref()).collect()
    }

    /// Returns the keys of the scripts that keep and revoke the lock.
    pub(crate) fn without_token(&self) -> Vec<&[u8]> {
        [&*self.lock].into_iter().chain(self.label.as_deref()).collect()
    }
}

impl Layout {
    /// Returns the keys of the lock with this key.
    pub(crate) fn keys(self, lock: &[u8]) -> Keys {
        let (token, label, releases) = match self {
            Layout::Own => (side_key(lock, Kind::Token), None, side_key(lock, Kind::Wakes)),
            Layout::Redisson => {
                (side_key(lock, Kind::Token), Some(side_key(lock, Kind::Label)), redisson::channel(lock))
            }
            Layout::RedissonFenced => {
                (redisson::counter(lock), Some(side_key(lock, Kind::Label)), redisson::channel(lock))
            }
        };
        Keys { lock: lock.to_vec(), token, label, releases }
    }

    /// Returns the key that keeps the answer to the release with this id, where there is one.
    pub(crate) fn latch(self, lock: &[u8], id: &Owner) -> Option<Vec<u8>> {
        match self {
            Layout::Own => None,
            Layout::Redisson | Layout::RedissonFenced => Some(redisson::latch(lock, id)),
        }
    }

    pub(crate) fn scripts(self) -> &'static Scripts {
        match self {
            Layout::Own => &scripts::OWN,
            Layout::Redisson | Layout::RedissonFenced => &scripts::REDISSON,
        }
    }

    /// Returns how `owner` is written down while it holds a lock.
    pub(crate) fn held(self, owner: &Owner, label: &Label) -> String {
        match self {
            Layout::Own => value::held(owner, label),
            Layout::Redisson | Layout::RedissonFenced => redisson::field(owner),
        }
    }

    /// Returns what replaces `holder` after a revoke, until its deadline.
    pub(crate) fn revoked(self, holder: &[u8], by: &Owner, label: &Label) -> String {
        match self {
            Layout::Own => value::revoked(holder, by, label),
            Layout::Redisson | Layout::RedissonFenced => redisson::revoked(holder, by, label),
        }
    }

    /// Returns the digits of the owner that `holder` names, by which it is told of a revoke; empty for a foreign client.
    pub(crate) fn digits(self, holder: &[u8]) -> String {
        match self {
            Layout::Own => value::digits(holder).unwrap_or_default().to_owned(),
            Layout::Redisson | Layout::RedissonFenced => redisson::digits(holder).unwrap_or_default(),
        }
    }

    /// Returns what people are shown of a holder.
    pub(crate) fn entry(self, seen: Seen) -> Entry {
        match self {
            Layout::Own => seen.into_entry(),
            Layout::Redisson => redisson::entry(seen, TokenSource::Clock),
            Layout::RedissonFenced => redisson::entry(seen, TokenSource::Counter),
        }
    }

    /// Adds what the grant script takes besides owner, ttl and deadline.
    pub(crate) fn add_to_grant(self, command: &mut Cmd, request: &Request) {
        match self {
            Layout::Own => {}
            Layout::Redisson => _ = command.arg("clock").arg(request.label.as_str()),
            Layout::RedissonFenced => _ = command.arg("counter").arg(request.label.as_str()),
        }
    }

    /// Adds what the renewal script takes besides owner and ttls.
    pub(crate) fn add_to_renewal(self, command: &mut Cmd, request: &Request) {
        match self {
            Layout::Own => {}
            Layout::Redisson | Layout::RedissonFenced => _ = command.arg(request.holds.get()),
        }
    }
}
