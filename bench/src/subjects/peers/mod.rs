//! The locks of other libraries, on the servers that this library uses, too.

mod advisory_lock;
mod distributed_lock_redis;
mod etcd_lock_rpc;
pub(crate) mod promises;
mod rslock;
mod zookeeper_client;

use self::promises::{Crash, Loss, Promises, Release, Renewal, Token, Waiters};
use crate::Outcome;
use crate::backend::Backend;
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
}

/// What is known of a peer before it is measured.
struct Entry {
    name: &'static str,
    language: &'static str,
    /// The version of the library, as far as its manifest here pins it.
    version: &'static str,
    backend: Backend,
    promises: Promises,
}

/// <https://docs.rs/rslock/0.10/rslock/struct.LockManager.html>: `lock` tries three times, `acquire` calls it until it
/// succeeds, with pauses of up to 200 ms; `extend` has to be called.
const RSLOCK: Entry = Entry {
    name: "rslock",
    language: "Rust",
    version: "0.10",
    backend: Backend::Redis,
    promises: Promises {
        token: Token::None,
        loss: Loss::Never,
        renewal: Renewal::ByCaller,
        waiters: Waiters::Poll,
        crash: Crash::Expiry,
        release: Release::Confirmed,
    },
};

/// <https://docs.rs/distributed-lock-redis/0.2>: "The lock is automatically extended in the background while this
/// handle exists"; `lost_token` of its handle. Its `acquire` on one server asks once: `LockError::Timeout` if the lock
/// is held.
const DISTRIBUTED_LOCK_REDIS: Entry = Entry {
    name: "distributed-lock-redis",
    language: "Rust",
    version: "0.2",
    backend: Backend::Redis,
    promises: Promises {
        token: Token::None,
        loss: Loss::OnFailedRenewal,
        renewal: Renewal::Automatic,
        waiters: Waiters::None,
        crash: Crash::Expiry,
        release: Release::Confirmed,
    },
};

/// <https://etcd.io/docs/v3.6/dev-guide/api_concurrency_reference_v3/>: `Lock` waits on the server and answers with a
/// key that "will exist on etcd for the duration that the Lock caller owns the lock", and with a header, whose revision
/// rises; "if the lease is revoked, or it expires, the lock is released". The caller keeps the lease alive.
const ETCD_LOCK_RPC: Entry = Entry {
    name: "etcd-lock-rpc",
    language: "Rust",
    version: "etcd-client 0.21",
    backend: Backend::Etcd,
    promises: Promises {
        token: Token::Revision,
        loss: Loss::Never,
        renewal: Renewal::ByCaller,
        waiters: Waiters::WokenInOrder,
        crash: Crash::Expiry,
        release: Release::Confirmed,
    },
};

/// <https://docs.rs/sqlx/0.9/sqlx/postgres/struct.PgAdvisoryLock.html>: "session-scoped advisory locks (explicitly
/// locked and unlocked, or automatically released when a connection is closed)". A lock occupies its connection, and so
/// does a waiter.
const ADVISORY_LOCK: Entry = Entry {
    name: "pg-advisory-lock",
    language: "Rust",
    version: "sqlx 0.9",
    backend: Backend::Postgres,
    promises: Promises {
        token: Token::None,
        loss: Loss::OfSession,
        // There is nothing to renew.
        renewal: Renewal::Automatic,
        waiters: Waiters::WokenInOrder,
        crash: Crash::EndOfConnection,
        release: Release::Confirmed,
    },
};

/// <https://docs.rs/zookeeper-client/0.11/zookeeper_client/struct.LockClient.html>: its writes to ZooKeeper itself fail
/// once the lock is lost; "Deletes lock path in background" when dropped. `Client::state_watcher` tells of the session.
const ZOOKEEPER_CLIENT: Entry = Entry {
    name: "zookeeper-client",
    language: "Rust",
    version: "0.11",
    backend: Backend::ZooKeeper,
    promises: Promises {
        token: Token::None,
        loss: Loss::OfSession,
        renewal: Renewal::Automatic,
        waiters: Waiters::WokenInOrder,
        crash: Crash::Expiry,
        release: Release::Background,
    },
};

impl Peer {
    pub(crate) const ALL: [Peer; 5] = [
        Peer::Rslock,
        Peer::DistributedLockRedis,
        Peer::EtcdLockRpc,
        Peer::AdvisoryLock,
        Peer::ZooKeeperClient,
    ];

    pub(crate) fn named(name: &str) -> Option<Peer> {
        Peer::ALL.into_iter().find(|peer| peer.name() == name)
    }

    /// Returns its name as a subject.
    pub(crate) fn name(self) -> &'static str {
        self.entry().name
    }

    pub(crate) fn language(self) -> &'static str {
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
        None
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
        })
    }

    fn entry(self) -> &'static Entry {
        match self {
            Peer::Rslock => &RSLOCK,
            Peer::DistributedLockRedis => &DISTRIBUTED_LOCK_REDIS,
            Peer::EtcdLockRpc => &ETCD_LOCK_RPC,
            Peer::AdvisoryLock => &ADVISORY_LOCK,
            Peer::ZooKeeperClient => &ZOOKEEPER_CLIENT,
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
}
