//! Runs the conformance suite on PostgreSQL.

mod statements;

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
use lock_sql::postgres::Postgres;
use lock_test_servers::{self as servers, Backend, Persistence, Product, Server, Settings, run_on_server};
use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{ConnectOptions, Executor};

fn main() -> Verdict {
    statements::count();
    run_on_server(Tested)
}

#[derive(Debug)]
struct Tested;

#[async_trait]
impl Backend for Tested {
    fn product(&self) -> &'static dyn Product {
        &servers::Postgres::Installed
    }

    /// The server keeps nothing on the disk, because that would only cost time.
    fn settings(&self) -> Settings {
        Settings { persistence: Persistence::None, ..Settings::default() }
    }

    fn facts(&self) -> Facts {
        // docs/semantics.md has the hour: how far the clock may be set back.
        let rises = Rises::WhileDataIsKept { clock_step: Duration::from_secs(3600) };
        let identity = Identity::Told;
        let replaced = "another replaces it after 30 s; a unit test covers the age of the clock's estimate";
        Facts {
            // Each connection is a process of the server, which takes time to start.
            ttl: Duration::from_millis(600),
            idle_connection: Err(Missing::because(replaced)),
            told_time: Ok(ToldTime),
            ..Facts::promising([Promise { lease: Lease::Lock, fair: Fair::No, rises, identity }])
        }
    }

    /// Opens a client whose statements are reported to `statements`, which is sqlx' default.
    async fn open(&self, url: &str, options: Options) -> Result<Client> {
        Postgres::from(options_of(url)).open(options).await
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
        Postgres::from(through).open(options).await
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
        let forget = "UPDATE onelock_locks SET owner = '', expires = 0 WHERE name = $1 AND owner <> ''";
        let forget = sqlx::query(forget).bind(name.as_str().as_bytes().to_vec());
        let forgot = forget.execute(&mut admin(&self.url).await).await.expect("UPDATE");
        assert_eq!(forgot.rows_affected(), 1, "{name} was held");
    }
}

#[async_trait]
impl Count for Admin {
    /// Each transaction that writes has a number, and the next number is known.
    async fn counters(&self) -> Counters {
        let next: i64 = sqlx::query_scalar("SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint")
            .fetch_one(&mut admin(&self.url).await)
            .await
            .expect("SELECT");
        Counters { requests: statements::counted().requests, writes: next.unsigned_abs() }
    }
}

#[async_trait]
impl Residue for Admin {
    async fn residue(&self) -> u64 {
        let held = "SELECT count(*) FROM onelock_locks WHERE octet_length(owner) > 0";
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
        let age = "UPDATE onelock_locks SET token = greatest(1, token - $1) WHERE owner = ''";
        let by = i64::try_from(by.as_micros()).expect("days");
        sqlx::query(age).bind(by).execute(&mut admin(&self.url).await).await.expect("UPDATE");
    }
}

#[async_trait]
impl Interrupt for Admin {
    async fn interrupt(&self) {
        let kill = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
            WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'";
        admin(&self.url).await.execute(kill).await.expect("pg_terminate_backend");
    }
}

#[async_trait]
impl KeepBusy for Admin {
    async fn keep_busy(&self, names: &[Name]) -> Box<dyn Busy> {
        let mut admin = admin(&self.url).await;
        admin.execute("BEGIN").await.expect("BEGIN");
        let keep = "SELECT 1 FROM onelock_locks WHERE name = ANY ($1) FOR UPDATE";
        let names: Vec<Vec<u8>> = names.iter().map(|name| name.as_str().as_bytes().to_vec()).collect();
        let count = names.len();
        let kept = sqlx::query(keep).bind(names).fetch_all(&mut admin).await.expect("SELECT");
        assert_eq!(kept.len(), count, "each name has a row");
        Box::new(Transaction(admin))
    }
}

/// An open transaction.
#[derive(Debug)]
struct Transaction(PgConnection);

#[async_trait]
impl Busy for Transaction {
    async fn end(mut self: Box<Self>) {
        self.0.execute("ROLLBACK").await.expect("ROLLBACK");
    }
}

async fn admin(url: &str) -> PgConnection {
    options_of(url).disable_statement_logging().connect().await.expect("up")
}

fn options_of(url: &str) -> PgConnectOptions {
    url.parse().expect("a URL that was used before")
}
