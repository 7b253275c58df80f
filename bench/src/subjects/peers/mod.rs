//! The locks of other libraries, on the servers that this library uses, too.

mod in_rust;
mod process;

use lock_core::driver::Wakes;

use self::Lack::{ConfirmedRelease, Expiry, Renewal, Token, Waiting, WakeUps};
use self::process::{EXECUTABLE, JAVA, NODE, Program};
use crate::Outcome;
use crate::backend::Backend;
use crate::drivers;
use crate::interop::Listing;
use crate::subjects::Subject;

/// A lock of another library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Peer {
    pub(crate) name: &'static str,
    /// A peer that is not in Rust is driven by a program.
    pub(crate) program: Option<Program>,
    pub(crate) backend: Backend,
    /// Promises of the library that this lock does not give, by its own documentation.
    lacks: &'static [Lack],
}

/// A promise of the library that a peer doesn't give. That a holder is told by its deadline at the latest, none does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lack {
    Token,
    Renewal,
    /// A call on a held lock fails at once.
    Waiting,
    /// Its waiters poll.
    WakeUps,
    /// A lock ends with its connection, which the server may not see for long.
    Expiry,
    /// When a release has returned, it is not known whether the lock was held until then.
    ConfirmedRelease,
}

impl Peer {
    pub(crate) const ALL: [Peer; 12] = [
        // https://docs.rs/rslock/0.10/rslock/struct.LockManager.html: `lock` tries three times, `acquire` calls it until it
        // succeeds; `extend` has to be called; a release is "best effort".
        Peer::rust("rslock", Backend::Redis, &[Token, Renewal, WakeUps, ConfirmedRelease]),
        // https://docs.rs/distributed-lock-redis/0.2: "automatically extended in the background"; its release does not read
        // the script's answer.
        Peer::rust("distributed-lock-redis", Backend::Redis, &[Token, Waiting, ConfirmedRelease]),
        // https://etcd.io/docs/v3.6/dev-guide/api_concurrency_reference_v3/: the answer's header has a revision, which
        // rises; the caller keeps the lease alive.
        Peer::rust("etcd-lock-rpc", Backend::Etcd, &[Renewal, ConfirmedRelease]),
        // https://docs.rs/sqlx/0.9/sqlx/postgres/struct.PgAdvisoryLock.html: "automatically released when a connection is
        // closed". A lock occupies its connection, and so does a waiter.
        Peer::rust("pg-advisory-lock", Backend::Postgres, &[Token, Expiry]),
        // https://docs.rs/zookeeper-client/0.11/zookeeper_client/struct.LockClient.html: "Deletes lock path in background".
        Peer::rust("zookeeper-client", Backend::ZooKeeper, &[Token, ConfirmedRelease]),
        // https://pkg.go.dev/github.com/go-redsync/redsync/v4: "Extend resets the mutex's expiry"; `WithRetryDelay`.
        Peer::driven("redsync", Backend::Redis, &drivers::REDSYNC, EXECUTABLE, &[Token, Renewal, WakeUps]),
        // https://redisson.pro/docs/data-and-services/locks-and-synchronizers/: a watchdog prolongs the lease "while lock
        // holder Redisson instance is alive"; waiters are told by a "pub/sub channel".
        Peer::driven("redisson-lock", Backend::Redis, &drivers::REDISSON, JAVA, &[Token]),
        // Its waiters get it in the order of their requests. Where the lock has expired and is free, its `unlock` returns
        // as if it had released it.
        Peer::driven("redisson-fair", Backend::Redis, &drivers::REDISSON, JAVA, &[Token, ConfirmedRelease]),
        // Its tokens are for "guarding an external resource against a stale lock holder".
        Peer::driven("redisson-fenced", Backend::Redis, &drivers::REDISSON, JAVA, &[]),
        // https://github.com/mike-marcacci/node-redlock: `retryDelay`, "the time in ms between attempts". What is measured
        // are `acquire` and `release`; its `using` also renews.
        Peer::driven(
            "node-redlock",
            Backend::Redis,
            &drivers::NODE_REDLOCK,
            NODE,
            &[Token, Renewal, WakeUps],
        ),
        // https://pkg.go.dev/go.etcd.io/etcd/client/v3/concurrency: the session's `Done` tells that the lease is gone. Its
        // `Unlock` deletes the key without a look at it.
        Peer::driven("etcd-go", Backend::Etcd, &drivers::ETCD_GO, EXECUTABLE, &[ConfirmedRelease]),
        // https://curator.apache.org/docs/recipes-shared-reentrant-lock: "watch for SUSPENDED and LOST state changes". Its
        // `release` ignores that the node is gone.
        Peer::driven("curator", Backend::ZooKeeper, &drivers::CURATOR, JAVA, &[Token, ConfirmedRelease]),
    ];

    const fn rust(name: &'static str, backend: Backend, lacks: &'static [Lack]) -> Peer {
        Peer { name, program: None, backend, lacks }
    }

    const fn driven(
        name: &'static str,
        backend: Backend,
        listing: &'static Listing,
        start: &'static [&'static str],
        lacks: &'static [Lack],
    ) -> Peer {
        Peer { name, program: Some(Program { listing, start }), backend, lacks }
    }

    /// Returns the promises that it lacks, on a server on which the library's waiters learn of a release as `wakes` says.
    pub(crate) fn lacks(self, wakes: Wakes) -> Vec<String> {
        let lacks = self.lacks.iter().filter(|lack| **lack != WakeUps || wakes == Wakes::Pushed);
        let texts = lacks.map(|lack| match lack {
            Token => "a fencing token",
            Renewal => "automatic renewal",
            Waiting => "waiting",
            WakeUps => "wake-ups by push",
            Expiry => "expiry",
            ConfirmedRelease => "a confirmed release",
        });
        texts.chain(["a signal of the loss by the deadline"]).map(str::to_owned).collect()
    }

    /// Says why it can't be measured on this machine; `None` if it can.
    pub(crate) fn lack(self) -> Option<String> {
        self.program?.lack()
    }

    /// Returns whether a client of it can wait until another one releases the lock.
    pub(crate) fn waits(self) -> bool {
        !self.lacks.contains(&Waiting)
    }

    pub(super) async fn connect(self, url: &str) -> Outcome<Box<dyn Subject>> {
        in_rust::connect(self.name, url).await
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_peer_has_a_name_of_its_own() {
        assert_eq!(Peer::ALL.iter().map(|peer| peer.name).collect::<BTreeSet<_>>().len(), Peer::ALL.len());
    }

    #[test]
    fn a_polling_peer_lacks_nothing_where_the_library_polls() {
        let lacks = |wakes| Peer::ALL[0].lacks(wakes).contains(&"wake-ups by push".to_owned());
        assert!(lacks(Wakes::Pushed) && !lacks(Wakes::Polled));
    }
}
