//! Fixtures of the tests: servers, claims, and the driver.

use std::time::Duration;

use lock_conformance::claims::{self, Terms};
pub(crate) use lock_conformance::claims::{busy, granted};
use lock_conformance::timing::Answered;
pub(crate) use lock_conformance::timing::{until, within};
use lock_core::driver::{Claim, Driver, Queueing};
use lock_core::{Client, Name, Options};
use lock_test_servers::{Owned, Settings, ZooKeeper};
use lock_zk::zookeeper_client;

use crate::common;

/// The longest time that the calls of a claim may take, unless the test says otherwise.
pub(crate) const PATIENCE: Duration = Duration::from_secs(3);
pub(crate) const TTL: Duration = Duration::from_secs(2);
pub(crate) const LONG: Duration = Duration::from_secs(20);

/// A server that one test has for itself.
pub(crate) struct Server(pub(crate) Owned);

impl Server {
    pub(crate) fn start() -> Server {
        Server(Owned::start(&ZooKeeper, &Settings::default()).expect("such a server was started before"))
    }

    pub(crate) async fn client(&self) -> Client {
        open(self.0.url()).await
    }

    /// Returns a client that is not this library's, in the folder of the locks.
    pub(crate) async fn raw(&self) -> zookeeper_client::Client {
        common::raw_in_locks(&self.0.address()).await
    }

    /// Returns a client that is not this library's, which sees all paths.
    pub(crate) async fn raw_at_root(&self) -> zookeeper_client::Client {
        common::raw(&self.0.address()).await
    }

    /// Returns its URL with `login` before the hosts and `folder` behind them.
    pub(crate) fn url_with(&self, login: &str, folder: &str) -> String {
        self.0.url().replace("zk://", &format!("zk://{login}")).replace('?', &format!("{folder}?"))
    }

    /// Returns its URL with another address.
    pub(crate) fn through(&self, address: impl std::fmt::Display) -> String {
        self.0.url().replace(&self.0.address(), &address.to_string())
    }
}

pub(crate) async fn open(url: &str) -> Client {
    lock_zk::connect_with(url, Options::default().patience(PATIENCE)).answered().await
}

pub(crate) fn name(name: &str) -> Name {
    Name::new(name).unwrap()
}

pub(crate) fn driver(client: &Client) -> &dyn Driver {
    &**client.driver()
}

pub(crate) fn claim(client: &Client, lock: &str, ttl: Duration, waits: Queueing) -> Box<dyn Claim> {
    claim_with(client, lock, ttl, waits, PATIENCE)
}

pub(crate) fn claim_with(
    client: &Client,
    lock: &str,
    ttl: Duration,
    waits: Queueing,
    patience: Duration,
) -> Box<dyn Claim> {
    claims::claim(client, lock, Terms { ttl, patience, waits, label: "an owner" })
}

/// Returns the nodes in a directory, in the order of the numbers in their names; none if the directory does not exist.
pub(crate) async fn children(client: &zookeeper_client::Client, directory: &str) -> Vec<String> {
    let mut children = match client.list_children(directory).await {
        Ok(children) => children,
        Err(zookeeper_client::Error::NoNode) => Vec::new(),
        Err(error) => panic!("{directory}: {error}"),
    };
    children.sort_by_key(|child| child[child.len().saturating_sub(10)..].to_owned());
    children
}

/// Returns the session that a lock's first node belongs to.
pub(crate) async fn holders_session(client: &zookeeper_client::Client, directory: &str) -> i64 {
    let first = children(client, directory).await.remove(0);
    client.get_data(&format!("{directory}/{first}")).await.unwrap().1.ephemeral_owner
}

pub(crate) async fn blocking<T: Send + 'static>(what: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(what).await.unwrap()
}

pub(crate) fn run(test: impl Future<Output = ()>) -> Result<(), String> {
    run_or_not(async {
        test.await;
        Ok(())
    })
}

pub(crate) fn run_or_not(test: impl Future<Output = Result<(), String>>) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let outcome = runtime.block_on(test);
    runtime.shutdown_timeout(Duration::from_secs(2));
    outcome
}
