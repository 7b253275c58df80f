//! What a server keeps, by its own count: how many things, and how many bytes they take.

use etcd_client::GetOptions;
use futures_util::TryStreamExt;
use lock_mongo::floor;
use mongodb::bson::{Bson, doc};
use redis::aio::MultiplexedConnection;
use sqlx::mysql::MySqlConnection;
use sqlx::postgres::PgConnection;
use sqlx::sqlite::SqliteConnection;
use sqlx::{ConnectOptions, query_scalar};

use crate::Outcome;
use crate::backend::Backend;
use crate::raw;

/// A connection on which a server is asked what it keeps.
pub(crate) enum Left {
    /// A store in this process.
    Memory,
    Sqlite(SqliteConnection),
    /// One server, or several of which a majority decides.
    Redis(Vec<MultiplexedConnection>),
    MySql(MySqlConnection),
    Postgres(PgConnection),
    Mongo(mongodb::Client),
    /// The URL: the server is asked over a connection of its own each time.
    Etcd(String),
    ZooKeeper(String),
}

/// What a server keeps. A figure that it does not tell, or not to this user, is missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Kept {
    /// Keys, rows, documents or nodes.
    pub(crate) things: Option<u64>,
    pub(crate) bytes: Option<u64>,
}

impl Left {
    pub(crate) async fn of(backend: Backend, url: &str) -> Outcome<Left> {
        Ok(match backend {
            Backend::Memory => Left::Memory,
            Backend::Sqlite => Left::Sqlite(raw::sqlite::options(url)?.connect().await?),
            Backend::Redis | Backend::Redlock => Left::Redis(raw::redis::Server::connect_to_all(url).await?),
            Backend::MySql => Left::MySql(raw::mysql::connect(url).await?),
            Backend::Postgres => Left::Postgres(raw::postgres::connect(url).await?),
            Backend::Mongo => Left::Mongo(raw::mongo::connect(url).await?),
            Backend::Etcd => Left::Etcd(url.to_owned()),
            Backend::ZooKeeper => Left::ZooKeeper(url.to_owned()),
        })
    }

    /// Returns what the server keeps now. Of several servers, what all of them keep together.
    pub(crate) async fn read(&mut self) -> Kept {
        match self {
            Left::Memory => Kept::default(),
            Left::Sqlite(connection) => Kept {
                things: answered(query_scalar(ROWS).fetch_one(&mut *connection)).await,
                bytes: answered(query_scalar(PAGES).fetch_one(&mut *connection)).await,
            },
            Left::Redis(connections) => of_redis(connections).await,
            // The server's figure of the table's size is a day old.
            Left::MySql(connection) => {
                Kept { things: answered(query_scalar(ROWS).fetch_one(&mut *connection)).await, bytes: None }
            }
            Left::Postgres(connection) => Kept {
                things: answered(query_scalar(ROWS).fetch_one(&mut *connection)).await,
                bytes: answered(query_scalar(RELATION).fetch_one(&mut *connection)).await,
            },
            Left::Mongo(client) => of_mongo(client).await,
            Left::Etcd(url) => of_etcd(url).await,
            Left::ZooKeeper(url) => of_zookeeper(url),
        }
    }
}

/// Counts the rows of the table that the library makes unless its URL names another one.
const ROWS: &str = "SELECT count(*) FROM onelock_locks";
/// The bytes of a SQLite file.
const PAGES: &str = "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size";
/// The bytes of the table on PostgreSQL, with its indexes.
const RELATION: &str = "SELECT pg_total_relation_size('onelock_locks')";

/// Returns the number that a query has answered.
async fn answered(number: impl Future<Output = sqlx::Result<i64>>) -> Option<u64> {
    u64::try_from(number.await.ok()?).ok()
}

async fn of_redis(connections: &mut [MultiplexedConnection]) -> Kept {
    let (mut things, mut bytes) = (Some(0), Some(0));
    for connection in connections {
        let keys: Option<u64> = redis::cmd("DBSIZE").query_async(connection).await.ok();
        let info: Option<String> = redis::cmd("INFO").arg("memory").query_async(connection).await.ok();
        let used = info.as_deref().and_then(|info| figure(info, "used_memory:"));
        things = things.zip(keys).map(|(sum, keys)| sum + keys);
        bytes = bytes.zip(used).map(|(sum, used)| sum + used);
    }
    Kept { things, bytes }
}

async fn of_mongo(client: &mongodb::Client) -> Kept {
    let locks = floor::locks(client);
    let statistics = async {
        let mut answers = locks.aggregate([doc! { "$collStats": { "storageStats": {} } }]).await.ok()?;
        let answer = answers.try_next().await.ok()??;
        match answer.get_document("storageStats").ok()?.get("size")? {
            Bson::Int32(size) => u64::try_from(*size).ok(),
            Bson::Int64(size) => u64::try_from(*size).ok(),
            Bson::Double(size) => Some(*size as u64),
            _ => None,
        }
    };
    Kept { things: locks.count_documents(doc! {}).await.ok(), bytes: statistics.await }
}

async fn of_etcd(url: &str) -> Kept {
    let keys = async {
        let mut client = raw::etcd::connect(url).await.ok()?;
        let all = GetOptions::new().with_all_keys().with_count_only();
        u64::try_from(client.get("", Some(all)).await.ok()?.count()).ok()
    };
    let metrics = raw::etcd::metrics(url).ok();
    // What is in use has the earlier revisions of keys, too, until they are compacted.
    let bytes = metrics.as_deref().and_then(|all| figure(all, "etcd_mvcc_db_total_size_in_use_in_bytes "));
    Kept { things: keys.await, bytes }
}

fn of_zookeeper(url: &str) -> Kept {
    let monitored = raw::zookeeper::word(url, "mntr").unwrap_or_default();
    Kept {
        things: figure(&monitored, "zk_znode_count\t"),
        bytes: figure(&monitored, "zk_approximate_data_size\t"),
    }
}

/// Returns the number that follows `name` at the beginning of a line.
fn figure(text: &str, name: &str) -> Option<u64> {
    let value = text.lines().find_map(|line| line.strip_prefix(name))?;
    // etcd writes large numbers as floating-point ones: 2.0480e+04.
    Some(value.trim().parse::<f64>().ok()? as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_found_by_their_names() {
        assert_eq!(
            figure("# Memory\r\nused_memory:1048576\r\nused_memory_human:1M\r\n", "used_memory:"),
            Some(1_048_576)
        );
        assert_eq!(figure("x_total 1\nx 2.048e+04\n", "x "), Some(20_480));
        assert_eq!(figure("zk_znode_count\t17\n", "zk_znode_count\t"), Some(17));
        assert_eq!(
            figure("mntr is not executed because it is not in the whitelist.\n", "zk_znode_count\t"),
            None
        );
    }

    #[tokio::test]
    async fn a_store_in_this_process_tells_nothing() {
        let mut left = Left::of(Backend::Memory, "memory://").await.unwrap();
        assert_eq!(left.read().await, Kept::default());
    }

    #[tokio::test]
    async fn rows_of_a_file_are_counted() {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", folder.path().join("locks.db").display());
        let client = onelock::connect(&url).await.unwrap();
        for name in ["a", "b"] {
            client.lock(name).build().unwrap().acquire().await.unwrap().release().await;
        }
        let kept = Left::of(Backend::Sqlite, &url).await.unwrap().read().await;
        assert_eq!(kept.things, Some(2));
        assert!(kept.bytes > Some(0), "{kept:?}");
    }
}
