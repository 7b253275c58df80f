//! PostgreSQL: a table of locks, in a database of its own or in one that exists already.

mod answers;
mod check;
mod dialect;
mod errors;
mod feed;
mod fence;
mod info;
mod other_tables;
mod payload;
mod renewals;
mod schema;
mod session;
mod settings;
mod standbys;
mod statement;
mod statements;
mod sweep;
mod table;
mod takeover;
mod wakes;

pub use crate::fence::FenceError;
pub use fence::Fence;
pub use settings::Postgres;

use lock_core::{Client, Options, Result};

/// Opens a client of the server that `url` names, with the default options.
///
/// [`Postgres::from_url`] describes the URL.
///
/// # Errors
///
/// Those of [`Postgres::from_url`] and of [`Postgres::open`].
///
/// # Cancel safety
///
/// As for [`Postgres::open`].
pub async fn connect(url: &str) -> Result<Client> {
    connect_with(url, Options::default()).await
}

/// Opens a client of the server that `url` names, with these options.
///
/// A patience in the URL takes precedence over one in the options. [`Postgres::from_url`] describes the URL.
///
/// # Errors
///
/// Those of [`Postgres::from_url`] and of [`Postgres::open`].
///
/// # Cancel safety
///
/// As for [`Postgres::open`].
pub async fn connect_with(url: &str, options: Options) -> Result<Client> {
    Postgres::from_url(url)?.open(options).await
}
