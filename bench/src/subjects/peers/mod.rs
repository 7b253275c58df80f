//! The locks of other libraries, on the servers that this library uses, too.

mod advisory_lock;
mod distributed_lock_redis;
mod entries;
mod etcd_lock_rpc;
mod process;
pub(crate) mod promises;
mod rslock;
mod zookeeper_client;

use self::entries::Entry;
use self::process::Program;
use self::promises::{Promises, Waiters};
use crate::Outcome;
use crate::backend::Backend;
use crate::interop::Listing;
use crate::subjects::Subject;

/// A lock of another library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    /// The crate `rslock`.
    Rslock,
    /// The crate `distributed-lock-redis`.
    DistributedLockRedis,
    /// The lock service of etcd, called by the crate `etcd-client`.
    EtcdLockRpc,
    /// The advisory locks of PostgreSQL, as the crate sqlx wraps them.
    AdvisoryLock,
    /// The lock of the crate `zookeeper-client`.
    ZooKeeperClient,
    /// `Mutex` of redsync.
    Redsync,
    /// `RLock` of Redisson.
    RedissonLock,
    /// `RFairLock` of Redisson.
    RedissonFair,
    /// `RFencedLock` of Redisson.
    RedissonFenced,
    /// The lock of node-redlock.
    NodeRedlock,
    /// `concurrency.Mutex` of etcd's Go client.
    EtcdGo,
    /// `InterProcessMutex` of Curator.
    Curator,
}

/// The language of a library, and the driver of its locks if it isn't this program's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Language {
    Rust,
    Go(&'static Listing),
    Java(&'static Listing),
    JavaScript(&'static Listing),
}

impl Language {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Language::Rust => "Rust",
            Language::Go(_) => "Go",
            Language::Java(_) => "Java",
            Language::JavaScript(_) => "JavaScript",
        }
    }
}

impl Peer {
    pub(crate) const ALL: [Peer; 12] = [
        Peer::Rslock,
        Peer::DistributedLockRedis,
        Peer::EtcdLockRpc,
        Peer::AdvisoryLock,
        Peer::ZooKeeperClient,
        Peer::Redsync,
        Peer::RedissonLock,
        Peer::RedissonFair,
        Peer::RedissonFenced,
        Peer::NodeRedlock,
        Peer::EtcdGo,
        Peer::Curator,
    ];

    pub(crate) fn named(name: &str) -> Option<Peer> {
        Peer::ALL.into_iter().find(|peer| peer.name() == name)
    }

    /// Returns its name as a subject.
    pub(crate) fn name(self) -> &'static str {
        self.entry().name
    }

    pub(crate) fn language(self) -> Language {
        self.entry().language
    }

    pub(crate) fn version(self) -> &'static str {
        self.entry().version
    }

    pub(crate) fn backend(self) -> Backend {
        self.entry().backend
    }

    pub(crate) fn promises(self) -> &'static Promises {
        &self.entry().promises
    }

    /// Says why it can't be measured on this machine; `None` if it can.
    pub(crate) fn lack(self) -> Option<String> {
        self.program()?.lack()
    }

    /// Returns the program that drives it, if it is not in Rust.
    pub(crate) fn program(self) -> Option<Program> {
        Program::of(self.language())
    }

    /// Returns whether a client of it can wait until another one releases the lock.
    pub(crate) fn waits(self) -> bool {
        self.promises().waiters != Waiters::None
    }

    pub(super) async fn connect(self, url: &str) -> Outcome<Box<dyn Subject>> {
        Ok(match self {
            Peer::Rslock => Box::new(rslock::Rslock::connect(url)?),
            Peer::DistributedLockRedis => {
                Box::new(distributed_lock_redis::DistributedLockRedis::connect(url).await?)
            }
            Peer::EtcdLockRpc => Box::new(etcd_lock_rpc::EtcdLockRpc::connect(url).await?),
            Peer::AdvisoryLock => Box::new(advisory_lock::AdvisoryLock::connect(url).await?),
            Peer::ZooKeeperClient => Box::new(zookeeper_client::ZooKeeperClient::connect(url).await?),
            _ => return Err(format!("{} is driven by a process of its own", self.name()).into()),
        })
    }

    fn entry(self) -> &'static Entry {
        match self {
            Peer::Rslock => &entries::RSLOCK,
            Peer::DistributedLockRedis => &entries::DISTRIBUTED_LOCK_REDIS,
            Peer::EtcdLockRpc => &entries::ETCD_LOCK_RPC,
            Peer::AdvisoryLock => &entries::ADVISORY_LOCK,
            Peer::ZooKeeperClient => &entries::ZOOKEEPER_CLIENT,
            Peer::Redsync => &entries::REDSYNC,
            Peer::RedissonLock => &entries::REDISSON_LOCK,
            Peer::RedissonFair => &entries::REDISSON_FAIR,
            Peer::RedissonFenced => &entries::REDISSON_FENCED,
            Peer::NodeRedlock => &entries::NODE_REDLOCK,
            Peer::EtcdGo => &entries::ETCD_GO,
            Peer::Curator => &entries::CURATOR,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_peer_has_a_name_of_its_own() {
        for peer in Peer::ALL {
            assert_eq!(Peer::named(peer.name()), Some(peer));
        }
        assert_eq!(Peer::named("ours"), None);
    }

    #[test]
    fn versions_are_those_that_the_drivers_pin() {
        for peer in Peer::ALL {
            let (Language::Go(listing) | Language::Java(listing) | Language::JavaScript(listing)) =
                peer.language()
            else {
                continue;
            };
            let sources = listing.driver.as_ref().unwrap().sources;
            let pins = sources.iter().any(|(_, text)| text.contains(peer.version()));
            assert!(pins, "{} {}", peer.name(), peer.version());
        }
    }
}
