//! The operations that the driver needs of a server that only compares and sets.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::driver::{Finding, Info};
use crate::error::{Error, Result};
use crate::name::Name;
use crate::owner::Owner;
use crate::toolkit::{Call, Connect, Notice, Subscription};

/// A server that keeps a value for each key, replaces it if it has not changed since it was read, and stamps each write
/// with its own time. [`RegisterDriver`](super::RegisterDriver) makes a backend of it.
///
/// Its connections are opened by [`Connect`]. Where the client library is a pool, the connection is `()` or that pool.
/// Each connection has an estimate of the server's clock of its own, so it must not lead to another server by itself,
/// unless all these servers stamp by one clock.
///
/// All times are whole microseconds by the server's clock, rounded down, from an origin that the server chooses.
///
/// The driver bounds every request by its call. A request that is not answered in time is dropped, and its connection is
/// not used again. In a fork of the process no request is sent.
///
/// The futures of requests need not be cancel safe, unless a method says so: where one is dropped, the driver knows that
/// the request may have been done.
#[async_trait]
pub trait Registers: Connect + fmt::Debug {
    /// The identity of a write: a revision, an ETag, a version. No two writes of a key have the same.
    type Revision: Clone + fmt::Debug + PartialEq + Send + Sync + 'static;

    /// The step of the stamps, if it is more than a microsecond: a stamp is the time of the write or earlier, by less
    /// than this. Zero if stamps are exact.
    const RESOLUTION: Duration = Duration::from_micros(1);

    /// The reading of the server's clock at the beginning of 1970 (UTC), if its times count from a known moment.
    /// Without it, no lock can be held once per period.
    const EPOCH: Option<i64> = None;

    /// Returns what this server guarantees and can do, as [`Driver::info`](crate::driver::Driver::info).
    fn info(&self) -> Arc<Info>;

    /// Returns the key of the lock `name`: the client's prefix and the name, in characters that the server takes.
    fn key(&self, name: &Name) -> String;

    /// Returns the revision as a number, if it is one that rises with every write of the key and never falls while the
    /// server keeps its data. It then is the fencing token. Without one, the token is made of the stamp, and of the last
    /// token, which the row keeps.
    fn number(_revision: &Self::Revision) -> Option<u64> {
        None
    }

    /// Reads the last write of a key. It must not be older than the last write that was answered to any client: the read
    /// goes to the leader, or is marked as consistent.
    ///
    /// # Errors
    ///
    /// `Rejected` if this client may not read it; `Unavailable` if the server can't answer.
    async fn read(&self, connection: &Self::Connection, key: &str) -> Result<Read<Self::Revision>>;

    /// Replaces the value of a key if `expected` is still the revision of its last write, or of its removal; `None` if
    /// the server must know of none. Asks once.
    ///
    /// # Errors
    ///
    /// `Unavailable` with [`Effect::Unknown`](crate::Effect::Unknown) if the value may have been replaced, or may still
    /// be; with [`Effect::NotApplied`](crate::Effect::NotApplied) if the server says that it was not. `Rejected` if this
    /// client may not write it.
    async fn replace(
        &self,
        connection: &Self::Connection,
        key: &str,
        expected: Option<&Self::Revision>,
        value: &[u8],
    ) -> Result<Replaced<Self::Revision>>;

    /// Asks for the server's time, by the clock that stamps. Where no answer tells it: writes something beside the locks,
    /// and reads its stamp.
    ///
    /// # Errors
    ///
    /// `Unavailable` if the server can't answer.
    async fn time(&self, connection: &Self::Connection) -> Result<i64>;

    /// Listens to the releases of `name`, such as with a [`Feed`](crate::toolkit::Feed) or a
    /// [`Hub`](crate::toolkit::Hub). Any write of the key may wake; [`Row::notice`](super::Row::notice) tells which ones
    /// are worth it.
    ///
    /// # Errors
    ///
    /// `Unsupported` if the server can't push to this client, as by default: waiters then poll.
    async fn listen(&self, _name: &Name, _call: &Call) -> Result<Subscription> {
        Err(Error::unsupported("this server does not tell waiters that a lock was released"))
    }

    /// Listens to a revoke of what `owner` holds. One subscription on the server has to serve all holders of the client.
    ///
    /// # Errors
    ///
    /// `Unsupported` if the server does not announce revokes, as by default: the holder then learns of one from its next
    /// renewal.
    ///
    /// # Cancel safety
    ///
    /// Must be cancel safe: the core may drop this future and call it again.
    async fn watch(&self, _owner: Owner, _call: &Call) -> Result<Subscription> {
        Err(Error::unsupported("this server does not tell holders that their lock was revoked"))
    }

    /// Notifies other clients of a release or a revoke, after the write that did it. Does nothing by default: the write
    /// itself wakes those that watch its key.
    ///
    /// # Errors
    ///
    /// `Unavailable` if it may not have been announced. A release is then repeated.
    async fn tell(&self, _connection: &Self::Connection, _notice: &Notice) -> Result<()> {
        Ok(())
    }

    /// Checks what locks need of this server: rights, settings, how the data are kept. That it answers, and how its clock
    /// goes, the driver checks itself.
    ///
    /// # Errors
    ///
    /// `Unavailable` if the server can't answer.
    async fn findings(&self, _connection: &Self::Connection) -> Result<Vec<Finding>> {
        Ok(Vec::new())
    }

    /// Creates what the server needs once, as [`Driver::init`](crate::driver::Driver::init). Nothing by default.
    ///
    /// # Errors
    ///
    /// `Unavailable` if the server can't answer; `Rejected` if this client may not create it.
    async fn init(&self, _connection: &Self::Connection) -> Result<String> {
        Ok(String::new())
    }
}

/// The result of a read.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Read<R> {
    /// The last write; `None` if the server knows of none.
    pub last: Option<Stored<R>>,
    /// The server's time at the read, if the answer tells it. It saves a request where the estimate does not decide.
    pub time: Option<i64>,
}

impl<R> Read<R> {
    /// Makes the answer of a server that does not tell its time with it.
    pub fn new(last: Option<Stored<R>>) -> Read<R> {
        Read { last, time: None }
    }

    /// Adds the server's time.
    #[must_use]
    pub fn at(self, time: i64) -> Read<R> {
        Read { time: Some(time), ..self }
    }
}

/// The last write of a key.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Stored<R> {
    /// The value that was written; `None` if the key was removed, and the server keeps the revision of that.
    pub value: Option<Vec<u8>>,
    /// The revision of the write.
    pub revision: R,
    /// The server's time at that write.
    pub stamp: i64,
}

impl<R> Stored<R> {
    /// Makes the last write of a key.
    pub fn new(value: Vec<u8>, revision: R, stamp: i64) -> Stored<R> {
        Stored { value: Some(value), revision, stamp }
    }

    /// Makes the removal of a key, where the next write has to expect the revision of it, as on NATS. The lock is free,
    /// and its token begins anew, with the number of the revision or the stamp.
    pub fn removed(revision: R, stamp: i64) -> Stored<R> {
        Stored { value: None, revision, stamp }
    }
}

/// The answer to a replacement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Replaced<R> {
    /// The value was replaced.
    Applied {
        /// The new revision.
        revision: R,
        /// The server's time at that write, if the answer tells it. Without it, the driver reads what it has written
        /// where the stamp decides: after a grant and a renewal.
        stamp: Option<i64>,
    },
    /// Another write came first.
    Refused,
}
