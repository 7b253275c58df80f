//! Fixtures of the tests: servers, claims, and an etcd-client of their own.

use std::time::{Duration, Instant};

use lock_conformance::assert_in_time;
use lock_conformance::claims::{self, Terms};
pub(crate) use lock_conformance::claims::{busy, granted};
use lock_conformance::timing::Answered;
pub(crate) use lock_conformance::timing::{until, within};
use lock_core::driver::{Attempt, Claim, Grant, Queueing, Renewal};
use lock_core::{Client, Name, Options};
use lock_etcd::etcd_client::{self, GetOptions, KeyValue};
use lock_test_servers::{Etcd, Owned, Settings};

/// The patience of a claim's calls, unless a test says otherwise.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);
pub(crate) const LONG: Duration = Duration::from_secs(60);
/// A time limit for events without a promised time.
pub(crate) const SOON: Duration = Duration::from_secs(10);
/// The size of a value that a server accepts. Three such values are more than a client accepts in one answer (4 MiB).
pub(crate) const LARGE: usize = 1_400_000;

/// A server for one test.
pub(crate) struct Server(pub(crate) Owned);

impl Server {
    pub(crate) fn start() -> Server {
        Server::start_with(&[])
    }

    pub(crate) fn start_with(args: &[&str]) -> Server {
        let args = args.iter().map(|arg| (*arg).to_owned()).collect();
        let settings = Settings { args, ..Settings::default() };
        Server(Owned::start(&Etcd, &settings).expect("another was started before"))
    }

    pub(crate) async fn client(&self) -> Client {
        open(self.0.url()).await
    }

    pub(crate) async fn raw(&self) -> etcd_client::Client {
        raw(&self.0.address()).await
    }

    /// Returns the server's URL with another address.
    pub(crate) fn through(&self, address: impl std::fmt::Display) -> String {
        self.0.url().replace(&self.0.address(), &address.to_string())
    }

    /// Returns a number of the server's own statistics: the sum over all lines that begin with `name` and contain
    /// `with`.
    pub(crate) async fn metric(&self, name: &str, with: &str) -> u64 {
        metric(&self.0.address(), name, with).await
    }
}

pub(crate) async fn metric(address: &str, name: &str, with: &str) -> u64 {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let request = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    stream.write_all(request).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    let answer = String::from_utf8_lossy(&answer);
    let lines = answer.lines().filter(|line| line.starts_with(name) && line.contains(with));
    let numbers: Vec<f64> = lines.map(|line| line.rsplit(' ').next().unwrap().parse().unwrap()).collect();
    assert!(!numbers.is_empty(), "the server's statistics have no {name} with {with}");
    numbers.iter().sum::<f64>() as u64
}

pub(crate) async fn raw(address: &str) -> etcd_client::Client {
    etcd_client::Client::connect([address], None).await.unwrap()
}

pub(crate) async fn open(url: &str) -> Client {
    lock_etcd::connect_with(url, Options::default().patience(PATIENCE)).answered().await
}

pub(crate) fn name(name: &str) -> Name {
    Name::new(name).unwrap()
}

/// Returns the keys of a name's queue, the oldest first.
pub(crate) async fn queue(raw: &mut etcd_client::Client, name: &str) -> Vec<KeyValue> {
    all(raw, &format!("{name}/")).await
}

/// Returns all keys that begin with `start`, the oldest first.
pub(crate) async fn all(raw: &mut etcd_client::Client, start: &str) -> Vec<KeyValue> {
    let options = || Some(GetOptions::new().with_prefix());
    let mut found = loop {
        match raw.get(start, options()).await {
            Ok(mut answer) => break answer.take_kvs(),
            // A read that waits for the leader is refused when the leader changes.
            Err(error) => assert!(is_about_leaders(&error), "{error}"),
        }
    };
    found.sort_by_key(KeyValue::create_revision);
    found
}

/// Returns all keys that begin with `start`, without their values.
pub(crate) async fn keys_of(raw: &mut etcd_client::Client, start: &[u8]) -> Vec<String> {
    let options = GetOptions::new().with_prefix().with_keys_only();
    let found = raw.get(start, Some(options)).await.unwrap();
    found.kvs().iter().map(|kv| kv.key().escape_ascii().to_string()).collect()
}

fn is_about_leaders(error: &etcd_client::Error) -> bool {
    let words = error.to_string();
    ["leader changed", "no leader"].iter().any(|about| words.contains(about))
}

pub(crate) fn claim(client: &Client, lock: &str, ttl: Duration) -> Box<dyn Claim> {
    claim_with(client, lock, ttl, PATIENCE, Queueing::Queued)
}

pub(crate) fn claim_with(
    client: &Client,
    lock: &str,
    ttl: Duration,
    patience: Duration,
    waits: Queueing,
) -> Box<dyn Claim> {
    claims::claim(client, lock, Terms { ttl, patience, waits, label: "a test" })
}

/// Waits as the core does: look, listen, look, wait.
pub(crate) async fn wait_for(claim: &mut Box<dyn Claim>) -> Grant {
    if let Attempt::Granted(grant) = claim.attempt().answered().await {
        return grant;
    }
    claim.listen().await.unwrap();
    loop {
        if let Attempt::Granted(grant) = claim.attempt().answered().await {
            return grant;
        }
        claim.changed().await;
    }
}

/// Returns why the lock was lost. Fails if the claim is not told within `limit`.
pub(crate) async fn is_told(claim: &mut Box<dyn Claim>, limit: Duration) -> lock_core::LossReason {
    let asked = Instant::now();
    let cause =
        told(claim, limit * 2).await.unwrap_or_else(|| panic!("nothing was told within {:?}", limit * 2));
    assert_in_time!(asked.elapsed() <= limit, "told after {:?}", asked.elapsed());
    cause
}

/// Waits until the claim is woken and its lock is lost. Returns why, or `None` after `limit`.
pub(crate) async fn told(claim: &mut Box<dyn Claim>, limit: Duration) -> Option<lock_core::LossReason> {
    let end = Instant::now() + limit;
    while let Some(left) = end.checked_duration_since(Instant::now()) {
        if tokio::time::timeout(left, claim.changed()).await.is_err() {
            return None;
        }
        if let Renewal::Lost(cause) = claim.renew(LONG).answered().await {
            return Some(cause);
        }
    }
    None
}

pub(crate) async fn blocking<T: Send + 'static>(what: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(what).await.unwrap()
}

pub(crate) fn run(test: impl Future<Output = ()>) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(test);
    runtime.shutdown_timeout(Duration::from_secs(2));
    Ok(())
}
