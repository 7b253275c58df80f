//! One lock, with the same behaviour on whichever server you already run.
//!
//! ```
//! use std::time::Duration;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> onelock::Result<()> {
//! // Another server is another URL and a feature, for example "redis://localhost".
//! let client = onelock::connect("memory://").await?;
//! let lock = client.lock("nightly-report").wait(Duration::from_secs(10)).build()?;
//!
//! // Waits for its turn, renews while the work runs, drops the work if the lock
//! // is lost, releases at the end.
//! let report = lock.run(async |guard| format!("written with token {}", guard.token())).await?;
//! println!("{report}");
//!
//! // Or without waiting: only if the lock is free, as in a cron job.
//! match lock.try_acquire().await? {
//!     Some(guard) => {
//!         println!("the lock is ours for at least {:?}", guard.valid_for());
//!         println!("it was {:?}", guard.release().await);
//!     }
//!     None => println!("another client has the lock"),
//! }
//! # Ok(()) }
//! ```
//!
//! The types to begin with: [`connect`] opens a [`Client`], [`Client::lock`] builds a [`Lock`], [`Lock::run`] runs work
//! under it, and [`Lock::acquire`] returns a [`Guard`]. Several locks are a [`MultiLock`]. A program without async begins
//! with [`blocking_connect`].
//!
//! # Servers and features
//!
//! Each server has a feature of this crate, URL schemes ([`SCHEMES`] has all), and a [module](#modules) with its own
//! options and a description.
//!
//! | feature | URLs | server |
//! |---|---|---|
//! | `memory` (on by default) | `memory://`, `memory+queue://`, `memory+register://` | none: locks of one process, for tests |
//! | `redis` | `redis://`, `valkey://`, `unix://`, `redis+sentinel://`, `redis+cluster://` | Redis or Valkey |
//! | `redlock` | `redlock://` | a majority of independent Redis or Valkey |
//! | `postgres` | `postgres://` | PostgreSQL |
//! | `mysql` | `mysql://`, `mariadb://` | MySQL or MariaDB |
//! | `sqlite` | `sqlite:` | none: a file, for the processes of one machine |
//! | `mongodb` | `mongodb://`; with `mongodb-srv` also `mongodb+srv://` | MongoDB |
//! | `etcd` | `etcd://` | etcd |
//! | `zk` | `zk://` | ZooKeeper |
//!
//! `all-servers` is all of these. `tls` adds encrypted connections (`rediss://`, `?ca=`), and `zk-tls` those to ZooKeeper
//! (`zks://`). `metrics` adds counters, gauges and histograms.
//!
//! [Which server to take](https://github.com/onelock/onelock/blob/main/docs/guide/choose.md), and
//! [the URL's parameters](https://github.com/onelock/onelock/blob/main/docs/guide/connect.md).
//!
//! # Observing
//!
//! Every client reports to `tracing`: a grant at the level `debug`, a lost lock and trouble with the server at `warn`, each
//! with the lock's name. With the feature `metrics` it reports to the facade of the crate `metrics`, without names: how
//! long callers wait, what is held, what is lost and why
//! ([all metrics](https://github.com/onelock/onelock/blob/main/docs/metrics.md)). [`Options::observer`] calls a function of
//! yours with the same [`Event`]s.
//!
//! # Code that blocks
//!
//! A client lives on the tokio runtime that opened it, and renews its locks there. Code that blocks that runtime's threads
//! for longer than a lease loses them. [`Options::dedicated`] gives the client a thread with a runtime of its own, which
//! goes on renewing:
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> onelock::Result<()> {
//! let client = onelock::connect_with("memory://", onelock::Options::default().dedicated()).await?;
//! # Ok(()) }
//! ```
//!
//! # Tokens
//!
//! No lock can stop a process that was suspended from writing late. [`Guard::token`] rises with every grant: send it to
//! what you write to, and let that refuse a lower one ([`Fence`], `postgres::Fence` and the like;
//! [how](https://github.com/onelock/onelock/blob/main/docs/guide/fence.md)).
//!
//! # What is promised
//!
//! [The semantics](https://github.com/onelock/onelock/blob/main/docs/semantics.md) say what is promised and under which
//! assumptions, with the tests of each promise. [`Client::info`] says it for the connected server.
//! [The guide](https://github.com/onelock/onelock/blob/main/docs/guide/README.md) begins with the first lock and ends with
//! operating.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod backends;
#[cfg(all(doctest, feature = "memory", feature = "redis", feature = "sqlite"))]
mod guide;

/// The schemes, and a module for each backend that is built in.
pub use backends::*;
pub use lock_core::{
    Client, Clock, Completion, DEFAULT_TTL, Effect, Ending, Entry, Error, ErrorKind, Event, Fair, Fence,
    Fencing, FencingToken, Finding, Guard, Info, Inspection, Instant, Label, Lease, Level, Lists, Lock,
    LockBuilder, LossReason, MAX_LABEL, MAX_NAME, MAX_PREFIX, MultiGuard, MultiLock, Name, Observer, Options,
    Owner, OwnerBytes, Period, PeriodicGuard, PeriodicLock, Random, Reentrant, Refusal, Result, Revoked,
    Stale, Wakes, When, blocking_open, parse_duration,
};
/// The sqlx of the modules `mysql`, `postgres` and `sqlite`: their fences take its connections.
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
pub use lock_sql::sqlx;

/// Opens a client of the server at `url`, on the current tokio runtime, with default options.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> onelock::Result<()> {
/// let client = onelock::connect("memory://jobs?prefix=nightly:").await?;
/// # Ok(()) }
/// ```
///
/// # Errors
///
/// As [`connect_with`].
///
/// # Cancel safety
///
/// As [`connect_with`].
pub async fn connect(url: &str) -> Result<Client> {
    connect_with(url, Options::default()).await
}

/// Opens a client of the server at `url` with `options`.
///
/// ```no_run
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> onelock::Result<()> {
/// use std::time::Duration;
///
/// // The server may start later than this program.
/// let options = onelock::Options::default().connect_wait(Duration::from_secs(30));
/// let client = onelock::connect_with("redis://localhost", options).await?;
/// # Ok(()) }
/// ```
///
/// # Errors
///
/// - `Invalid` for a malformed URL, for a scheme that no backend has, for a parameter that the backend does not know,
///   outside of a tokio runtime, and in one without timers, or without I/O if the server
///   needs it (unless the options are [`dedicated`](Options::dedicated)).
/// - `Unsupported` for a backend that is not built in. The error names the feature that builds it in.
/// - `Unavailable` if the server cannot be reached, within the [`connect_wait`](Options::connect_wait) if there is one.
/// - `Rejected` if the server refuses the client.
///
/// # Cancel safety
///
/// If the future is dropped, no client is opened.
pub async fn connect_with(url: &str, options: Options) -> Result<Client> {
    backends::connect(url, options).await
}

/// Opens a client of the server at `url` for a program without async.
///
/// The client has a thread of its own. Each async method that waits has a blocking counterpart, whose name begins with
/// `blocking`.
///
/// # Errors
///
/// As [`connect_with`].
///
/// # Examples
///
/// ```
/// # fn main() -> onelock::Result<()> {
/// let client = onelock::blocking_connect("memory://")?;
/// let lock = client.lock("ledger").build()?;
/// let total = lock.blocking_run(|guard| {
///     // The library cannot stop this work, so the work checks the lock between its steps.
///     guard.check().map(|()| 42)
/// })??;
/// # assert_eq!(total, 42);
/// # Ok(()) }
/// ```
///
/// # Panics
///
/// Panics when called inside async code.
#[track_caller]
pub fn blocking_connect(url: &str) -> Result<Client> {
    blocking_open(Options::default(), async |options| connect_with(url, options).await)
}

/// Returns what the server at `url` needs once, before its first lock: for example SQL for its administrator's tools.
///
/// The text is empty if the server needs nothing. [`Client::init`] makes the same on the server. This function only
/// reads the URL: it sends nothing, and the server need not be running.
///
/// ```
/// assert_eq!(onelock::schema("memory://")?, "");
/// # Ok::<(), onelock::Error>(())
/// ```
///
/// # Errors
///
/// `Invalid` and `Unsupported`, as [`connect_with`].
pub fn schema(url: &str) -> Result<String> {
    backends::schema(url)
}

/// Compiles the README's code together with the documentation's examples.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;

/// Compiles the code of this crate's README together with the documentation's examples.
#[cfg(all(doctest, feature = "memory"))]
#[doc = include_str!("../README.md")]
struct CrateReadme;
