//! The kind of server to which a URL leads.

use lock_core::toolkit::Location;
use serde::{Deserialize, Serialize};

use crate::Outcome;

/// A kind of server, as the report has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Backend {
    Memory,
    Sqlite,
    Redis,
    /// Several Redis servers.
    Redlock,
    /// MySQL and MariaDB.
    MySql,
    Postgres,
    #[serde(rename = "mongodb")]
    Mongo,
    Etcd,
    ZooKeeper,
}

impl Backend {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Backend::Memory => "memory",
            Backend::Sqlite => "sqlite",
            Backend::Redis => "redis",
            Backend::Redlock => "redlock",
            Backend::MySql => "mysql",
            Backend::Postgres => "postgres",
            Backend::Mongo => "mongodb",
            Backend::Etcd => "etcd",
            Backend::ZooKeeper => "zookeeper",
        }
    }

    pub(crate) fn of(url: &str) -> Outcome<Backend> {
        Ok(match Location::parse(url)?.scheme() {
            "memory" | "memory+queue" | "memory+register" => Backend::Memory,
            "sqlite" => Backend::Sqlite,
            "redlock" | "redlocks" => Backend::Redlock,
            "mysql" | "mariadb" => Backend::MySql,
            "postgres" | "postgresql" => Backend::Postgres,
            "mongodb" | "mongodb+srv" => Backend::Mongo,
            "etcd" | "etcds" => Backend::Etcd,
            "zk" | "zks" => Backend::ZooKeeper,
            "redis" | "rediss" | "redis+unix" | "unix" | "valkey" | "valkeys" | "valkey+unix" => {
                Backend::Redis
            }
            _ => return Err("no backend that is measured here has the scheme of this URL".into()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scheme_says_it() {
        let of = |url| Backend::of(url).ok();
        assert_eq!(of("sqlite:a.db"), Some(Backend::Sqlite));
        assert_eq!(of("mariadb://h/d?table=t"), Some(Backend::MySql));
        assert_eq!(of("memory+queue://"), Some(Backend::Memory));
        assert_eq!((of("http://h"), of("h:6379")), (None, None));
    }
}
