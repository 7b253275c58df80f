//! Locks on MongoDB (4.4 or later): a replica set, or a standalone server.
//!
//! Each lock is a document of the collection `onelock_locks`. The collection and its index are created on first use.
//! Each call is one `findAndModify` with an update pipeline, acknowledged by a majority of the set. Renewals that come
//! together share an update.
//!
//! ```no_run
//! # mod onelock { pub use lock_core::*; pub use lock_mongo as mongodb; }
//! # async fn example() -> lock_core::Result<()> {
//! let client = onelock::mongodb::connect("mongodb://127.0.0.1/app?replicaSet=rs0&prefix=billing:").await?;
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
//! [`Client::info`] says what the set or the server guarantees. The fencing token tells two holders apart, regardless
//! of the clocks, at a resource that checks it. [`Fence`] is such a check.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod check;
mod claim;
mod claim_session;
mod delayed_drop;
mod driver;
mod errors;
mod feed;
mod fence;
mod link;
mod listening;
mod primary;
mod profile;
mod record;
mod renewals;
mod schema;
mod server;
mod settings;
mod statements;
mod tls;
mod url;
mod wakes;

pub use fence::{Fence, FenceError};
pub use lock_core::{Client, Options, Result};
#[doc(inline)]
pub use mongodb;
pub use settings::Mongo;

/// Opens a client of the set or the server that `url` names, with default options.
///
/// [`Mongo::from_url`] describes the URL.
///
/// # Errors
///
/// As [`Mongo::from_url`] and [`Mongo::open`].
///
/// # Cancel safety
///
/// As [`Mongo::open`].
pub async fn connect(url: &str) -> Result<Client> {
    connect_with(url, Options::default()).await
}

/// Opens a client of the set or the server that `url` names, with these options.
///
/// A patience in the URL takes precedence over one in the options.
///
/// # Errors
///
/// As [`Mongo::from_url`] and [`Mongo::open`].
///
/// # Cancel safety
///
/// As [`Mongo::open`].
pub async fn connect_with(url: &str, options: Options) -> Result<Client> {
    Mongo::from_url(url)?.open(options).await
}

/// Compiles the code of this crate's README together with the documentation's examples.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
