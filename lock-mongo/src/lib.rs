//! Locks on MongoDB (4.4 or later): a replica set, or a standalone server.
//!
//! Each lock is a document of the collection `onelock_locks`, which is made with its index on first use. Each call is
//! one `findAndModify` with an update pipeline, acknowledged by a majority of the set.
//!
//! ```no_run
//! # async fn example() -> lock_core::Result<()> {
//! let client = lock_mongo::connect("mongodb://127.0.0.1/app?replicaSet=rs0&prefix=billing:").await?;
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
//! What the set, or the server, can promise is what [`Client::info`] says of it. The token tells two holders apart
//! whatever the clocks do, at a resource that checks it: [`Fence`] does.

mod check;
mod claim;
mod driver;
mod errors;
mod farewell;
mod feed;
mod fence;
#[doc(hidden)]
pub mod floor;
mod lane;
mod link;
mod primary;
mod profile;
mod record;
mod schema;
mod server;
mod settings;
mod statements;
mod wakes;

pub use fence::{Fence, FenceError};
pub use lock_core::{Client, Options, Result};
#[doc(inline)]
pub use mongodb;
pub use settings::Mongo;

/// Opens a client of the set or the server that `url` names, with everything by default. See [`Mongo::from_url`] for
/// URLs, and [`Mongo::open`] for errors.
pub async fn connect(url: &str) -> Result<Client> {
    connect_with(url, Options::default()).await
}

/// Opens a client of the set or the server that `url` names. A patience in the URL comes before one in the options.
pub async fn connect_with(url: &str, options: Options) -> Result<Client> {
    Mongo::from_url(url)?.open(options).await
}
