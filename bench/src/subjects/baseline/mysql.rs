//! sqlx on MySQL and MariaDB, on as many connections as the library has, with texts as the library sends them.

use std::sync::Arc;

use async_trait::async_trait;
use lock_core::Owner;
use sqlx::mysql::{MySqlConnection, MySqlQueryResult};
use sqlx::{AssertSqlSafe, ConnectOptions, Executor};

use super::connections::Connections;
use super::{Calls, PLACE, worker};
use crate::Outcome;
use crate::raw;
use crate::subjects::{Side, Subject, TTL, Worker};

const NOW: &str = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))";

pub(super) struct Baseline(Arc<Connections<MySqlConnection>>);

impl Baseline {
    pub(super) async fn connect(url: &str) -> Outcome<Baseline> {
        let (options, mut connections) = (raw::mysql::options(url)?, Vec::new());
        for _ in 0..raw::connections_of(url)? {
            let mut connection = options.connect().await?;
            connection.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED").await?;
            connections.push(connection);
        }
        let baseline = Baseline(Arc::new(Connections::new(connections)));
        let columns = "name VARBINARY(255) PRIMARY KEY, owner VARBINARY(16) NOT NULL, token BIGINT NOT NULL, expires BIGINT NOT NULL";
        ask(&baseline.0, format!("CREATE TABLE IF NOT EXISTS {PLACE} ({columns})")).await?;
        Ok(baseline)
    }
}

#[async_trait]
impl Subject for Baseline {
    async fn worker(&self, name: &str) -> Outcome<Box<dyn Worker>> {
        let name = hex(name.as_bytes());
        // The library keeps a row for each name, too.
        ask(&self.0, format!("INSERT IGNORE INTO {PLACE} VALUES ({name}, x'', 0, 0)")).await?;
        Ok(worker(Named { connections: self.0.clone(), name }))
    }

    async fn side(&self, _: &str) -> Outcome<Box<dyn Side>> {
        Err("the server has nothing that another process could wait for".into())
    }
}

async fn ask(connections: &Connections<MySqlConnection>, text: String) -> Outcome<MySqlQueryResult> {
    let mut connection = connections.borrow().await;
    Ok(sqlx::raw_sql(AssertSqlSafe(text)).execute(&mut *connection).await?)
}

fn hex(bytes: &[u8]) -> String {
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("x'{digits}'")
}

struct Named {
    connections: Arc<Connections<MySqlConnection>>,
    name: String,
}

#[async_trait]
impl Calls for Named {
    type Claim = String;

    fn claim(&self, owner: Owner) -> String {
        hex(owner.as_bytes())
    }

    async fn take(&self, owner: &mut String) -> Outcome<bool> {
        let (name, ttl) = (&self.name, TTL.as_micros());
        let take = format!(
            "UPDATE {PLACE} SET token = LAST_INSERT_ID(token + 1), owner = {owner}, expires = {NOW} + {ttl} \
             WHERE name = {name} AND expires <= {NOW}"
        );
        Ok(ask(&self.connections, take).await?.last_insert_id() != 0)
    }

    async fn release(&self, owner: &mut String) -> Outcome<bool> {
        let name = &self.name;
        let release =
            format!("UPDATE {PLACE} SET owner = x'', expires = 0 WHERE name = {name} AND owner = {owner}");
        Ok(ask(&self.connections, release).await?.rows_affected() == 1)
    }
}
