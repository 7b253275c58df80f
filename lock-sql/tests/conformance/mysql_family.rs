//! Runs the conformance suite on MySQL or MariaDB.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lock_conformance::harness::{
    Age, Busy, Count, Forget, Identity, Interrupt, KeepBusy, Promise, Residue, Rises, ToldTime,
};
use lock_conformance::{Abilities, Counters, Facts, Missing, Verdict};
use lock_core::driver::{Fair, Lease};
use lock_core::{Client, Name, Options, Result};
use lock_sql::mysql::MySql;
use lock_test_servers::{self as servers, Backend, Product, Server, run_on_server};
use sqlx::mysql::{MySqlConnectOptions, MySqlConnection};
use sqlx::{AssertSqlSafe, ConnectOptions, Executor, Row};

use crate::statements;

pub(crate) fn main(product: &'static servers::MySql) -> Verdict {
    statements::count();
    run_on_server(Tested(product))
}

#[derive(Debug)]
struct Tested(&'static servers::MySql);

#[async_trait]
impl Backend for Tested {
    fn product(&self) -> &'static dyn Product {
        self.0
    }

    fn facts(&self) -> Facts {
        // docs/semantics.md has the hour: how far the clock may be set back.
        let rises = Rises::WhileDataIsKept { clock_step: Duration::from_secs(3600) };
        let identity = Identity::NotPromised;
        let replaced = "another replaces it after 30 s; a unit test covers the age of the clock's estimate";
        Facts {
            // A new name takes three round trips and two commits on the disk.
            ttl: Duration::from_millis(600),
            idle_connection: Err(Missing::because(replaced)),
            told_time: Ok(ToldTime),
            ..Facts::promising([Promise { lease: Lease::Lock, fair: Fair::No, rises, identity }])
        }
    }

    /// Opens a client whose statements are reported to `statements`, which is sqlx' default.
    async fn open(&self, url: &str, options: Options) -> Result<Client> {
        MySql::from(options_of(url)).open(options).await
    }

    fn address(&self, url: &str) -> Result<String, Missing> {
        let options = options_of(url);
        match options.get_socket() {
            Some(_) => Err(Missing::because("not by TCP: no proxy can be put in between")),
            None => Ok(format!("{}:{}", options.get_host(), options.get_port())),
        }
    }

    async fn open_through(&self, url: &str, address: SocketAddr, options: Options) -> Result<Client> {
        let through = options_of(url).host(&address.ip().to_string()).port(address.port());
        MySql::from(through.ssl_mode(sqlx::mysql::MySqlSslMode::Disabled)).open(options).await
    }

    fn abilities(&self, server: &Server, abilities: Abilities) -> Abilities {
        let admin = Arc::new(Admin { url: server.url().to_owned() });
        Abilities {
            age: server.started_here().and(Ok(admin.clone())),
            keep_busy: Ok(admin.clone()),
            ..abilities.with_admin(&admin)
        }
    }
}

/// The suite's access to a server past the backend.
#[derive(Debug)]
struct Admin {
    url: String,
}

#[async_trait]
impl Forget for Admin {
    async fn forget(&self, name: &Name) {
        let forget = "UPDATE onelock_locks SET owner = '', expires = 0 WHERE name = ? AND owner <> ''";
        let forget = sqlx::query(forget).bind(name.as_str().as_bytes());
        let forgot = forget.execute(&mut admin(&self.url).await).await.expect("UPDATE");
        assert_eq!(forgot.rows_affected(), 1, "{name} was held");
    }
}

#[async_trait]
impl Count for Admin {
    /// Counts statements as sqlx reports them, and rows as the server counts them.
    async fn counters(&self) -> Counters {
        let mut admin = admin(&self.url).await;
        let version: String = admin.fetch_one("SELECT version()").await.expect("SELECT").get(0);
        // MariaDB no longer has InnoDB's counters, and counts rows of temporary tables separately. MySQL has InnoDB's
        // counters, and includes its answer to this question in its handler counters.
        let changed = match version.contains("MariaDB") {
            true => {
                "SHOW GLOBAL STATUS WHERE Variable_name IN
                ('Handler_write', 'Handler_update', 'Handler_delete')"
            }
            false => {
                "SHOW GLOBAL STATUS WHERE Variable_name IN
                ('Innodb_rows_inserted', 'Innodb_rows_updated', 'Innodb_rows_deleted')"
            }
        };
        let rows = admin.fetch_all(changed).await.expect("SHOW STATUS");
        assert_eq!(rows.len(), 3, "the server counts all three: {version}");
        let count = |row: &sqlx::mysql::MySqlRow| row.get::<String, _>(1).parse::<u64>().expect("a number");
        Counters { requests: statements::counted().requests, writes: rows.iter().map(count).sum() }
    }
}

#[async_trait]
impl Residue for Admin {
    async fn residue(&self) -> u64 {
        let held = "SELECT count(*) FROM onelock_locks WHERE owner <> ''";
        let count: i64 =
            sqlx::query_scalar(held).fetch_one(&mut admin(&self.url).await).await.expect("SELECT");
        count.unsigned_abs()
    }
}

#[async_trait]
impl Age for Admin {
    async fn kept(&self) -> u64 {
        let rows = sqlx::query_scalar("SELECT count(*) FROM onelock_locks");
        let count: i64 = rows.fetch_one(&mut admin(&self.url).await).await.expect("SELECT");
        count.unsigned_abs()
    }

    /// Makes the rows of free locks older, by their tokens.
    async fn age(&self, by: Duration) {
        let age = "UPDATE onelock_locks SET token = greatest(1, token - ?) WHERE owner = ''";
        let by = i64::try_from(by.as_micros()).expect("days");
        sqlx::query(age).bind(by).execute(&mut admin(&self.url).await).await.expect("UPDATE");
    }
}

#[async_trait]
impl Interrupt for Admin {
    async fn interrupt(&self) {
        let mut admin = admin(&self.url).await;
        let others = "SELECT CAST(id AS SIGNED) FROM information_schema.processlist
            WHERE id <> CONNECTION_ID() AND user = SUBSTRING_INDEX(CURRENT_USER(), '@', 1)";
        let others: Vec<i64> = sqlx::query_scalar(others).fetch_all(&mut admin).await.expect("SELECT");
        for id in others {
            // It may have ended by itself.
            admin.execute(AssertSqlSafe(format!("KILL {id}"))).await.ok();
        }
    }
}

#[async_trait]
impl KeepBusy for Admin {
    async fn keep_busy(&self, names: &[Name]) -> Box<dyn Busy> {
        let mut admin = admin(&self.url).await;
        // It locks no gap between rows, in which new names would have their rows.
        admin.execute("SET TRANSACTION ISOLATION LEVEL READ COMMITTED").await.expect("SET");
        admin.execute("BEGIN").await.expect("BEGIN");
        for name in names {
            // One by one: the server may read, and lock, the whole table for several names.
            let keep = sqlx::query("SELECT 1 FROM onelock_locks WHERE name = ? FOR UPDATE");
            let kept = keep.bind(name.as_str().as_bytes()).fetch_all(&mut admin).await.expect("SELECT");
            assert_eq!(kept.len(), 1, "{name} has a row");
        }
        Box::new(Transaction(admin))
    }
}

/// An open transaction.
#[derive(Debug)]
struct Transaction(MySqlConnection);

#[async_trait]
impl Busy for Transaction {
    async fn end(mut self: Box<Self>) {
        self.0.execute("ROLLBACK").await.expect("ROLLBACK");
    }
}

async fn admin(url: &str) -> MySqlConnection {
    options_of(url).disable_statement_logging().connect().await.expect("up")
}

fn options_of(url: &str) -> MySqlConnectOptions {
    url.parse().expect("a URL that was used before")
}
