//! A server for all tests, with a table for each test. Tests that damage their server have one of their own.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use lock_conformance::claims::{self, Terms};
pub(crate) use lock_conformance::claims::{busy, granted, succeeded};
use lock_core::driver::{Claim, Grant, Predecessor, Queueing};
use lock_core::{Client, Options};
use lock_sql::postgres;
use lock_test_servers::{self as servers, Owned, Persistence, Settings};
use sqlx::postgres::{PgConnectOptions, PgConnection, PgRow};
use sqlx::{AssertSqlSafe, ConnectOptions, Executor};

use crate::Outcome;

pub(crate) const PATIENCE: Duration = Duration::from_secs(5);
pub(crate) const TTL: Duration = Duration::from_secs(20);

/// The settings that each transaction that writes finds, as [`Site::watch_settings`] lists them.
pub(crate) const SETTINGS: &str = "on read committed 5s 1s on hex pg_catalog, pg_temp";

static SHARED: Mutex<Option<Owned>> = Mutex::new(None);

/// Returns the URL of the shared server. The first test that asks starts it, and the next one if that failed.
fn shared() -> String {
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    shared.get_or_insert_with(|| start(&[])).url().to_owned()
}

/// Starts a server for one test, with these settings.
pub(crate) fn start(settings: &[&str]) -> Owned {
    let args = settings.iter().flat_map(|setting| ["-c".to_owned(), (*setting).to_owned()]).collect();
    let settings = Settings { persistence: Persistence::None, args, ..Settings::default() };
    Owned::start(&servers::Postgres::Installed, &settings).expect("the server can be started")
}

/// Starts a server that can be restarted with its data.
pub(crate) fn start_durable() -> Owned {
    Owned::start(&servers::Postgres::Installed, &Settings::default()).expect("the server can be started")
}

/// The table of one test on a server.
#[derive(Clone)]
pub(crate) struct Site {
    url: String,
    pub(crate) table: String,
}

impl Site {
    /// Returns a table on the shared server.
    pub(crate) fn new() -> Site {
        Site::on(&shared())
    }

    pub(crate) fn on(url: &str) -> Site {
        static TABLES: AtomicU32 = AtomicU32::new(0);
        let table = format!("locks_{}", TABLES.fetch_add(1, Ordering::Relaxed));
        Site { url: url.to_owned(), table }
    }

    /// Returns the same table in a database that only this test uses, so that the test may change what belongs to the
    /// server there.
    pub(crate) async fn in_a_database_of_its_own(self) -> Site {
        let database = format!("database_of_{}", self.table);
        self.execute(&format!("CREATE DATABASE {database}")).await;
        let (server, _) = self.url.rsplit_once('/').expect("a database behind the last slash");
        Site { url: format!("{server}/{database}"), ..self }
    }

    pub(crate) fn options(&self) -> PgConnectOptions {
        self.url.parse::<PgConnectOptions>().unwrap().disable_statement_logging()
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Returns the database's URL with these parameters.
    pub(crate) fn url_with(&self, parameters: &str) -> String {
        format!("{}?{parameters}", self.url)
    }

    pub(crate) fn backend(&self) -> postgres::Postgres {
        self.backend_as(self.options())
    }

    pub(crate) fn backend_as(&self, options: PgConnectOptions) -> postgres::Postgres {
        postgres::Postgres::from(options).table(&self.table).unwrap()
    }

    pub(crate) async fn client(&self) -> Client {
        self.backend().open(Options::default()).await.unwrap()
    }

    pub(crate) async fn admin(&self) -> PgConnection {
        self.options().connect().await.unwrap()
    }

    /// Runs the statements of a test; `TABLE_` stands for its table.
    pub(crate) async fn execute(&self, sql: &str) -> u64 {
        let sql = sql.replace("TABLE_", &self.table);
        self.admin().await.execute(sqlx::raw_sql(AssertSqlSafe(sql))).await.unwrap().rows_affected()
    }

    pub(crate) async fn number(&self, sql: &str) -> i64 {
        let sql = sql.replace("TABLE_", &self.table);
        sqlx::query_scalar(AssertSqlSafe(sql)).fetch_one(&mut self.admin().await).await.unwrap()
    }

    pub(crate) async fn row(&self, sql: &str) -> PgRow {
        let sql = sql.replace("TABLE_", &self.table);
        self.admin().await.fetch_one(AssertSqlSafe(sql)).await.unwrap()
    }

    /// Records from now on the settings that every transaction that writes a lock's row finds.
    pub(crate) async fn watch_settings(&self) {
        self.execute(
            "CREATE TABLE seen_of_TABLE_ (settings text);
             CREATE FUNCTION see_of_TABLE_() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN
               INSERT INTO public.seen_of_TABLE_ SELECT string_agg(current_setting(name), ' ' ORDER BY n)
               FROM unnest(ARRAY['synchronous_commit', 'transaction_isolation', 'statement_timeout', 'lock_timeout',
                 'row_security', 'bytea_output', 'search_path']) WITH ORDINALITY AS of (name, n);
               RETURN NEW; END $$;
             CREATE TRIGGER see BEFORE INSERT OR UPDATE ON public.TABLE_
               FOR EACH ROW EXECUTE FUNCTION see_of_TABLE_()",
        )
        .await;
    }

    /// Returns all settings that were found.
    pub(crate) async fn settings_seen(&self) -> Vec<String> {
        let seen = format!("SELECT DISTINCT settings FROM seen_of_{}", self.table);
        sqlx::query_scalar(AssertSqlSafe(seen)).fetch_all(&mut self.admin().await).await.unwrap()
    }

    /// Begins a transaction that keeps the lock's row locked.
    pub(crate) async fn keep_row(&self, name: &str) -> PgConnection {
        let mut admin = self.admin().await;
        let keep = format!("BEGIN; SELECT 1 FROM {} WHERE name = '{name}' FOR UPDATE", self.table);
        admin.execute(sqlx::raw_sql(AssertSqlSafe(keep))).await.unwrap();
        admin
    }

    /// Keeps every other transaction from the table, until the returned connection says otherwise.
    pub(crate) async fn keep_table(&self) -> PgConnection {
        let mut admin = self.admin().await;
        let keep = format!("BEGIN; LOCK TABLE {} IN ACCESS EXCLUSIVE MODE", self.table);
        admin.execute(sqlx::raw_sql(AssertSqlSafe(keep))).await.unwrap();
        admin
    }

    /// Counts the statements on this table that wait for another transaction.
    pub(crate) async fn waiting(&self) -> i64 {
        let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%TABLE_\"%'";
        self.number(waiting).await
    }

    /// Kills every connection that has used the table, and waits until they are gone. There must be at least one.
    pub(crate) async fn kill_connections(&self) {
        let others = format!(
            "SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND query LIKE '%{}\"%'",
            self.table
        );
        let mut admin = self.admin().await;
        let killed: Vec<i32> = sqlx::query_scalar(AssertSqlSafe(others)).fetch_all(&mut admin).await.unwrap();
        assert!(!killed.is_empty(), "no client has a connection");
        let kill = sqlx::query("SELECT pg_terminate_backend(pid) FROM unnest($1) AS of (pid)");
        kill.bind(&killed).execute(&mut admin).await.unwrap();
        until("they are gone", async || {
            let left = sqlx::query_scalar("SELECT count(*) FROM pg_stat_activity WHERE pid = ANY($1)");
            left.bind(&killed).fetch_one(&mut admin).await.is_ok_and(|left: i64| left == 0)
        })
        .await;
    }
}

pub(crate) fn run(test: impl Future<Output = ()>) -> Outcome {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(test);
    Ok(())
}

pub(crate) fn claim(client: &Client, name: &str) -> Box<dyn Claim> {
    claim_within(client, name, PATIENCE)
}

pub(crate) fn claim_within(client: &Client, name: &str, patience: Duration) -> Box<dyn Claim> {
    claims::claim(client, name, terms(patience))
}

/// Acquires a lock, and returns what a successor of its holder has to name.
pub(crate) async fn held(client: &Client, name: &str) -> (Box<dyn Claim>, Predecessor, Grant) {
    let (mut holder, named) = claims::predecessor(client, name, terms(PATIENCE));
    let grant = granted(&mut holder).await;
    (holder, named, grant)
}

pub(crate) fn terms(patience: Duration) -> Terms<'static> {
    Terms { ttl: TTL, patience, waits: Queueing::Queued, label: "a test" }
}

/// Acquires a lock and releases it, so that it has a row that no client holds.
pub(crate) async fn free_row(client: &Client, name: &str) {
    let mut claim = claim(client, name);
    granted(&mut claim).await;
    claim.release().await.unwrap();
}

pub(crate) async fn until(what: &str, mut happens: impl AsyncFnMut() -> bool) {
    let start = Instant::now();
    while !happens().await {
        lock_conformance::assert_in_time!(
            start.elapsed() < Duration::from_secs(10),
            "not within 10 s: {what}"
        );
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
