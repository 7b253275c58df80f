//! How many requests a server has received, by its own count.

use mongodb::bson::{Document, doc};
use redis::aio::MultiplexedConnection;
use sqlx::Row;
use sqlx::mysql::MySqlConnection;
use sqlx::postgres::PgConnection;

use crate::Outcome;
use crate::backend::Backend;
use crate::raw;

/// A connection on which a server is asked for its count.
pub(crate) enum Counter {
    /// One server, or several of which a majority decides.
    Redis(Vec<MultiplexedConnection>),
    MySql(MySqlConnection),
    Postgres(PgConnection),
    Mongo(mongodb::Client),
    /// The URL: the count is read over a connection of its own each time.
    Etcd(String),
    ZooKeeper(String),
}

impl Counter {
    pub(crate) async fn of(backend: Backend, url: &str) -> Outcome<Counter> {
        Ok(match backend {
            Backend::Redis => Counter::Redis(vec![raw::redis::Server::at(url)?.connect().await?]),
            Backend::Redlock => {
                let mut connections = Vec::new();
                for server in raw::redis::Server::all_of(url)? {
                    connections.push(server.connect().await?);
                }
                Counter::Redis(connections)
            }
            Backend::MySql => Counter::MySql(raw::mysql::connect(url).await?),
            Backend::Postgres => Counter::Postgres(raw::postgres::connect(url).await?),
            Backend::Mongo => Counter::Mongo(raw::mongo::connect(url).await?),
            Backend::Etcd => Counter::Etcd(url.to_owned()),
            Backend::ZooKeeper => Counter::ZooKeeper(url.to_owned()),
            Backend::Memory | Backend::Sqlite => return Err("only a server counts its requests".into()),
        })
    }

    /// Returns the number of requests since the server's start; this one may be among them.
    pub(crate) async fn read(&mut self) -> Outcome<u64> {
        match self {
            Counter::Redis(connections) => {
                let mut all = 0;
                for connection in connections {
                    let info: String = redis::cmd("INFO").arg("commandstats").query_async(connection).await?;
                    all += sent_by_the_library(&info);
                }
                Ok(all)
            }
            Counter::MySql(connection) => {
                let row = sqlx::query("SHOW GLOBAL STATUS LIKE 'Questions'").fetch_one(connection).await?;
                Ok(row.try_get::<String, _>(1)?.parse()?)
            }
            Counter::Postgres(connection) => {
                // Each statement of the library is a transaction.
                let sum = "SELECT sum(xact_commit + xact_rollback)::bigint FROM pg_stat_database";
                let row = sqlx::query(sum).fetch_one(connection).await?;
                Ok(u64::try_from(row.try_get::<i64, _>(0)?)?)
            }
            Counter::Etcd(url) => raw::etcd::requests(url),
            Counter::ZooKeeper(url) => raw::zookeeper::requests(url),
            Counter::Mongo(client) => {
                let status = client.database("admin").run_command(doc! { "serverStatus": 1 }).await?;
                let counters: &Document = status.get_document("opcounters")?;
                let of = |name: &str| counters.get(name).and_then(as_count).unwrap_or(0);
                Ok(["command", "query", "getmore"].into_iter().map(of).sum())
            }
        }
    }
}

/// Returns how many requests of the library a Redis server has received, by the statistics of its commands. The server's
/// count of all commands would have those that scripts run, too.
fn sent_by_the_library(commandstats: &str) -> u64 {
    const SENT: [&str; 4] = ["evalsha", "eval", "subscribe", "unsubscribe"];
    let calls = |line: &str| {
        let (command, figures) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
        SENT.contains(&command).then(|| figures.split(',').next()?.trim().parse::<u64>().ok()).flatten()
    };
    commandstats.lines().filter_map(calls).sum()
}

fn as_count(value: &mongodb::bson::Bson) -> Option<u64> {
    let count = value.as_i64().or_else(|| value.as_i32().map(i64::from))?;
    u64::try_from(count).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_scripts_run_is_no_request() {
        let info = "# Commandstats\r\ncmdstat_get:calls=900,usec=1\r\ncmdstat_evalsha:calls=12,usec=345,rejected_calls=0\r\n\
                    cmdstat_pttl:calls=7,usec=3\r\ncmdstat_subscribe:calls=3,usec=9\r\ncmdstat_client|setname:calls=5,usec=1\r\n";
        assert_eq!(sent_by_the_library(info), 15);
        assert_eq!(sent_by_the_library(""), 0);
    }
}
