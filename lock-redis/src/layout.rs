//! The layout of locks on the server: the keys of a lock, the scripts that read and write them, and the form
//! of a holder.

use std::time::Duration;

use lock_core::driver::{Entry, Queueing, Request};
use lock_core::toolkit::{HumanDuration, whole_millis};
use lock_core::{Error, Label, Owner, Result};
use redis::Cmd;

use crate::delivery::Delivery;
use crate::message;
use crate::redisson::{self, TokenSource};
use crate::scripts::{self, Scripts};
use crate::side::{Kind, side_key};
use crate::value::{self, Seen};

/// The layout of locks on the server. Clients exclude each other only if they use the same layout;
/// [`Own`](Layout::Own) and [`Fair`](Layout::Fair) exclude each other, too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Layout {
    /// The library's own layout: a plain key, which also excludes clients that use `SET name value NX PX
    /// ttl`.
    #[default]
    Own,
    /// As [`Own`](Layout::Own), and the processes that wait are served in the order in which they came. Clients that use
    /// another layout on the same name, or `SET … NX`, pass them.
    Fair(Grace),
    /// That of Redisson's `RLock`: a hash, and Redisson's channel. Programs that use Redisson and this library then
    /// exclude and wake each other, on one server and on a cluster. Holders of this library have tokens, Redisson's have
    /// none. Redisson's `RReadWriteLock` excludes neither: a name that is one is refused, and must not be used for both.
    Redisson,
    /// That of Redisson's `RFencedLock`: as [`Redisson`](Layout::Redisson), and both get their tokens from one counter,
    /// which stays on the server for ever.
    RedissonFenced,
}

/// The time for which a waiter of a fair lock may be silent before it loses its place: 5 s unless it is
/// given.
///
/// A waiter that died costs the one behind it this time, once, however many have died. A waiter sends a request in each
/// quarter of it. Clients with different ones may wait for one name: each waiter has its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grace(Duration);

impl Grace {
    /// Makes a grace of 100 ms to one hour.
    ///
    /// # Errors
    ///
    /// `Invalid` if it is shorter or longer.
    pub fn new(grace: Duration) -> Result<Grace> {
        let bounds = Duration::from_millis(100)..=Duration::from_secs(3600);
        match bounds.contains(&grace) {
            true => Ok(Grace(grace)),
            false => Err(Error::invalid(format!(
                "grace is {}; it must be from 100 ms to 1 h",
                HumanDuration(grace)
            ))),
        }
    }

    /// Returns its length.
    pub fn get(self) -> Duration {
        self.0
    }
}

impl Default for Grace {
    fn default() -> Grace {
        Grace(Duration::from_secs(5))
    }
}

/// The keys of one lock. The lock's own is kept, and the others are made of it when a call needs them.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    layout: Layout,
    pub(crate) lock: Vec<u8>,
}

impl Keys {
    /// Returns the keys of the scripts that take and show the lock.
    pub(crate) fn with_token(&self) -> Vec<Vec<u8>> {
        let token = match self.layout {
            Layout::Own | Layout::Fair(_) | Layout::Redisson => self.side(Kind::Token),
            Layout::RedissonFenced => redisson::counter(&self.lock),
        };
        [self.lock.clone(), token].into_iter().chain(self.beside()).collect()
    }

    /// Returns the keys of the scripts that release and revoke the lock.
    pub(crate) fn without_token(&self) -> Vec<Vec<u8>> {
        std::iter::once(self.lock.clone()).chain(self.beside()).collect()
    }

    /// Returns the keys of the script that keeps the lock: no more than it uses, because a cluster refuses a request whose
    /// keys are at two members while their slot moves.
    pub(crate) fn of_renewal(&self) -> Vec<Vec<u8>> {
        match self.layout {
            Layout::Own | Layout::Fair(_) => self.alone(),
            Layout::Redisson | Layout::RedissonFenced => self.without_token(),
        }
    }

    /// Returns the lock's own key, for scripts that can do without the others.
    pub(crate) fn alone(&self) -> Vec<Vec<u8>> {
        vec![self.lock.clone()]
    }

    /// Refuses a name whose keys no cluster takes together.
    pub(crate) fn check_on_a_cluster(&self) -> Result<()> {
        match self.layout {
            Layout::Redisson | Layout::RedissonFenced if !redisson::is_in_one_slot(&self.lock) => {
                Err(Error::rejected(
                    "Redisson keeps what belongs to this name in two slots of a cluster, where it could be locked and \
                     never released: take a name without braces, or with a hash tag, as in jobs:{7}",
                ))
            }
            _ => Ok(()),
        }
    }

    /// Returns the channel on which its releases are published.
    pub(crate) fn releases(&self) -> Vec<u8> {
        match self.layout {
            Layout::Own | Layout::Fair(_) => self.side(Kind::Wakes),
            Layout::Redisson | Layout::RedissonFenced => redisson::channel(&self.lock),
        }
    }

    /// Returns what else the layout keeps beside the lock.
    fn beside(&self) -> impl Iterator<Item = Vec<u8>> {
        let kinds: &[Kind] = match self.layout {
            Layout::Own => &[],
            Layout::Fair(_) => &[Kind::Order, Kind::Alive],
            Layout::Redisson | Layout::RedissonFenced => &[Kind::Label],
        };
        kinds.iter().map(|kind| self.side(*kind))
    }

    fn side(&self, kind: Kind) -> Vec<u8> {
        side_key(&self.lock, kind)
    }
}

/// The facts of one claim that the scripts need.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asker<'a> {
    pub(crate) request: &'a Request,
    /// The text of its owner in the lock's value while it holds the lock.
    pub(crate) value: &'a str,
    pub(crate) keys: &'a Keys,
    /// The digits of its client.
    pub(crate) client: &'a str,
    /// The way in which the server notifies waiters of releases.
    pub(crate) delivery: Delivery,
    /// Its owner had to wait for the lock.
    pub(crate) has_waited: bool,
}

impl Asker<'_> {
    /// Returns the owner's place among the waiters of a fair lock.
    fn place(&self, grace: Grace) -> String {
        format!("{}:{}{}", whole_millis(grace.0), self.client, self.value)
    }
}

impl Layout {
    /// Returns the keys of the lock with this key.
    pub(crate) fn keys(self, lock: Vec<u8>) -> Keys {
        Keys { layout: self, lock }
    }

    /// Returns the key that keeps the answer to the release with this id, where there is one.
    pub(crate) fn latch(self, lock: &[u8], id: &Owner) -> Option<Vec<u8>> {
        match self {
            Layout::Own | Layout::Fair(_) => None,
            Layout::Redisson | Layout::RedissonFenced => Some(redisson::latch(lock, id)),
        }
    }

    pub(crate) fn scripts(self) -> &'static Scripts {
        match self {
            Layout::Own => &scripts::OWN,
            Layout::Fair(_) => &scripts::FAIR,
            Layout::Redisson | Layout::RedissonFenced => &scripts::REDISSON,
        }
    }

    /// Returns how `owner` is written down while it holds a lock.
    pub(crate) fn held(self, owner: &Owner, label: &Label) -> String {
        match self {
            Layout::Own | Layout::Fair(_) => value::held(owner, label),
            Layout::Redisson | Layout::RedissonFenced => redisson::field(owner),
        }
    }

    /// Returns what replaces `holder` after a revoke, until its deadline.
    pub(crate) fn revoked(self, holder: &[u8], by: &Owner, label: &Label) -> String {
        match self {
            Layout::Own | Layout::Fair(_) => value::revoked(holder, by, label),
            Layout::Redisson | Layout::RedissonFenced => redisson::revoked(holder, by, label),
        }
    }

    /// Returns what people are shown of a holder.
    pub(crate) fn entry(self, seen: Seen) -> Entry {
        match self {
            Layout::Own | Layout::Fair(_) => seen.into_entry(),
            Layout::Redisson => redisson::entry(seen, TokenSource::Clock),
            Layout::RedissonFenced => redisson::entry(seen, TokenSource::Counter),
        }
    }

    /// Adds what the grant script takes besides owner, ttl and deadline.
    pub(crate) fn add_to_grant(self, command: &mut Cmd, asker: Asker<'_>) {
        let label = asker.request.label.as_str();
        match self {
            Layout::Own => {}
            Layout::Fair(grace) => {
                let waits = match asker.request.waits {
                    Queueing::Queued => "waits",
                    Queueing::No => "tries",
                };
                command.arg(asker.place(grace)).arg(whole_millis(grace.0)).arg(waits);
                command.arg(asker.keys.releases()).arg(asker.delivery.publish());
            }
            Layout::Redisson => _ = command.arg("clock").arg(label),
            Layout::RedissonFenced => _ = command.arg("counter").arg(label),
        }
    }

    /// Adds what the renewal script takes besides owner and ttls.
    pub(crate) fn add_to_renewal(self, command: &mut Cmd, asker: Asker<'_>) {
        match self {
            Layout::Own | Layout::Fair(_) => {}
            Layout::Redisson | Layout::RedissonFenced => _ = command.arg(asker.request.holds.get()),
        }
    }

    /// Adds what the revoke script takes besides holder, channel, its command, successor and channel of revokes: by which digits the
    /// holder is told; empty for a foreign client.
    pub(crate) fn add_to_revoke(self, command: &mut Cmd, holder: &[u8]) {
        match self {
            // The script takes them from the holder's value.
            Layout::Own | Layout::Fair(_) => {}
            Layout::Redisson | Layout::RedissonFenced => {
                command.arg(redisson::digits(holder).unwrap_or_default());
            }
        }
    }

    /// Adds what the release script takes besides owner, channel and the command that publishes.
    pub(crate) fn add_to_release(self, command: &mut Cmd, asker: Asker<'_>) {
        match self {
            // Others may wait now as it did.
            Layout::Own if asker.has_waited => _ = command.arg(asker.delivery.count()),
            Layout::Own => {}
            Layout::Fair(grace) => _ = command.arg(asker.place(grace)),
            Layout::Redisson | Layout::RedissonFenced => {
                // A request that was not answered is sent again after one patience.
                command.arg(whole_millis(asker.request.patience * 2));
            }
        }
    }

    /// Returns the message on a lock's channel that is about no waiter in particular.
    pub(crate) fn released(self) -> &'static str {
        match self {
            Layout::Own | Layout::Fair(_) => message::RELEASED,
            Layout::Redisson | Layout::RedissonFenced => redisson::RELEASED,
        }
    }

    /// Returns whether other clients wait, from what the release script has answered: how many wait, or how many
    /// connections listen, of which one may be ours.
    pub(crate) fn others(self, answered: i64, listens: Listens) -> Option<bool> {
        match self {
            Layout::Fair(_) => (answered >= 0).then_some(answered > 0),
            Layout::Own | Layout::Redisson | Layout::RedissonFenced => {
                (answered >= 0).then(|| answered > i64::from(listens == Listens::Also))
            }
        }
    }
}

/// The choice to count our own connection among those that listen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Listens {
    Also,
    NotNow,
}

/// Returns the entry of a waiter, from its place in the order. Its grace, a colon, and the digits of its client are before
/// its value.
pub(crate) fn waiter(place: &[u8]) -> Entry {
    let colon = place.iter().position(|byte| *byte == b':');
    let value = colon.and_then(|colon| place.get(colon + 1 + CLIENT_DIGITS..)).unwrap_or(place).to_vec();
    Seen { value, left: None, token: None, now: 0 }.into_entry()
}

/// The number of digits that a client has.
pub(crate) const CLIENT_DIGITS: usize = 16;
