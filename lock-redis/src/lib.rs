//! Locks on one Redis (6.2 or later) or Valkey server.
//!
//! A lock is a plain key with an expiry, set by the server only if nobody holds it, and readable with
//! `redis-cli get`. Beside it, in the same cluster slot, stand its token and the channel on which releases are told.
//! Each call is one script, one round trip.
//!
//! ```no_run
//! # async fn example() -> lock_core::Result<()> {
//! let client = lock_redis::connect("redis://127.0.0.1/?prefix=billing:").await?;
//! let lock = client.lock("invoices").build()?;
//! if let Some(guard) = lock.try_acquire().await? {
//!     // … with guard.token() …
//!     if guard.release().await == lock_core::Ending::Expired {
//!         // … the work took longer than the lease could be kept …
//!     }
//! }
//! # Ok(()) }
//! ```
//!
//! What one server can promise, and what it can't, is what [`Client::info`] says of it: leases end by its clock, and
//! what it loses (a crash without a synced append-only file, an asynchronous failover, eviction) is lost for locks as
//! well. The token tells two holders apart even then, at a resource that checks it: [`FencedWrite`] does.

mod calls;
mod check;
mod claim;
mod driver;
mod errors;
mod facts;
mod feed;
mod fence;
mod link;
#[doc(hidden)]
pub mod node;
mod profile;
mod scripts;
mod server;
mod settings;
mod side;
mod value;
mod wakes;

pub use fence::{FencedWrite, WriteError};
pub use lock_core::{Client, Options, Result};
#[doc(inline)]
pub use redis;
pub use settings::Redis;

/// Opens a client of the server that `url` names, with everything by default. See [`Redis::from_url`] for URLs, and
/// [`Redis::open`] for errors.
pub async fn connect(url: &str) -> Result<Client> {
    connect_with(url, Options::default()).await
}

/// Opens a client of the server that `url` names. A patience in the URL comes before one in the options.
pub async fn connect_with(url: &str, options: Options) -> Result<Client> {
    Redis::from_url(url)?.open(options).await
}
