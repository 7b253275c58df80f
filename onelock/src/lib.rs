//! One lock, the same way, on whichever server you already run.
//!
//! ```
//! use std::time::Duration;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> onelock::Result<()> {
//! // Another server is another URL, "redis://localhost" for one, and a feature of this crate.
//! let client = onelock::connect("memory://").await?;
//! let lock = client.lock("nightly-report").ttl(Duration::from_secs(30)).wait(Duration::from_secs(10)).build()?;
//!
//! // Waits for its turn and renews while the work runs; stops the work if the lock is lost, and releases at its end.
//! let report = lock.run(async |guard| format!("written with token {}", guard.token())).await?;
//! println!("{report}");
//!
//! // Or by hand: only if it is free, as a cron job does that must not run twice.
//! match lock.try_acquire().await? {
//!     Some(guard) => {
//!         println!("it is ours for {:?} at least", guard.valid_for());
//!         println!("it was {:?}", guard.release().await);
//!     }
//!     None => println!("somebody else is at it"),
//! }
//! # Ok(()) }
//! ```
//!
//! | URL | feature | server |
//! |---|---|---|
//! | `memory://`, `memory+queue://` | `memory` (default) | none: this process |
//! | `etcd://a,b,c`, `etcds://` (with `tls`) | `etcd` | an etcd cluster, 3.4 or later |
//! | `mongodb://`, `mongodb+srv://` (with `mongodb-srv`) | `mongodb` | a MongoDB replica set, or one server |
//! | `redis://`, `unix://`, `rediss://` (with `tls`), `valkey://`, … | `redis` | one Redis or Valkey |
//! | `redlock://a,b,c`, `redlocks://` (with `tls`) | `redlock` | a majority of 3, 5, … independent Redis or Valkey |
//! | `mysql://`, `mariadb://` | `mysql` | MySQL 8.0 or MariaDB 10.5, or later |
//! | `postgres://`, `postgresql://` | `postgres` | PostgreSQL 12 or later |
//! | `zk://a,b,c/chroot`, `zks://` (with `zk-tls`) | `zk` | a ZooKeeper ensemble, 3.5 or later |
//! | `sqlite:///path/locks.db`, `sqlite:locks.db` | `sqlite` | none: a file, for the processes of one machine |
//!
//! What is promised, and under which assumptions, stands in `docs/semantics.md` of the repository, and in
//! [`Client::info`] for the server at hand. A backend's own options are in its module.

mod backends;

pub use lock_core::driver::{Entry, Fair, Fencing, Finding, Inspection, Lease, Level, Revoked, Wakes, When};
pub use lock_core::{
    Cause, Client, Clock, DEFAULT_TTL, Done, Ending, Error, ErrorKind, Event, Fence, FencingToken, Guard,
    Info, Instant, Label, Location, Lock, LockBuilder, MAX_LABEL, MAX_NAME, MAX_PREFIX, MultiGuard,
    MultiLock, Name, Options, Owner, OwnerBytes, Reentrant, Refusal, Result, Stale, parse_duration,
};

#[cfg(feature = "etcd")]
#[doc(inline)]
pub use lock_etcd as etcd;
#[cfg(feature = "memory")]
#[doc(inline)]
pub use lock_memory as memory;
#[cfg(feature = "mongodb")]
#[doc(inline)]
pub use lock_mongo as mongodb;
#[cfg(feature = "redis")]
#[doc(inline)]
pub use lock_redis as redis;
#[cfg(feature = "redlock")]
#[doc(inline)]
pub use lock_redlock as redlock;
#[cfg(feature = "mysql")]
#[doc(inline)]
pub use lock_sql::mysql;
#[cfg(feature = "postgres")]
#[doc(inline)]
pub use lock_sql::postgres;
#[cfg(feature = "sqlite")]
#[doc(inline)]
pub use lock_sql::sqlite;
#[cfg(feature = "zk")]
#[doc(inline)]
pub use lock_zk as zk;

/// Opens the server at `url`, on the current tokio runtime.
///
/// Errors as [`connect_with`]. Cancel safe.
pub async fn connect(url: &str) -> Result<Client> {
    connect_with(url, Options::default()).await
}

/// Opens the server at `url` with `options`.
///
/// `Invalid` for a scheme that no backend has, or a parameter that this backend doesn't know; `Unsupported` for a
/// backend that is not built in, naming the feature that builds it in; `Unavailable` if the server can't be reached.
/// Cancel safe.
pub async fn connect_with(url: &str, options: Options) -> Result<Client> {
    backends::connect(url, options).await
}

/// Opens the server at `url` for a program without async: the client has a thread of its own, and the calls that wait
/// have twins whose names begin with `blocking`.
///
/// Errors as [`connect_with`].
///
/// ```
/// # fn main() -> onelock::Result<()> {
/// let client = onelock::blocking_connect("memory://")?;
/// let lock = client.lock("ledger").build()?;
/// let total = lock.blocking_run(|guard| {
///     // Nothing can stop this work from outside: between its steps it asks.
///     guard.check().map(|()| 42)
/// })??;
/// # assert_eq!(total, 42);
/// # Ok(()) }
/// ```
///
/// # Panics
///
/// Inside async code.
pub fn blocking_connect(url: &str) -> Result<Client> {
    lock_core::blocking_open(Options::default(), async |options| connect_with(url, options).await)
}

/// What the server at `url` needs once, before its first lock, for its administrator's tools: SQL, for one. Empty if it
/// needs nothing. [`Client::init`] makes it.
///
/// Read from the URL alone: nothing is asked of the server, which need not be there. `Invalid` and `Unsupported` as
/// [`connect_with`].
pub fn schema(url: &str) -> Result<String> {
    backends::schema(url)
}

/// The README's code is compiled with the documentation's.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
