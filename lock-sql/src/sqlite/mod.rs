//! SQLite: a file on a local disk, shared by the processes of one machine.

mod check;
mod errors;
mod fence;
mod file;
mod filesystem;
mod identity;
mod info;
mod lane;
mod log;
#[cfg(target_os = "linux")]
mod mounts;
mod schema;
mod settings;
mod siblings;
mod sweep;
mod table;
mod time;
mod wakes;

pub use crate::fence::FenceError;
pub use fence::Fence;
pub use settings::Sqlite;

use lock_core::{Client, Options, Result};

/// The very statements, for the benchmark's floor. Not for users: they change with the table.
#[doc(hidden)]
pub mod floor {
    pub use super::table::{LOOK, RELEASE, TAKE};
}

/// Opens a client of the file that `url` names, with everything by default. See [`Sqlite::from_url`] for URLs, and
/// [`Sqlite::open`] for errors.
pub async fn connect(url: &str) -> Result<Client> {
    connect_with(url, Options::default()).await
}

/// Opens a client of the file that `url` names. A patience in the URL comes before one in the options.
pub async fn connect_with(url: &str, options: Options) -> Result<Client> {
    Sqlite::from_url(url)?.open(options).await
}
