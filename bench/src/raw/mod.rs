//! The raw drivers, connected with the settings that our backends connect with.

pub(crate) mod etcd;
pub(crate) mod mongo;
pub(crate) mod mysql;
pub(crate) mod postgres;
pub(crate) mod redis;
pub(crate) mod sqlite;
pub(crate) mod zookeeper;

use lock_core::toolkit::Location;

use crate::Outcome;

/// Returns how many connections the library opens on a SQL server.
pub(crate) fn connections_of(url: &str) -> Outcome<usize> {
    Ok(Location::parse(url)?.take("connections").map_or(Ok(8), |n| n.parse())?)
}
