//! Locks on one Redis (6.2 or later) or Valkey server, or on a primary with replicas, with Sentinel or without.
//!
//! A lock is a plain key with an expiry. The server sets it only if no client holds the lock, and `redis-cli get` shows
//! it. The key of its fencing token and the channel on which its releases are published have names that begin with the
//! lock's key and belong to the same cluster slot. Each call is one script, one round trip.
//!
//! ```no_run
//! # mod onelock { pub use lock_core::*; pub use lock_redis as redis; }
//! # async fn example() -> lock_core::Result<()> {
//! let client = onelock::redis::connect("redis://127.0.0.1/?prefix=billing:").await?;
//! let lock = client.lock("invoices").build()?;
//! if let Some(guard) = lock.try_acquire().await? {
//!     // … with guard.token() …
//!     if guard.release().await == onelock::Ending::Expired {
//!         // … the work took longer than the lease could be kept …
//!     }
//! }
//! # Ok(()) }
//! ```
//!
//! [`Client::info`] tells what one server can and cannot promise. Leases end by the server's clock. What the server
//! loses (in a crash without a synced append-only file, in an asynchronous failover, by eviction) is lost for locks as
//! well. Even then the token distinguishes two holders, at a resource that checks it, as [`FencedWrite`] does.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod acks;
mod calls;
mod check;
mod claim;
mod cluster;
mod delivery;
mod driver;
mod errors;
mod facts;
mod feed;
mod fence;
mod finder;
mod follow;
mod layout;
mod link;
mod listening;
#[doc(hidden)]
mod message;
pub mod node;
mod profile;
mod pushes;
mod race;
mod redisson;
mod scripts;
mod sentinels;
mod server;
mod servers;
mod settings;
mod side;
mod value;

pub use fence::{FencedWrite, WriteError};
pub use layout::{Grace, Layout};
pub use lock_core::{Client, Options, Result};
#[doc(inline)]
pub use redis;
pub use settings::Redis;

/// Opens a client of the server that `url` names, with default options.
///
/// [`Redis::from_url`] describes the URLs.
///
/// # Errors
///
/// Those of [`Redis::from_url`] and [`Redis::open`].
///
/// # Cancel safety
///
/// As [`Redis::open`].
pub async fn connect(url: &str) -> Result<Client> {
    connect_with(url, Options::default()).await
}

/// Opens a client of the server that `url` names, with these options.
///
/// A patience in the URL takes precedence over one in the options.
///
/// # Errors
///
/// Those of [`Redis::from_url`] and [`Redis::open`].
///
/// # Cancel safety
///
/// As [`Redis::open`].
pub async fn connect_with(url: &str, options: Options) -> Result<Client> {
    Redis::from_url(url)?.open(options).await
}

/// Compiles the code of this crate's README together with the documentation's examples.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
