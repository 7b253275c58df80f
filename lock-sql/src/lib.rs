//! Locks in a SQLite file, for the processes of one machine.
//!
//! Each lock is a row of the table `onelock_locks`, which is created in the file on first use. The file may be one of
//! its own or a database that is there already: the table is all that is touched.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("locks.db");
//! # let url = format!("sqlite://{}?prefix=billing:", path.display());
//! // url: sqlite:///var/lib/billing/locks.db?prefix=billing:
//! let client = lock_sql::sqlite::connect(&url).await?;
//! let lock = client.lock("invoices").build()?;
//! if let Some(guard) = lock.try_acquire().await? {
//!     // … with guard.token() …
//!     guard.release().await;
//! }
//! # Ok(()) }
//! ```
//!
//! What it promises, and on which file systems it doesn't, stands in [`Client::info`] and in `docs/semantics.md` of
//! the repository.

#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
mod claim;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
mod driver;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
mod fence;
#[cfg(feature = "mysql")]
pub mod mysql;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod profile;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
mod row;
#[cfg(any(feature = "mysql", feature = "postgres"))]
mod server;
#[cfg(feature = "sqlite")]
pub mod sqlite;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
mod sweep;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
mod table;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
mod version;

#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
pub use fence::FenceError;
pub use lock_core::{Client, Options, Result};
#[doc(inline)]
pub use sqlx;
