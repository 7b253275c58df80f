//! Locks on ZooKeeper (3.5 or later): one server, or an ensemble.
//!
//! Each lock is a directory in Curator's layout: the lock `invoices` in the folder `/app` is the one of
//! `new InterProcessMutex(client, "/app/invoices")`. Who asks for it has an ephemeral node there, and the first one holds
//! it. All locks of a client that ask for the same ttl share a session with that timeout.
//!
//! ```no_run
//! # async fn example() -> lock_core::Result<()> {
//! let client = lock_zk::connect("zk://zk1,zk2,zk3/app?prefix=billing-").await?;
//! let lock = client.lock("invoices").build()?;
//! if let Some(guard) = lock.try_acquire().await? {
//!     // … with guard.token() …
//!     if guard.release().await == lock_core::Ending::Expired {
//!         // … the work took longer than the session could be kept …
//!     }
//! }
//! # Ok(()) }
//! ```
//!
//! Until when a lock is certain is counted from heartbeats that a quorum has acknowledged, and less than the server would
//! give: [`Client::info`] says under which assumption. The token is the lock's zxid, which rises whatever the clocks do.

mod check;
mod claim;
mod deadlines;
mod directory;
mod driver;
mod errors;
mod eye;
#[doc(hidden)]
pub mod floor;
mod heartbeat;
mod info;
mod kind;
mod layout;
mod link;
mod place;
mod session;
mod settings;
mod tls;
mod watches;

pub use lock_core::{Client, Options, Result};
pub use settings::ZooKeeper;
#[doc(inline)]
pub use zookeeper_client;

/// Opens a client of the ensemble that `url` names, with everything by default. See [`ZooKeeper::from_url`] for URLs, and
/// [`ZooKeeper::open`] for errors.
pub async fn connect(url: &str) -> Result<Client> {
    connect_with(url, Options::default()).await
}

/// Opens a client of the ensemble that `url` names. A patience in the URL comes before one in the options.
pub async fn connect_with(url: &str, options: Options) -> Result<Client> {
    ZooKeeper::from_url(url)?.open(options).await
}
