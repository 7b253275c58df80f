//! MySQL and MariaDB.

mod check;
mod errors;
mod facts;
mod fence;
mod info;
mod renewals;
mod schema;
mod server;
mod settings;
mod statements;
mod sweep;
mod table;
mod takeover;
mod waiter;

pub use fence::Fence;
pub use settings::MySql;

use lock_core::{Client, Options, Result};

pub use crate::fence::FenceError;

/// Opens a client of the server that `url` names, with the default options.
///
/// [`MySql::from_url`] describes the URL.
///
/// # Errors
///
/// Those of [`MySql::from_url`] and of [`MySql::open`].
///
/// # Cancel safety
///
/// As for [`MySql::open`].
pub async fn connect(url: &str) -> Result<Client> {
    connect_with(url, Options::default()).await
}

/// Opens a client of the server that `url` names, with these options.
///
/// A patience in the URL takes precedence over one in the options. [`MySql::from_url`] describes the URL.
///
/// # Errors
///
/// Those of [`MySql::from_url`] and of [`MySql::open`].
///
/// # Cancel safety
///
/// As for [`MySql::open`].
pub async fn connect_with(url: &str, options: Options) -> Result<Client> {
    MySql::from_url(url)?.open(options).await
}
