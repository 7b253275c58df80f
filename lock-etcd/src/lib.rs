//! Locks on etcd (3.4 or later): a cluster, or a single server.
//!
//! The holder and its waiters are keys in the order of their creation, as in etcd's own lock recipe. Our keys are
//! `<prefix><name>/`, the byte `0xff`, and `<client>-<number>`. So Go's `concurrency.Mutex`, `etcdctl lock` and this
//! library exclude each other on the same name. A client keeps one lease for each distinct ttl, and proves with each
//! heartbeat that its keys still exist.
//!
//! ```no_run
//! # mod onelock { pub use lock_core::*; pub use lock_etcd as etcd; }
//! # async fn example() -> lock_core::Result<()> {
//! let client = onelock::etcd::connect("etcd://10.0.0.1:2379,10.0.0.2,10.0.0.3?prefix=billing/").await?;
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
//! [`Client::info`] says what the cluster can promise. The fencing token is the key's create revision: at a resource
//! that checks it ([`Fence`](lock_core::Fence)), it tells two holders apart even if clocks misbehave.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod answers;
mod check;
mod claim;
mod cluster;
mod driver;
mod errors;
mod feed;
mod foreign;
mod heartbeat;
mod info;
mod key_numbers;
mod keys;
mod lease;
mod link;
mod session;
mod sessions;
mod settings;
mod tls;
mod transactions;
mod watches;

#[doc(inline)]
pub use etcd_client;
pub use lock_core::{Client, Options, Result};
pub use settings::Etcd;

/// Opens a client of the cluster at `url`, with default options.
///
/// [`Etcd::from_url`] describes the URL.
///
/// # Errors
///
/// Those of [`Etcd::from_url`] and [`Etcd::open`].
///
/// # Cancel safety
///
/// As [`Etcd::open`].
pub async fn connect(url: &str) -> Result<Client> {
    connect_with(url, Options::default()).await
}

/// Opens a client of the cluster at `url` with these options.
///
/// A patience in the URL overrides the one in the options.
///
/// # Errors
///
/// Those of [`Etcd::from_url`] and [`Etcd::open`].
///
/// # Cancel safety
///
/// As [`Etcd::open`].
pub async fn connect_with(url: &str, options: Options) -> Result<Client> {
    Etcd::from_url(url)?.open(options).await
}

/// Compiles the code of this crate's README together with the documentation's examples.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
