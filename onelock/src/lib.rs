//! One lock, with the same behaviour on whichever server you already run.
//!
//! ```
//! use std::time::Duration;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> onelock::Result<()> {
//! // For another server, change the URL, for example to "redis://localhost", and enable the feature of this crate.
//! let client = onelock::connect("memory://").await?;
//! let lock = client.lock("nightly-report").ttl(Duration::from_secs(30)).wait(Duration::from_secs(10)).build()?;
//!
//! // Waits for its turn and renews the lock while the work runs. Stops the work if the lock is lost, and releases it
//! // at the end.
//! let report = lock.run(async |guard| format!("written with token {}", guard.token())).await?;
//! println!("{report}");
//!
//! // Or without waiting: takes the lock only if it is free, as in a cron job that must not run twice.
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
//! Each server has a feature of this crate, URL schemes ([`SCHEMES`] lists both), and a [module](#modules) with its own
//! options and a description. `memory` is enabled by default.
//!
//! `docs/semantics.md` in the repository says what is promised, and under which assumptions. [`Client::info`] says it
//! for the connected server.

mod backends;
#[cfg(all(doctest, feature = "memory", feature = "redis", feature = "sqlite"))]
mod guide;

/// The schemes, and a module for each backend that is built in.
pub use backends::*;
/// What backends need: the contract with the core. For a backend of your own, and for the type of [`Client::driver`].
pub use lock_core::driver;
pub use lock_core::{
    Client, Clock, DEFAULT_TTL, Effect, Ending, Entry, Error, ErrorKind, Event, Fair, Fence, Fencing,
    FencingToken, Finding, Guard, Info, Inspection, Instant, Label, Lease, Level, Lists, Lock, LockBuilder,
    LossReason, MAX_LABEL, MAX_NAME, MAX_PREFIX, MultiGuard, MultiLock, Name, Observer, Options, Owner,
    OwnerBytes, Random, Reentrant, Refusal, Result, Revoked, Stale, Wakes, When, parse_duration,
};

/// Opens a client of the server at `url`, on the current tokio runtime, with default options.
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
/// # Errors
///
/// - `Invalid` for a malformed URL, for a scheme that no backend has, for a parameter that the backend does not know,
///   and outside of a tokio runtime (unless the options are [`dedicated`](Options::dedicated)).
/// - `Unsupported` for a backend that is not built in. The error names the feature that builds it in.
/// - `Unavailable` if the server cannot be reached.
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
pub fn blocking_connect(url: &str) -> Result<Client> {
    lock_core::blocking_open(Options::default(), async |options| connect_with(url, options).await)
}

/// Returns what the server at `url` needs once, before its first lock: for example SQL for its administrator's tools.
///
/// The text is empty if the server needs nothing. [`Client::init`] makes the same on the server. This function only
/// reads the URL: it sends nothing, and the server need not be running.
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
