//! The clients of other libraries, and what sets them apart.

use std::fmt;

use super::catalogue::{self, Listing};

/// A lock client of another library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `concurrency.Mutex` of etcd's Go client.
    EtcdGo,
    /// `etcdctl lock`.
    Etcdctl,
    /// `InterProcessMutex` of Curator.
    Curator,
    /// `Lock` of kazoo, which is told of the nodes that Curator and this library make.
    Kazoo,
    /// `Lock` of redis-py, with a timeout.
    RedisPy,
    /// `Redlock` of node-redlock, on one server.
    NodeRedlock,
    /// `LockManager` of rslock, on one server.
    Rslock,
    /// `Mutex` of redsync, on one server.
    Redsync,
    /// `Client.Obtain` of bsm/redislock.
    Redislock,
    /// `RLock` of Redisson.
    RedissonLock,
    /// `RFencedLock` of Redisson.
    RedissonFenced,
    /// `RSpinLock` of Redisson.
    RedissonSpin,
    /// `RFairLock` of Redisson.
    RedissonFair,
}

/// A server's knowledge of a lock's waiters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waiters {
    /// Each has a place in a queue.
    Queued,
    /// It knows of none.
    Unknown,
}

/// The way in which our waiters learn of this client's releases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Release {
    /// The server tells them.
    Told,
    /// They see that the holder is such a client, and poll.
    Seen,
    /// They look again after a while.
    Silent,
}

impl Kind {
    pub(super) fn listing(self) -> &'static Listing {
        match self {
            Kind::EtcdGo => &catalogue::ETCD_GO,
            Kind::Etcdctl => &catalogue::ETCDCTL,
            Kind::Curator => &catalogue::CURATOR,
            Kind::Kazoo => &catalogue::KAZOO,
            Kind::RedisPy => &catalogue::REDIS_PY,
            Kind::NodeRedlock => &catalogue::NODE_REDLOCK,
            Kind::Rslock => &catalogue::RSLOCK,
            Kind::Redsync => &catalogue::REDSYNC,
            Kind::Redislock => &catalogue::REDISLOCK,
            Kind::RedissonLock | Kind::RedissonFenced | Kind::RedissonSpin | Kind::RedissonFair => {
                &catalogue::REDISSON
            }
        }
    }

    /// Returns the second argument of its driver, which chooses one of the locks that it can drive.
    pub(super) fn lock(self) -> Option<&'static str> {
        match self {
            Kind::RedissonLock => Some("lock"),
            Kind::RedissonFenced => Some("fenced"),
            Kind::RedissonSpin => Some("spin"),
            Kind::RedissonFair => Some("fair"),
            _ => None,
        }
    }

    pub(super) fn waiters(self) -> Waiters {
        match self {
            Kind::EtcdGo | Kind::Etcdctl | Kind::Curator | Kind::Kazoo => Waiters::Queued,
            _ => Waiters::Unknown,
        }
    }

    pub(super) fn release(self) -> Release {
        match self {
            Kind::EtcdGo | Kind::Etcdctl | Kind::Curator | Kind::Kazoo => Release::Told,
            Kind::RedissonLock | Kind::RedissonFenced => Release::Told,
            Kind::RedisPy | Kind::NodeRedlock | Kind::Rslock | Kind::Redsync | Kind::Redislock => {
                Release::Seen
            }
            Kind::RedissonSpin | Kind::RedissonFair => Release::Silent,
        }
    }

    /// Returns whether its waiters are told of our releases, or poll. Otherwise they look when the lease that they have read
    /// is over.
    pub(super) fn hears_releases(self) -> bool {
        self != Kind::RedissonFair
    }

    /// Returns whether its holders have tokens that ours share an order with.
    pub(super) fn has_tokens(self) -> bool {
        self == Kind::RedissonFenced
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.listing().name)?;
        self.lock().map_or(Ok(()), |lock| write!(f, "-{lock}"))
    }
}
