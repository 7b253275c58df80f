//! A server for the tests, and the requests that tests send to it and to the driver.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use lock_conformance::Step;
use lock_conformance::claims::{self, Terms};
pub(crate) use lock_conformance::claims::{granted, succeeded};
use lock_core::Client;
use lock_core::driver::{Attempt, Claim, Grant, Predecessor, Queueing};
use lock_sql::mysql;
use lock_test_servers::{Clock, Owned, Persistence, Product, Settings, clock};
use sqlx::mysql::{MySqlConnectOptions, MySqlConnection};
use sqlx::{AssertSqlSafe, ConnectOptions, Executor};

use crate::On;

/// The longest time that a test may take: much more than it needs.
const LIMIT: Duration = Duration::from_secs(60);

pub(crate) const TTL: Duration = Duration::from_secs(20);
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// Runs a test until it ends or reaches the limit.
pub(crate) fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async { tokio::time::timeout(LIMIT, test).await.expect("the test ends in time") });
    runtime.shutdown_background();
}

/// One server of each product, which the tests share. Each test has a database of its own there.
static SHARED: Mutex<Vec<(String, Owned)>> = Mutex::new(Vec::new());
static DATABASES: AtomicU32 = AtomicU32::new(0);

/// Works also after a failed start: the next test that asks starts the server again.
fn shared_ones() -> MutexGuard<'static, Vec<(String, Owned)>> {
    SHARED.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn end_shared() {
    shared_ones().clear();
}

/// A database on a server.
pub(crate) struct Server {
    /// The server, unless it is the shared one. It ends with the test.
    owned: Option<Owned>,
    options: MySqlConnectOptions,
}

impl Server {
    /// Creates a new database on the shared server.
    pub(crate) async fn shared(on: On) -> Server {
        let url = {
            let mut shared = shared_ones();
            let name = on.listing().name;
            if !shared.iter().any(|(of, _)| of == name) {
                shared.push((name.to_owned(), start(on, &[])));
            }
            let (_, owned) = shared.iter().find(|(of, _)| of == name).expect("it was just started");
            owned.url().to_owned()
        };
        let database = format!("db_{}", DATABASES.fetch_add(1, Ordering::Relaxed));
        let options: MySqlConnectOptions = url.parse().unwrap();
        let server = Server { owned: None, options: options.disable_statement_logging() };
        server.execute(&format!("CREATE DATABASE {database}")).await;
        Server { options: server.options.database(&database), owned: None }
    }

    /// Starts a server of the test's own, with a clock of its own. `Err` says why that is not possible.
    pub(crate) fn with_clock(on: On) -> Result<Server, String> {
        clock::can_be_set()?;
        let settings = Settings { persistence: Persistence::None, clock: Clock::Own, ..Settings::default() };
        Ok(Server::of(Owned::start(on, &settings).expect("the server can be started")))
    }

    /// Starts a server of the test's own.
    pub(crate) fn start(on: On, arguments: &[&str]) -> Server {
        Server::of(start(on, arguments))
    }

    pub(crate) fn of(owned: Owned) -> Server {
        let options: MySqlConnectOptions = owned.url().parse().unwrap();
        Server { options: options.disable_statement_logging(), owned: Some(owned) }
    }

    /// Sets the clock of a server that has its own.
    pub(crate) fn step_clock(&self, step: Step) {
        self.owned.as_ref().expect("a server of the test's own").step_clock(step).expect("it can be set");
    }

    pub(crate) fn options(&self) -> MySqlConnectOptions {
        self.options.clone()
    }

    pub(crate) fn database(&self) -> &str {
        self.options.get_database().expect("a database")
    }

    pub(crate) fn port(&self) -> u16 {
        self.options.get_port()
    }

    /// Returns a URL of the database, with `rest` behind it.
    pub(crate) fn url(&self, rest: &str) -> String {
        self.url_of("lock", rest)
    }

    pub(crate) fn url_of(&self, user: &str, rest: &str) -> String {
        format!("mysql://{user}@127.0.0.1:{}/{}{rest}", self.port(), self.database())
    }

    pub(crate) async fn client(&self) -> Client {
        mysql::connect(&self.url("")).await.expect("the server can be reached")
    }

    /// Opens a connection without the library.
    pub(crate) async fn raw(&self) -> MySqlConnection {
        self.options.connect().await.expect("the server can be reached")
    }

    pub(crate) async fn execute(&self, sql: &str) -> u64 {
        execute(&mut self.raw().await, sql).await
    }

    pub(crate) async fn number(&self, sql: &str) -> i64 {
        number(&mut self.raw().await, sql).await
    }

    /// Reads a number of the server's status.
    pub(crate) async fn status(&self, name: &str) -> u64 {
        let show = format!("SHOW GLOBAL STATUS LIKE '{name}'");
        let row = self.raw().await.fetch_one(AssertSqlSafe(show)).await.unwrap();
        sqlx::Row::get::<String, _>(&row, 1).parse().unwrap()
    }

    /// Waits until this many statements that begin like this are running on other connections.
    pub(crate) async fn running(&self, begins: &str, how_many: i64) {
        let mut raw = self.raw().await;
        let count = format!(
            "SELECT CAST(COUNT(*) AS SIGNED) FROM information_schema.processlist
             WHERE db = '{}' AND id <> CONNECTION_ID() AND info LIKE '{begins}%'",
            self.database()
        );
        until("the statements run", async || number(&mut raw, &count).await == how_many).await;
    }

    /// Ends all connections except the one that asks, and waits until they are gone. There must be at least one.
    pub(crate) async fn kill_connections(&self) {
        let mut raw = self.raw().await;
        let others = format!(
            "SELECT CAST(id AS SIGNED) FROM information_schema.processlist
             WHERE db = '{}' AND id <> CONNECTION_ID()",
            self.database()
        );
        let others: Vec<i64> = sqlx::query_scalar(AssertSqlSafe(others)).fetch_all(&mut raw).await.unwrap();
        assert!(!others.is_empty(), "no client has a connection");
        for id in &others {
            // It may have ended by itself.
            raw.execute(AssertSqlSafe(format!("KILL {id}"))).await.ok();
        }
        let ids = others.iter().map(i64::to_string).collect::<Vec<_>>().join(", ");
        let left = format!(
            "SELECT CAST(COUNT(*) AS SIGNED) FROM information_schema.processlist WHERE id IN ({ids})"
        );
        until("they are gone", async || number(&mut raw, &left).await == 0).await;
    }
}

fn start(on: On, arguments: &[&str]) -> Owned {
    let args = arguments.iter().map(|&argument| argument.to_owned()).collect();
    let settings = Settings { persistence: Persistence::None, args, ..Settings::default() };
    Owned::start(on, &settings).expect("the server can be started")
}

pub(crate) async fn execute(raw: &mut MySqlConnection, sql: &str) -> u64 {
    raw.execute(AssertSqlSafe(sql.to_owned())).await.unwrap().rows_affected()
}

pub(crate) async fn number(raw: &mut MySqlConnection, sql: &str) -> i64 {
    sqlx::query_scalar(AssertSqlSafe(sql.to_owned())).fetch_one(raw).await.unwrap()
}

pub(crate) async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let began = Instant::now();
    while !is_so().await {
        lock_conformance::assert_in_time!(
            began.elapsed() < Duration::from_secs(20),
            "not within 20 s: {what}"
        );
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

pub(crate) fn claim(client: &Client, name: &str, patience: Duration) -> Box<dyn Claim> {
    claim_for(client, name, TTL, patience)
}

pub(crate) fn claim_for(client: &Client, name: &str, ttl: Duration, patience: Duration) -> Box<dyn Claim> {
    claims::claim(client, name, terms(ttl, patience))
}

/// Acquires a lock, and returns what a successor of its holder has to name.
pub(crate) async fn held(client: &Client, name: &str) -> (Box<dyn Claim>, Predecessor, Grant) {
    let (mut holder, named) = claims::predecessor(client, name, terms(TTL, PATIENCE));
    let grant = granted(&mut holder).await;
    (holder, named, grant)
}

pub(crate) fn terms(ttl: Duration, patience: Duration) -> Terms<'static> {
    Terms { ttl, patience, waits: Queueing::No, label: "a test" }
}

pub(crate) async fn is_busy(claim: &mut Box<dyn Claim>) -> bool {
    matches!(claim.attempt().await.unwrap(), Attempt::Busy(_))
}

/// Makes a lock that is free and has its row.
pub(crate) async fn free_row(client: &Client, name: &str) {
    let mut claim = claim(client, name, PATIENCE);
    granted(&mut claim).await;
    claim.release().await.unwrap();
}
