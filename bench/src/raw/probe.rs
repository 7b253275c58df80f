//! The cheapest request of each raw driver: a round trip to the server in which it does next to nothing.

use etcd_client::GetOptions;
use futures_util::future::try_join_all;
use mongodb::bson::doc;
use redis::aio::MultiplexedConnection;
use sqlx::mysql::MySqlConnection;
use sqlx::postgres::PgConnection;
use sqlx::sqlite::SqliteConnection;
use sqlx::{ConnectOptions, Connection};

use super::redis::send;
use crate::Outcome;
use crate::backend::Backend;

/// An open connection of a raw driver.
pub(crate) enum Probe {
    Sqlite(SqliteConnection),
    /// One server, or several that are asked at once.
    Redis(Vec<MultiplexedConnection>),
    MySql(MySqlConnection),
    Postgres(PgConnection),
    Mongo(mongodb::Client),
    Etcd(Box<etcd_client::Client>),
    ZooKeeper(zookeeper_client::Client),
}

impl Probe {
    /// Connects. Drivers that connect with their first request have sent one then.
    pub(crate) async fn connect(backend: Backend, url: &str) -> Outcome<Probe> {
        let mut probe = match backend {
            Backend::Memory => return Err("memory has no driver".into()),
            Backend::Sqlite => Probe::Sqlite(super::sqlite::options(url)?.connect().await?),
            Backend::Redis | Backend::Redlock => {
                Probe::Redis(super::redis::Server::connect_to_all(url).await?)
            }
            Backend::MySql => Probe::MySql(super::mysql::connect(url).await?),
            Backend::Postgres => Probe::Postgres(super::postgres::connect(url).await?),
            Backend::Mongo => Probe::Mongo(super::mongo::connect(url).await?),
            Backend::Etcd => Probe::Etcd(Box::new(super::etcd::connect(url).await?)),
            Backend::ZooKeeper => Probe::ZooKeeper(super::zookeeper::connect(url).await?),
        };
        if let Probe::Mongo(_) | Probe::Etcd(_) = probe {
            probe.ask().await?;
        }
        Ok(probe)
    }

    /// Sends the request, and waits for the answer.
    pub(crate) async fn ask(&mut self) -> Outcome<()> {
        match self {
            Probe::Sqlite(connection) => connection.ping().await?,
            Probe::Redis(connections) => {
                let ping = redis::cmd("PING");
                try_join_all(connections.iter_mut().map(|connection| send(connection, &ping))).await?;
            }
            Probe::MySql(connection) => connection.ping().await?,
            Probe::Postgres(connection) => connection.ping().await?,
            Probe::Mongo(client) => drop(client.database("admin").run_command(doc! { "ping": 1 }).await?),
            Probe::Etcd(client) => {
                // Read by the member that is asked, without the others.
                let own = GetOptions::new().with_serializable();
                client.kv_client().get("lock-bench", Some(own)).await?;
            }
            Probe::ZooKeeper(client) => drop(client.check_stat("/").await?),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_file_answers_and_memory_has_no_driver() {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", folder.path().join("locks.db").display());
        onelock::connect(&url).await.unwrap();
        Probe::connect(Backend::Sqlite, &url).await.unwrap().ask().await.unwrap();
        assert!(Probe::connect(Backend::Memory, "memory://").await.is_err());
    }
}
