//! The server counts the requests that it has received.

use mongodb::bson::{Document, doc};
use redis::aio::MultiplexedConnection;
use sqlx::mysql::MySqlConnection;
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, ConnectOptions, Row};

use crate::Outcome;
use crate::backend::Backend;
use crate::raw;

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
    /// Begins to count the requests to the server, if that counts them.
    pub(crate) async fn of(backend: Backend, url: &str) -> Outcome<Counter> {
        Ok(match backend {
            Backend::Redis | Backend::Redlock => {
                Counter::Redis(raw::redis::Server::connect_to_all(url).await?)
            }
            Backend::MySql => Counter::MySql(raw::sql::mysql(url)?.connect().await?),
            Backend::Postgres => Counter::Postgres(postgres(url).await?),
            Backend::Mongo => Counter::Mongo(mongodb::Client::with_uri_str(url).await?),
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
                    all += sent_by_clients(&info);
                }
                Ok(all)
            }
            Counter::MySql(connection) => {
                let row = sqlx::query("SHOW GLOBAL STATUS LIKE 'Questions'").fetch_one(connection).await?;
                Ok(row.try_get::<String, _>(1)?.parse()?)
            }
            Counter::Postgres(connection) => {
                let row = sqlx::query(CALLS).fetch_one(connection).await?;
                Ok(u64::try_from(row.try_get::<i64, _>(0)?)?)
            }
            Counter::Etcd(url) => raw::etcd::requests(url),
            Counter::ZooKeeper(url) => raw::zookeeper::requests(url),
            Counter::Mongo(client) => {
                let status = client.database("admin").run_command(doc! { "serverStatus": 1 }).await?;
                Ok(of_clients(&status))
            }
        }
    }

    /// Ends the counting, where it costs the server something.
    pub(crate) async fn end(self) -> Outcome<()> {
        if let Counter::Postgres(mut connection) = self {
            counts_if_started_here(&mut connection, "none").await?;
        }
        Ok(())
    }
}

/// The commands that clients of this library send to Redis. Those that its scripts call are in the server's counts, too.
const SENT: [&str; 8] =
    ["evalsha", "eval", "script|load", "subscribe", "unsubscribe", "ssubscribe", "sunsubscribe", "ping"];

/// Adds the calls of these commands up, from lines as `cmdstat_evalsha:calls=12,usec=…`.
fn sent_by_clients(info: &str) -> u64 {
    let calls = |line: &str| {
        let (command, figures) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
        let count = figures.split(',').next()?.trim();
        SENT.contains(&command).then(|| count.parse::<u64>().ok()).flatten()
    };
    info.lines().filter_map(calls).sum()
}

/// Returns how many requests clients have sent to a MongoDB, from its `serverStatus`. The members of a replica set send
/// each other commands, too: with every write, how far they have got. The requests by which a client fetches what is pushed
/// to it don't count.
fn of_clients(status: &Document) -> u64 {
    let at = |path: &[&str]| {
        let (last, folders) = path.split_last()?;
        let folder = folders.iter().try_fold(status, |folder, name| folder.get_document(name).ok())?;
        folder.get(last).and_then(as_count)
    };
    let received = |name| at(&["opcounters", name]).unwrap_or(0);
    let of_members: u64 = ["replSetUpdatePosition", "replSetHeartbeat"]
        .iter()
        .filter_map(|command| at(&["metrics", "commands", command, "total"]))
        .sum();
    (received("command") + received("query")).saturating_sub(of_members)
}

/// The setting of a PostgreSQL that this program has started, which may be told to count.
pub(crate) const STARTED_HERE: &str = "lock_bench.started_here=on";

/// The server's count of transactions comes up to ten seconds late; this one is at hand.
const CALLS: &str = "SELECT coalesce(sum(calls), 0)::bigint FROM pg_stat_statements";

/// Keeps a PostgreSQL that this program has started from counting, which costs it something, until a counter asks it to.
pub(crate) async fn rest(url: &str) -> Outcome<()> {
    counts_if_started_here(&mut raw::sql::postgres(url)?.connect().await?, "none").await
}

/// Connects to a PostgreSQL that counts statements, and lets it count if it was started by this program.
async fn postgres(url: &str) -> Outcome<PgConnection> {
    let mut connection = raw::sql::postgres(url)?.connect().await?;
    counts_if_started_here(&mut connection, "top").await?;
    match sqlx::query(CALLS).fetch_one(&mut connection).await {
        Ok(_) => Ok(connection),
        Err(error) => {
            Err(format!("pg_stat_statements, which counts statements, can't be read: {error}").into())
        }
    }
}

/// Sets which statements a PostgreSQL counts. Changes nothing on a server that this program has not started.
async fn counts_if_started_here(connection: &mut PgConnection, which: &'static str) -> Outcome<()> {
    let setting = "SELECT coalesce(current_setting('lock_bench.started_here', true), 'off')";
    let started_here: String = sqlx::query(setting).fetch_one(&mut *connection).await?.try_get(0)?;
    if started_here == "on" {
        let set = format!("ALTER SYSTEM SET pg_stat_statements.track = '{which}'");
        for statement in
            ["CREATE EXTENSION IF NOT EXISTS pg_stat_statements", &set, "SELECT pg_reload_conf()"]
        {
            sqlx::query(AssertSqlSafe(statement)).execute(&mut *connection).await?;
        }
    }
    Ok(())
}

fn as_count(value: &mongodb::bson::Bson) -> Option<u64> {
    let count = value.as_i64().or_else(|| value.as_i32().map(i64::from))?;
    u64::try_from(count).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_between_members_of_a_set_are_no_requests() {
        let status = doc! {
            "opcounters": { "command": 100_i64, "query": 20_i64 },
            "metrics": {
                "commands": { "replSetUpdatePosition": { "total": 30_i64 }, "replSetHeartbeat": { "total": 4_i64 } },
            },
        };
        assert_eq!(of_clients(&status), 86);
        let alone = doc! { "opcounters": { "command": 7_i64, "query": 1_i64 } };
        assert_eq!(of_clients(&alone), 8);
    }

    #[test]
    fn what_a_script_calls_is_no_request() {
        let info = "# Commandstats\r\ncmdstat_evalsha:calls=12,usec=90,usec_per_call=7.50\r\n\
                    cmdstat_set:calls=5,usec=9,usec_per_call=1.80\r\ncmdstat_script|load:calls=2,usec=1\r\n\
                    cmdstat_subscribe:calls=3,usec=4,rejected_calls=0\r\n";
        assert_eq!(sent_by_clients(info), 17);
        assert_eq!(sent_by_clients(""), 0);
    }
}
