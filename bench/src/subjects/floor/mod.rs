//! The raw driver, sending what the library sends and doing nothing else.

mod connections;
mod mongo;
mod mysql;
pub(super) mod postgres;
mod raw;
mod redis;
mod sqlite;

use crate::Outcome;
use crate::backend::Backend;
use crate::subjects::Subject;

/// The floor of the server at `url`.
pub(super) async fn connect(url: &str) -> Outcome<Box<dyn Subject>> {
    Ok(match Backend::of(url)? {
        Backend::Redis => Box::new(redis::Floor::connect(url).await?),
        Backend::Sqlite => Box::new(sqlite::Floor::connect(url).await?),
        Backend::Postgres => Box::new(postgres::Floor::connect(url, postgres::Notifies::WhoWaits).await?),
        Backend::MySql => Box::new(mysql::Floor::connect(url).await?),
        Backend::Mongo => Box::new(mongo::Floor::connect(url).await?),
        Backend::Memory => return Err("memory has no driver, and no floor".into()),
    })
}
