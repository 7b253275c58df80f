//! What each peer is and promises, with its documentation as the source.

use super::Language;
use super::promises::{Crash, Loss, Promises, Release, Renewal, Token, Waiters};
use crate::backend::Backend;
use crate::drivers;

/// What is known of a peer before it is measured.
pub(super) struct Entry {
    pub(super) name: &'static str,
    pub(super) language: Language,
    /// The version of the library, as far as a manifest here pins it.
    pub(super) version: &'static str,
    pub(super) backend: Backend,
    pub(super) promises: Promises,
}

/// <https://docs.rs/rslock/0.10/rslock/struct.LockManager.html>: `lock` tries three times, `acquire` calls it until it
/// succeeds, with pauses of up to 200 ms; `extend` has to be called; a release is "best effort".
pub(super) const RSLOCK: Entry = Entry {
    name: "rslock",
    language: Language::Rust,
    version: "0.10",
    backend: Backend::Redis,
    promises: Promises {
        token: Token::None,
        loss: Loss::Never,
        renewal: Renewal::ByCaller,
        waiters: Waiters::Poll,
        crash: Crash::Expiry,
        release: Release::Unchecked,
    },
};

/// <https://docs.rs/distributed-lock-redis/0.2>: "The lock is automatically extended in the background while this
/// handle exists"; `lost_token` of its handle. Its `acquire` on one server asks once: `LockError::Timeout` if the lock
/// is held. Its release does not read the script's answer.
pub(super) const DISTRIBUTED_LOCK_REDIS: Entry = Entry {
    name: "distributed-lock-redis",
    language: Language::Rust,
    version: "0.2",
    backend: Backend::Redis,
    promises: Promises {
        token: Token::None,
        loss: Loss::OnFailedRenewal,
        renewal: Renewal::Automatic,
        waiters: Waiters::None,
        crash: Crash::Expiry,
        release: Release::Unchecked,
    },
};

/// <https://etcd.io/docs/v3.6/dev-guide/api_concurrency_reference_v3/>: `Lock` waits on the server and answers with a
/// key that "will exist on etcd for the duration that the Lock caller owns the lock", and with a header, whose revision
/// rises; "if the lease is revoked, or it expires, the lock is released". The caller keeps the lease alive.
pub(super) const ETCD_LOCK_RPC: Entry = Entry {
    name: "etcd-lock-rpc",
    language: Language::Rust,
    version: "etcd-client 0.21",
    backend: Backend::Etcd,
    promises: Promises {
        token: Token::Revision,
        loss: Loss::Never,
        renewal: Renewal::ByCaller,
        waiters: Waiters::WokenInOrder,
        crash: Crash::Expiry,
        release: Release::Unchecked,
    },
};

/// <https://docs.rs/sqlx/0.9/sqlx/postgres/struct.PgAdvisoryLock.html>: "session-scoped advisory locks (explicitly
/// locked and unlocked, or automatically released when a connection is closed)". A lock occupies its connection, and so
/// does a waiter.
pub(super) const ADVISORY_LOCK: Entry = Entry {
    name: "pg-advisory-lock",
    language: Language::Rust,
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
pub(super) const ZOOKEEPER_CLIENT: Entry = Entry {
    name: "zookeeper-client",
    language: Language::Rust,
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

/// <https://pkg.go.dev/github.com/go-redsync/redsync/v4>: "Extend resets the mutex's expiry" when the caller calls it;
/// `WithRetryDelay` "can be used to set the amount of time to wait between retries".
pub(super) const REDSYNC: Entry = Entry {
    name: "redsync",
    language: Language::Go(&drivers::REDSYNC),
    version: "4.15.0",
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

/// <https://redisson.pro/docs/data-and-services/locks-and-synchronizers/>: a watchdog prolongs the lease "while lock
/// holder Redisson instance is alive"; waiters are told by a "pub/sub channel". Its `unlock` throws if the thread does
/// not hold the lock.
pub(super) const REDISSON_LOCK: Entry = Entry {
    name: "redisson-lock",
    language: Language::Java(&drivers::REDISSON),
    version: "4.7.0",
    backend: Backend::Redis,
    promises: Promises {
        token: Token::None,
        loss: Loss::Never,
        renewal: Renewal::Automatic,
        waiters: Waiters::Woken,
        crash: Crash::Expiry,
        release: Release::Confirmed,
    },
};

/// The same page: its waiters get it in the order of their requests. Its `unlock` throws only if another client holds
/// the lock: where the lock has expired and is free, it returns as if it had released it.
pub(super) const REDISSON_FAIR: Entry = Entry {
    name: "redisson-fair",
    promises: Promises {
        waiters: Waiters::WokenInOrder,
        release: Release::Unchecked,
        ..REDISSON_LOCK.promises
    },
    ..REDISSON_LOCK
};

/// The same page: it hands out fencing tokens, for "guarding an external resource against a stale lock holder".
pub(super) const REDISSON_FENCED: Entry = Entry {
    name: "redisson-fenced",
    promises: Promises { token: Token::Fencing, ..REDISSON_LOCK.promises },
    ..REDISSON_LOCK
};

/// <https://github.com/mike-marcacci/node-redlock>: `retryDelay`, "the time in ms between attempts". What is
/// measured are `acquire` and `release`; its `using` also renews, and its signal is aborted if that fails.
pub(super) const NODE_REDLOCK: Entry = Entry {
    name: "node-redlock",
    language: Language::JavaScript(&drivers::NODE_REDLOCK),
    version: "5.0.0-beta.2",
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

/// <https://pkg.go.dev/go.etcd.io/etcd/client/v3/concurrency>: `Header` is "the response header received from etcd on
/// acquiring the lock"; the session's `Done` "closes when the lease is orphaned, expires, or is otherwise no longer
/// being refreshed". Its `Unlock` deletes the key without a look at it.
pub(super) const ETCD_GO: Entry = Entry {
    name: "etcd-go",
    language: Language::Go(&drivers::ETCD_GO),
    version: "3.6.5",
    backend: Backend::Etcd,
    promises: Promises {
        token: Token::Revision,
        loss: Loss::OfSession,
        renewal: Renewal::Automatic,
        waiters: Waiters::WokenInOrder,
        crash: Crash::Expiry,
        release: Release::Unchecked,
    },
};

/// <https://curator.apache.org/docs/recipes-shared-reentrant-lock>: "It is strongly recommended that you add a
/// ConnectionStateListener and watch for SUSPENDED and LOST state changes". "Each user will get the mutex in the order
/// requested (from ZK's point of view)". Its `release` ignores that the node is gone.
pub(super) const CURATOR: Entry = Entry {
    name: "curator",
    language: Language::Java(&drivers::CURATOR),
    version: "5.9.0",
    backend: Backend::ZooKeeper,
    promises: Promises {
        token: Token::None,
        loss: Loss::OfSession,
        renewal: Renewal::Automatic,
        waiters: Waiters::WokenInOrder,
        crash: Crash::Expiry,
        release: Release::Unchecked,
    },
};
