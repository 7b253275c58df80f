//! SQLite: a table of locks in a file on a local disk, shared by the processes of one machine.

mod beside;
mod call_queue;
mod check;
mod connections;
mod errors;
mod fence;
mod file;
mod filesystem;
mod identity;
mod in_use;
mod info;
mod log;
#[cfg(target_os = "linux")]
mod mounts;
mod renewals;
mod schema;
mod serial_connection;
mod settings;
mod sweep;
mod table;
mod takeover;
mod time;
mod wakes;

pub use crate::fence::FenceError;
pub use fence::Fence;
pub use settings::Sqlite;

use lock_core::{Client, Options, Result};

/// Opens a client of the file that `url` names, with the default options.
///
/// [`Sqlite::from_url`] describes the URL.
///
/// # Errors
///
/// Those of [`Sqlite::from_url`] and of [`Sqlite::open`].
///
/// # Cancel safety
///
/// As for [`Sqlite::open`].
pub async fn connect(url: &str) -> Result<Client> {
    connect_with(url, Options::default()).await
}

/// Opens a client of the file that `url` names, with these options.
///
/// A patience in the URL takes precedence over one in the options. [`Sqlite::from_url`] describes the URL.
///
/// # Errors
///
/// Those of [`Sqlite::from_url`] and of [`Sqlite::open`].
///
/// # Cancel safety
///
/// As for [`Sqlite::open`].
pub async fn connect_with(url: &str, options: Options) -> Result<Client> {
    Sqlite::from_url(url)?.open(options).await
}
