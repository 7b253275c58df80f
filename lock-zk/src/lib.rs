//! Locks on ZooKeeper (3.5 or later): one server, or an ensemble.
//!
//! Each lock is a directory in Curator's layout: the lock `invoices` in the folder `/app` is the lock of
//! `new InterProcessMutex(client, "/app/invoices")`. Each owner that asks for the lock has an ephemeral node there, and
//! the owner of the first node holds it. All locks of a client with the same ttl share a session with that timeout.
//!
//! ```no_run
//! # mod onelock { pub use lock_core::*; pub use lock_zk as zk; }
//! # async fn example() -> lock_core::Result<()> {
//! let client = onelock::zk::connect("zk://zk1,zk2,zk3/app?prefix=billing-").await?;
//! let lock = client.lock("invoices").build()?;
//! if let Some(guard) = lock.try_acquire().await? {
//!     // … with guard.token() …
//!     if guard.release().await == onelock::Ending::Expired {
//!         // … the work took longer than the session could be kept …
//!     }
//! }
//! # Ok(()) }
//! ```
//!
//! A holder's deadline is counted from heartbeats that a quorum has acknowledged, and comes before the server's own end
//! of the session. [`Client::info`] says under which assumption. The fencing token is the czxid of the holder's node
//! (the number of the transaction that made the node), which rises regardless of the clocks.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod check;
mod claim;
mod deadlines;
mod directory;
mod driver;
mod ensemble;
mod errors;
mod heartbeat;
mod info;
mod kind;
mod layout;
mod link;
mod place;
mod query_link;
mod session;
mod sessions;
mod settings;
mod tls;
mod watches;

pub use lock_core::{Client, Options, Result};
pub use settings::ZooKeeper;
#[doc(inline)]
pub use zookeeper_client;

/// Opens a client of the ensemble that `url` names, with default options.
///
/// [`ZooKeeper::from_url`] describes the URL.
///
/// # Errors
///
/// As [`ZooKeeper::from_url`] and [`ZooKeeper::open`].
///
/// # Cancel safety
///
/// As [`ZooKeeper::open`].
pub async fn connect(url: &str) -> Result<Client> {
    connect_with(url, Options::default()).await
}

/// Opens a client of the ensemble that `url` names, with these options.
///
/// A patience in the URL takes precedence over one in the options.
///
/// # Errors
///
/// As [`ZooKeeper::from_url`] and [`ZooKeeper::open`].
///
/// # Cancel safety
///
/// As [`ZooKeeper::open`].
pub async fn connect_with(url: &str, options: Options) -> Result<Client> {
    ZooKeeper::from_url(url)?.open(options).await
}

/// Compiles the code of this crate's README together with the documentation's examples.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
