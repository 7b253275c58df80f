//! The raw driver, sending what the library sends and doing nothing else.

mod connections;
mod etcd;
mod mongo;
mod mysql;
pub(super) mod postgres;
mod preparation;
mod raw;
mod redis;
pub(super) mod redlock;
mod sqlite;
mod zookeeper;

pub(crate) use self::preparation::{Preparation, prepare};

use self::preparation::Told;
use crate::Outcome;
use crate::backend::Backend;
use crate::subjects::{Side, Subject};

/// Connects the floor of the server at `url`.
pub(super) async fn connect(url: &str) -> Outcome<Box<dyn Subject>> {
    Ok(match Backend::of(url)? {
        Backend::Redis => Box::new(redis::Floor::connect(url).await?),
        Backend::Redlock => Box::new(redlock::Floor::connect(url, redlock::Enough::EqualTokens).await?),
        Backend::Sqlite => Box::new(sqlite::Floor::connect(url).await?),
        Backend::Postgres => Box::new(postgres::Floor::connect(url, postgres::Notifies::IfWaiters).await?),
        Backend::MySql => Box::new(mysql::Floor::connect(url).await?),
        Backend::Mongo => Box::new(mongo::Floor::connect(url).await?),
        Backend::Etcd => Box::new(etcd::Floor::connect(url).await?),
        Backend::ZooKeeper => Box::new(zookeeper::Floor::connect(url).await?),
        Backend::Memory => return Err("memory has no driver, and no floor".into()),
    })
}

/// Connects the raw driver for one name that was [prepared](prepare), in this or in another process, and is free. It has
/// as few connections as the driver needs, and sends nothing of which the server needs it only once.
pub(crate) async fn alone(url: &str, name: &str, told: &str) -> Outcome<Box<dyn Side>> {
    match Backend::of(url)? {
        Backend::Redis => redis::alone(url, &Told::parse(told)?).await,
        Backend::Redlock => redlock::alone(url, &Told::parse(told)?).await,
        Backend::Sqlite => sqlite::alone(url, name).await,
        Backend::Postgres => postgres::alone(url, name).await,
        Backend::MySql => mysql::alone(url, name).await,
        Backend::Mongo => mongo::alone(url, name).await,
        Backend::Etcd => etcd::alone(url, name).await,
        Backend::ZooKeeper => zookeeper::alone(url, name).await,
        Backend::Memory => Err("memory has no driver, and no floor".into()),
    }
}
