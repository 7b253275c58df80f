//! Locks in a table of a SQLite file, of a MySQL or MariaDB database, or of a PostgreSQL database.
//!
//! Each backend is a module with a feature of its name:
//!
//! - `sqlite` (on by default): a file on a local disk, shared by the processes of one machine.
//! - `mysql`: a MySQL or MariaDB server.
//! - `postgres`: a PostgreSQL server.
//!
//! Each lock is a row of the table `onelock_locks`, which is created on first use. The file or the database may be used
//! for locks alone, or may exist already: this crate touches nothing in it but that table, and the journal mode of a
//! SQLite file.
//!
//! ```
//! # use lock_sql as onelock;
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("locks.db");
//! # let url = format!("sqlite://{}?prefix=billing:", path.display());
//! // url: sqlite:///var/lib/billing/locks.db?prefix=billing:
//! let client = onelock::sqlite::connect(&url).await?;
//! let lock = client.lock("invoices").build()?;
//! if let Some(guard) = lock.try_acquire().await? {
//!     // … with guard.token() …
//!     guard.release().await;
//! }
//! # Ok(()) }
//! ```
//!
//! [`Client::info`] and [the semantics](https://github.com/onelock/onelock/blob/main/docs/semantics.md) describe what
//! each backend promises, and under which conditions: for SQLite, for example, on which file systems.

#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
mod claim;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
mod driver;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
mod fence;
#[cfg(feature = "mysql")]
pub mod mysql;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
mod on_first_use;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
mod row;
#[cfg(any(feature = "mysql", feature = "postgres"))]
mod server;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
mod server_message;
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

/// Compiles the code of this crate's README together with the documentation's examples.
#[cfg(all(doctest, feature = "sqlite"))]
#[doc = include_str!("../README.md")]
struct Readme;
