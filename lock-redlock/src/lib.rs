//! Locks on a majority of independent Redis (6.2 or later) or Valkey servers: Redlock, with a fencing token.
//!
//! A lock is granted when a majority of the servers has granted it and has confirmed that it keeps the same fencing
//! token. As long as a majority is up, locks are granted, renewed and released. A server that comes back without its
//! data, or may have lost data, has no vote until no lock that it has forgotten can be held any more (`max_ttl`).
//!
//! ```no_run
//! # mod onelock { pub use lock_core::*; pub use lock_redlock as redlock; }
//! # async fn example() -> lock_core::Result<()> {
//! let client = onelock::redlock::connect("redlock://redis-a,redis-b,redis-c/?max_ttl=30s").await?;
//! let lock = client.lock("invoices").build()?;
//! if let Some(guard) = lock.try_acquire().await? {
//!     // … with guard.token() …
//!     guard.release().await;
//! }
//! # Ok(()) }
//! ```
//!
//! Brand-new servers have no votes for one `max_ttl`: they do not know whether a client holds a lock. With `lock init`
//! an operator says that no client does.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod candidate;
mod claim;
mod driver;
mod info;
mod inspection;
mod node;
mod proposal;
mod quorum;
mod redis_node;
mod requests;
mod round;
mod settings;

pub use lock_core::{Client, Options, Result};
pub use lock_redis::Redis;
pub use settings::Redlock;
#[doc(hidden)]
pub use {
    candidate::Candidate,
    info::describe,
    lock_redis::node::VoteRegistry,
    node::{Ask, Freed, Held, Kept, Keys, Node, Tells, Vote},
    quorum::Quorum,
    redis_node::RedisNode,
};

/// Opens a client of the servers that `url` names, with default options.
///
/// [`Redlock::from_url`] describes the URLs.
///
/// # Errors
///
/// Those of [`Redlock::from_url`] and [`Redlock::open`].
///
/// # Cancel safety
///
/// As [`Redlock::open`].
pub async fn connect(url: &str) -> Result<Client> {
    connect_with(url, Options::default()).await
}

/// Opens a client of the servers that `url` names, with these options.
///
/// A patience in the URL takes precedence over one in the options.
///
/// # Errors
///
/// Those of [`Redlock::from_url`] and [`Redlock::open`].
///
/// # Cancel safety
///
/// As [`Redlock::open`].
pub async fn connect_with(url: &str, options: Options) -> Result<Client> {
    Redlock::from_url(url)?.open(options).await
}

/// Compiles the code of this crate's README together with the documentation's examples.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
