//! sqlx on MySQL and MariaDB, on as many connections as the library has, with texts as the library sends them.

use std::sync::Arc;

use async_trait::async_trait;
use lock_core::Owner;
use sqlx::mysql::{MySqlConnection, MySqlQueryResult};
use sqlx::{AssertSqlSafe, ConnectOptions, Executor};

use super::{Calls, Connections, Driver, PLACE};
use crate::Outcome;
use crate::raw::sql;
use crate::subjects::TTL;

const NOW: &str = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))";

pub(super) struct Server(Arc<Connections<MySqlConnection>>);

impl Server {
    pub(super) async fn connect(url: &str) -> Outcome<Server> {
        let (options, mut connections) = (sql::mysql(url)?, Vec::new());
        for _ in 0..sql::connections(url)? {
            let mut connection = options.connect().await?;
            connection.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED").await?;
            connections.push(connection);
        }
        let server = Server(Arc::new(Connections::new(connections)));
        let columns = "name VARBINARY(255) PRIMARY KEY, owner VARBINARY(16) NOT NULL, token BIGINT NOT NULL, expires BIGINT NOT NULL";
        ask(&server.0, format!("CREATE TABLE IF NOT EXISTS {PLACE} ({columns})")).await?;
        Ok(server)
    }
}

#[async_trait]
impl Driver for Server {
    type Calls = Named;

    /// Makes a row for the name, as the library does.
    async fn named(&self, name: &str) -> Outcome<Named> {
        let name = hex(name.as_bytes());
        ask(&self.0, format!("INSERT IGNORE INTO {PLACE} VALUES ({name}, x'', 0, 0)")).await?;
        Ok(Named { connections: self.0.clone(), name })
    }
}

async fn ask(connections: &Connections<MySqlConnection>, text: String) -> Outcome<MySqlQueryResult> {
    let (mut connection, _permit) = connections.borrow().await;
    Ok(sqlx::raw_sql(AssertSqlSafe(text)).execute(&mut *connection).await?)
}

fn hex(bytes: &[u8]) -> String {
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("x'{digits}'")
}

pub(super) struct Named {
    connections: Arc<Connections<MySqlConnection>>,
    name: String,
}

#[async_trait]
impl Calls for Named {
    async fn take(&mut self, owner: &Owner) -> Outcome<bool> {
        let (name, owner, ttl) = (&self.name, hex(owner.as_bytes()), TTL.as_micros());
        let take = format!(
            "UPDATE {PLACE} SET token = LAST_INSERT_ID(token + 1), owner = {owner}, expires = {NOW} + {ttl} \
             WHERE name = {name} AND expires <= {NOW}"
        );
        Ok(ask(&self.connections, take).await?.last_insert_id() != 0)
    }

    async fn release(&mut self, owner: &Owner) -> Outcome<bool> {
        let (name, owner) = (&self.name, hex(owner.as_bytes()));
        let release =
            format!("UPDATE {PLACE} SET owner = x'', expires = 0 WHERE name = {name} AND owner = {owner}");
        Ok(ask(&self.connections, release).await?.rows_affected() == 1)
    }
}
