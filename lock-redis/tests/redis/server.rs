//! A redis-server of the test's own: on a free port of the loopback interface, in a temporary folder, gone at its end.

use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use lock_core::driver::{Attempt, Claim, Grant, Mode, Request, Waits};
use lock_core::{Client, Label, Name, Owner, Random};
use redis::aio::MultiplexedConnection;
use tempfile::TempDir;

/// How long a test may take: far more than it needs.
const LIMIT: Duration = Duration::from_secs(30);

/// Runs a test to its end, or to its limit.
pub(crate) fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async { tokio::time::timeout(LIMIT, test).await.expect("the test ends in time") });
    runtime.shutdown_background();
}

pub(crate) struct Server {
    child: Child,
    folder: TempDir,
    port: u16,
}

impl Server {
    pub(crate) fn start(settings: &[&str]) -> Server {
        // Somebody else may take the port before the server does.
        (0..5)
            .find_map(|_| Server::start_on(free_port(), settings))
            .expect("redis-server starts; is it on the PATH?")
    }

    pub(crate) fn start_on(port: u16, settings: &[&str]) -> Option<Server> {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let child = Command::new("redis-server")
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
            .args(["--enable-debug-command", "yes", "--unixsocket", "redis.sock"])
            .args(settings)
            .current_dir(folder.path())
            .stdout(Stdio::null())
            .spawn()
            .ok()?;
        let mut server = Server { child, folder, port };
        let patience = Instant::now() + Duration::from_secs(10);
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            let ended = server.child.try_wait().is_ok_and(|status| status.is_some());
            if ended || Instant::now() > patience {
                return None;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Some(server)
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn path(&self, file: &str) -> PathBuf {
        self.folder.path().join(file)
    }

    /// The server's URL, with what comes after the port.
    pub(crate) fn url(&self, rest: &str) -> String {
        format!("redis://127.0.0.1:{}{rest}", self.port)
    }

    /// A client of ours.
    pub(crate) async fn client(&self, rest: &str) -> Client {
        lock_redis::connect(&self.url(rest)).await.expect("the server can be reached")
    }

    /// A connection that goes past the library.
    pub(crate) async fn raw(&self) -> Raw {
        self.raw_in(0).await
    }

    pub(crate) async fn raw_in(&self, database: u16) -> Raw {
        let client = redis::Client::open(self.url(&format!("/{database}"))).expect("a URL");
        let config = redis::AsyncConnectionConfig::new().set_response_timeout(None);
        Raw(client
            .get_multiplexed_async_connection_with_config(&config)
            .await
            .expect("the server can be reached"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("it has an address").port()
}

/// Commands as one types them.
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

    /// A line of INFO.
    pub(crate) async fn info(&mut self, section: &str, key: &str) -> String {
        let info: String = self.ask(&["INFO", section]).await;
        let line = info.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':').map(str::to_owned));
        line.unwrap_or_default()
    }

    /// How many connections the server has taken so far.
    pub(crate) async fn connections(&mut self) -> u32 {
        self.info("stats", "total_connections_received").await.parse().expect("a number")
    }

    /// How often a command was called since CONFIG RESETSTAT.
    pub(crate) async fn calls(&mut self, command: &str) -> u32 {
        let line = self.info("commandstats", &format!("cmdstat_{command}")).await;
        line.strip_prefix("calls=").and_then(|l| l.split(',').next()?.parse().ok()).unwrap_or(0)
    }
}

/// Waits until something holds.
pub(crate) async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let limit = Instant::now() + Duration::from_secs(10);
    while !holds().await {
        assert!(Instant::now() < limit, "never came to be: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

pub(crate) fn name(name: &str) -> Name {
    Name::new(name).expect("a name")
}

/// A claim with a patience of a second.
pub(crate) fn claim(client: &Client, lock: &str, ttl_ms: u64) -> Box<dyn Claim> {
    claim_with(client, lock, ttl_ms, Duration::from_secs(1))
}

pub(crate) fn claim_with(client: &Client, lock: &str, ttl_ms: u64, patience: Duration) -> Box<dyn Claim> {
    client.driver().claim(Request {
        name: name(lock),
        owner: Owner::mint(&Random::system()),
        mode: Mode::Exclusive,
        ttl: Duration::from_millis(ttl_ms),
        patience,
        waits: Waits::Queued,
        label: Label::new("a test"),
        clock: client.clock().clone(),
    })
}

pub(crate) async fn granted(claim: &mut Box<dyn Claim>) -> Grant {
    match claim.attempt().await {
        Ok(Attempt::Granted(grant)) => grant,
        other => panic!("not granted: {other:?}"),
    }
}

/// Attempts, finds the lock held, and answers when it will be free.
pub(crate) async fn busy(claim: &mut Box<dyn Claim>) -> Duration {
    match claim.attempt().await {
        Ok(Attempt::Busy(busy)) => busy.free_in.expect("Redis says when"),
        other => panic!("not busy: {other:?}"),
    }
}
