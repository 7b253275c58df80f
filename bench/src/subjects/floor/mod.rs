//! The raw driver, sending what the library sends and doing nothing else.

mod connections;
mod etcd;
mod mongo;
mod mysql;
pub(super) mod postgres;
mod raw;
mod redis;
pub(super) mod redlock;
mod sqlite;
mod zookeeper;

use crate::Outcome;
use crate::backend::Backend;
use crate::subjects::Subject;

/// Connects the floor of the server at `url`.
pub(super) async fn connect(url: &str) -> Outcome<Box<dyn Subject>> {
    Ok(match Backend::of(url)? {
        Backend::Redis => Box::new(redis::Floor::connect(url).await?),
        Backend::Redlock => Box::new(redlock::Floor::connect(url, redlock::Rounds::Two).await?),
        Backend::Sqlite => Box::new(sqlite::Floor::connect(url).await?),
        Backend::Postgres => Box::new(postgres::Floor::connect(url, postgres::Notifies::IfWaiters).await?),
        Backend::MySql => Box::new(mysql::Floor::connect(url).await?),
        Backend::Mongo => Box::new(mongo::Floor::connect(url).await?),
        Backend::Etcd => Box::new(etcd::Floor::connect(url).await?),
        Backend::ZooKeeper => Box::new(zookeeper::Floor::connect(url).await?),
        Backend::Memory => return Err("memory has no driver, and no floor".into()),
    })
}
