//! Locks on a majority of independent Redis (6.2 or later) or Valkey servers: Redlock, with a token.
//!
//! A lock is granted when a majority of the servers has granted it and has said that it keeps the same fencing token. As
//! long as a majority is up, locks are granted, kept and released; a server that comes back without its data, or may
//! have, has no vote until nothing that it has forgotten can be held any more (`max_ttl`).
//!
//! ```no_run
//! # async fn example() -> lock_core::Result<()> {
//! let client = lock_redlock::connect("redlock://redis-a,redis-b,redis-c/?max_ttl=30s").await?;
//! let lock = client.lock("invoices").build()?;
//! if let Some(guard) = lock.try_acquire().await? {
//!     // … with guard.token() …
//!     guard.release().await;
//! }
//! # Ok(()) }
//! ```
//!
//! Brand-new servers have no votes for one `max_ttl`: nobody knows that nobody holds anything. `lock init` says so.

mod candidate;
mod claim;
mod driver;
mod info;
mod inspection;
mod node;
mod quorum;
mod redis_node;
mod round;
mod settings;

pub use lock_core::{Client, Options, Result};
pub use lock_redis::Redis;
pub use settings::Redlock;
#[doc(hidden)]
pub use {
    candidate::Candidate,
    info::describe,
    lock_redis::node::Voters,
    node::{Ask, Freed, Held, Kept, Keys, Node, Tells, Vote},
    quorum::Quorum,
    redis_node::RedisNode,
};

/// Opens a client of the servers that `url` names, with everything by default. See [`Redlock::from_url`] for URLs, and
/// [`Redlock::open`] for errors.
pub async fn connect(url: &str) -> Result<Client> {
    connect_with(url, Options::default()).await
}

/// Opens a client of the servers that `url` names. A patience in the URL comes before one in the options.
pub async fn connect_with(url: &str, options: Options) -> Result<Client> {
    Redlock::from_url(url)?.open(options).await
}
