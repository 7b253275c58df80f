//! PostgreSQL: a table of locks in a database that is there already or in one of its own.

mod check;
mod dialect;
mod elsewhere;
mod errors;
mod feed;
mod fence;
#[doc(hidden)]
pub mod floor;
mod info;
mod payload;
mod schema;
mod session;
mod settings;
mod standbys;
mod statement;
mod statements;
mod table;
mod wakes;

pub use crate::fence::FenceError;
pub use fence::Fence;
pub use settings::Postgres;

use lock_core::{Client, Options, Result};

/// Opens a client of the server that `url` names, with everything by default. See [`Postgres::from_url`] for URLs, and
/// [`Postgres::open`] for errors.
pub async fn connect(url: &str) -> Result<Client> {
    connect_with(url, Options::default()).await
}

/// Opens a client of the server that `url` names. A patience in the URL comes before one in the options.
pub async fn connect_with(url: &str, options: Options) -> Result<Client> {
    Postgres::from_url(url)?.open(options).await
}
