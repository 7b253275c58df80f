//! A Redis server for one test, and the helpers of these tests.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

pub(crate) use lock_conformance::claims::granted;
use lock_conformance::claims::{self, Terms};
use lock_conformance::timing::within;
use lock_conformance::{Data, Step};
use lock_core::driver::{Claim, Queueing};
use lock_core::{Client, Name};
use lock_test_servers::{self as servers, Owned, Persistence, Settings};
use redis::aio::MultiplexedConnection;

/// The time limit of a test, far more than it needs.
const LIMIT: Duration = Duration::from_secs(30);

/// Runs a test to its end, or to its time limit.
pub(crate) fn run(test: impl Future<Output = ()>) {
    run_within(LIMIT, test);
}

/// Runs a test that takes longer than others.
pub(crate) fn run_within(limit: Duration, test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(within("the test ends", limit, test));
    runtime.shutdown_background();
}

/// A server without persistence. It ends with its test.
pub(crate) struct Server(Owned);

impl Server {
    pub(crate) fn start(settings: &[&str]) -> Server {
        let args = ["--enable-debug-command", "yes"].iter().chain(settings).map(|arg| (*arg).to_owned());
        let settings =
            Settings { persistence: Persistence::None, args: args.collect(), ..Settings::default() };
        Server(Owned::start(&servers::Redis, &settings).expect("another was started before"))
    }

    /// Starts one whose clock can be set.
    pub(crate) fn with_its_own_clock() -> Server {
        let settings =
            Settings { persistence: Persistence::None, clock: servers::Clock::Own, ..Settings::default() };
        Server(Owned::start(&servers::Redis, &settings).expect("another was started before"))
    }

    pub(crate) fn step_clock(&self, step: Step) {
        self.0.step_clock(step).expect("its clock is its own");
    }

    pub(crate) fn kill(&self) {
        self.0.kill().expect("it runs");
    }

    /// Starts the server again, without its data.
    pub(crate) fn restart(&self) {
        self.0.restart(Data::Lost).expect("its port is free");
    }

    /// Pauses the server while `meanwhile` runs, so that it answers nothing.
    pub(crate) async fn stands_still<T>(&self, meanwhile: impl Future<Output = T>) -> T {
        self.0.pause().expect("it runs");
        let outcome = meanwhile.await;
        self.0.resume().expect("it is there");
        outcome
    }

    pub(crate) fn port(&self) -> u16 {
        self.0.port()
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.0.socket().expect("Redis has one")
    }

    /// Returns where the server keeps its files.
    pub(crate) fn folder(&self) -> &Path {
        self.0.folder()
    }

    /// Returns the server's URL, followed by `rest`.
    pub(crate) fn url(&self, rest: &str) -> String {
        format!("{}{rest}", self.0.url())
    }

    /// Opens a client of this library.
    pub(crate) async fn client(&self, rest: &str) -> Client {
        lock_redis::connect(&self.url(rest)).await.expect("the server can be reached")
    }

    /// Opens a connection that does not go through the library.
    pub(crate) async fn raw(&self) -> Raw {
        self.raw_in(0).await
    }

    pub(crate) async fn raw_in(&self, database: u16) -> Raw {
        self.try_raw_in(database).await.expect("the server can be reached")
    }

    /// Opens one more connection, if the server accepts it.
    pub(crate) async fn try_raw(&self) -> redis::RedisResult<Raw> {
        self.try_raw_in(0).await
    }

    async fn try_raw_in(&self, database: u16) -> redis::RedisResult<Raw> {
        try_raw_at(&self.url(&format!("/{database}"))).await
    }
}

/// Opens a connection to the server at this URL that does not go through the library.
pub(crate) async fn raw_at(url: &str) -> Raw {
    try_raw_at(url).await.expect("the server can be reached")
}

pub(crate) async fn try_raw_at(url: &str) -> redis::RedisResult<Raw> {
    let client = redis::Client::open(url).expect("a URL");
    let config = redis::AsyncConnectionConfig::new().set_response_timeout(None).set_connection_timeout(None);
    client.get_multiplexed_async_connection_with_config(&config).await.map(Raw)
}

/// Sends commands as one types them.
#[derive(Clone)]
pub(crate) struct Raw(pub(crate) MultiplexedConnection);

impl Raw {
    pub(crate) async fn ask<T: redis::FromRedisValue>(&mut self, command: &[&str]) -> T {
        self.try_ask(command).await.unwrap_or_else(|e| panic!("{command:?}: {e}"))
    }

    pub(crate) async fn try_ask<T: redis::FromRedisValue>(
        &mut self,
        command: &[&str],
    ) -> redis::RedisResult<T> {
        redis::cmd(command[0]).arg(&command[1..]).query_async(&mut self.0).await
    }

    pub(crate) async fn keys(&mut self) -> Vec<String> {
        let mut keys: Vec<String> = self.ask(&["KEYS", "*"]).await;
        keys.sort();
        keys
    }

    /// Returns the content of a key, in the server's form.
    pub(crate) async fn dump(&mut self, key: &str) -> Option<Vec<u8>> {
        self.ask(&["DUMP", key]).await
    }

    /// Returns the value of a line of INFO, which has to be there.
    pub(crate) async fn info(&mut self, section: &str, key: &str) -> String {
        self.try_info(section, key).await.unwrap_or_else(|| panic!("INFO has no line {key}"))
    }

    async fn try_info(&mut self, section: &str, key: &str) -> Option<String> {
        let info: String = self.ask(&["INFO", section]).await;
        info.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':').map(str::to_owned))
    }

    /// Returns how many connections the server has accepted so far.
    pub(crate) async fn connections(&mut self) -> u32 {
        self.info("stats", "total_connections_received").await.parse().expect("a number")
    }

    /// Returns how often a command was called since CONFIG RESETSTAT.
    pub(crate) async fn calls(&mut self, command: &str) -> u32 {
        // A command that was never called has no line.
        let Some(line) = self.try_info("commandstats", &format!("cmdstat_{command}")).await else { return 0 };
        let calls = line.strip_prefix("calls=").and_then(|calls| calls.split(',').next()?.parse().ok());
        calls.unwrap_or_else(|| panic!("no number of calls of {command}: {line}"))
    }
}

/// Waits until a condition holds.
pub(crate) async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let limit = Instant::now() + Duration::from_secs(10);
    while !holds().await {
        lock_conformance::assert_in_time!(Instant::now() < limit, "never came to be: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

pub(crate) fn name(name: &str) -> Name {
    Name::new(name).expect("a name")
}

/// Returns a claim with a patience of one second.
pub(crate) fn claim(client: &Client, lock: &str, ttl_ms: u64) -> Box<dyn Claim> {
    claim_with(client, lock, ttl_ms, Duration::from_secs(1))
}

pub(crate) fn claim_with(client: &Client, lock: &str, ttl_ms: u64, patience: Duration) -> Box<dyn Claim> {
    let ttl = Duration::from_millis(ttl_ms);
    claims::claim(client, lock, Terms { ttl, patience, waits: Queueing::Queued, label: "a test" })
}

/// Attempts, expects the lock to be held, and returns after what time it will be free.
pub(crate) async fn busy(claim: &mut Box<dyn Claim>) -> Duration {
    claims::busy(claim).await.free_in.expect("Redis says when")
}
