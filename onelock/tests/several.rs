//! Several locks as one, each on another kind of server.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::ExitCode;
use std::time::Duration;

use libtest_mimic::Arguments;
use lock_conformance::rules;
use lock_conformance::timing::{Answered, still_held, until, within};
use lock_test_servers::{Absence, Owned, Redis, Settings};
use onelock::{Client, Ending, ErrorKind, Lock, LossReason, MultiLock, Revoked, When};
use tempfile::TempDir;

type Test = (&'static str, fn());

const TESTS: [Test; 3] = [
    ("all_or_none_whatever_the_servers_are", all_or_none_whatever_the_servers_are),
    ("one_lost_lock_is_reported_from_any_server", one_lost_lock_is_reported_from_any_server),
    ("a_wait_for_several_names_the_held_one", a_wait_for_several_names_the_held_one),
];

fn main() -> ExitCode {
    libtest_mimic::run(&Arguments::from_args(), rules::judged("several servers", TESTS)).exit_code()
}

const TTL: Duration = Duration::from_millis(1500);
const SOON: Duration = Duration::from_secs(5);

/// Servers for one test, and two clients of each.
struct Servers {
    clients: Vec<[Client; 2]>,
    _file: TempDir,
    _redis: Option<Owned>,
}

impl Servers {
    /// Starts both kinds of memory, a file, and a Redis if there is one.
    async fn start(test: &str) -> Servers {
        let file = TempDir::new().unwrap();
        let redis = match Owned::start(&Redis, &Settings::default()) {
            Ok(redis) => Some(redis),
            Err(Absence::NotRun(why)) => {
                println!("without Redis: {why}");
                None
            }
            Err(Absence::Failure(why)) => panic!("{why}"),
        };
        let mut urls = vec![
            format!("memory://{test}"),
            format!("memory+queue://{test}"),
            format!("sqlite://{}", file.path().join("locks.db").display()),
        ];
        urls.extend(redis.iter().map(|redis| redis.url().to_owned()));
        let mut clients = Vec::new();
        for url in &urls {
            clients.push([onelock::connect(url).answered().await, onelock::connect(url).answered().await]);
        }
        Servers { clients, _file: file, _redis: redis }
    }

    /// Returns the lock `ledger` on each server, through the first or the second client.
    fn locks(&self, client: usize) -> Vec<Lock> {
        let lock = |of: &[Client; 2]| of[client].lock("ledger").ttl(TTL).build().unwrap();
        self.clients.iter().map(lock).collect()
    }

    fn backend(&self, at: usize) -> &'static str {
        self.clients[at][0].info().backend
    }

    /// Waits until all locks are free, except the one with index `but`.
    async fn are_free(&self, but: Option<usize>) {
        for (_, lock) in self.locks(1).into_iter().enumerate().filter(|(at, _)| Some(*at) != but) {
            let free = || async { lock.inspect().answered().await.holder.is_none() };
            until("the others are free", SOON, free).await;
        }
    }
}

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(test);
}

// Proves: several
fn all_or_none_whatever_the_servers_are() {
    run(async {
        let servers = Servers::start("all-or-none").await;
        let (all, others) = (MultiLock::new(servers.locks(0)).unwrap(), servers.locks(1));
        for (taken, other) in others.iter().enumerate() {
            let theirs = other.try_acquire().answered().await.expect("free");
            assert!(all.try_acquire().answered().await.is_none(), "one of them is held");
            servers.are_free(Some(taken)).await;
            still_held(&theirs);
            assert_eq!(theirs.release().await, Ending::Released);
        }
        let guard = all.try_acquire().answered().await.expect("all are free");
        assert_eq!(guard.guards().len(), servers.clients.len());
        for other in &others {
            let theirs = other.try_acquire().answered().await;
            guard.guards().iter().for_each(still_held);
            assert!(theirs.is_none(), "each of them is held");
        }
        assert_eq!(guard.release().await, Ending::Released);
        servers.are_free(None).await;
    });
}

// Proves: several
fn one_lost_lock_is_reported_from_any_server() {
    run(async {
        let servers = Servers::start("loss").await;
        for (other, lost) in servers.locks(1).into_iter().zip(0..) {
            let guard = MultiLock::new(servers.locks(0)).unwrap().acquire().answered().await;
            let holder = other.inspect().answered().await.holder.expect("it is held");
            assert_eq!(other.revoke(&holder.owner, When::Now).answered().await, Revoked::Free);
            let (name, cause) = within("the loss is told", TTL, guard.lost()).await;
            assert_eq!(name.as_str(), "ledger");
            assert!(matches!(cause, LossReason::Revoked | LossReason::Gone), "server {lost}: {cause}");
            assert!(!guard.is_held() && guard.valid_for().is_zero());
            let error = guard.check().unwrap_err();
            let backend = servers.backend(lost);
            assert_eq!((error.kind(), error.backend()), (ErrorKind::Lost, Some(backend)), "{error}");
            // The other locks are held until the guard is released.
            let others = guard.guards().iter().filter(|of_one| {
                of_one.check().err().and_then(|error| error.backend()).is_none_or(|of| of != backend)
            });
            let others: Vec<_> = others.collect();
            assert_eq!(others.len(), servers.clients.len() - 1);
            others.into_iter().for_each(still_held);
            assert_eq!(guard.release().await, Ending::Expired);
            servers.are_free(None).await;
        }
    });
}

fn a_wait_for_several_names_the_held_one() {
    run(async {
        let servers = Servers::start("wait").await;
        let all = MultiLock::new(servers.locks(0)).unwrap();
        for (at, other) in servers.locks(1).into_iter().enumerate() {
            let theirs = other.try_acquire().answered().await.expect("free");
            let error = all.clone().wait(Duration::from_millis(200)).acquire().await.unwrap_err();
            still_held(&theirs);
            let backend = servers.backend(at);
            assert_eq!((error.kind(), error.backend()), (ErrorKind::Timeout, Some(backend)), "{error}");
            let waiting = tokio::spawn({
                let all = all.clone();
                async move { all.acquire().await }
            });
            assert_eq!(theirs.release().await, Ending::Released);
            let guard = within("it has all", SOON, waiting).await.unwrap().unwrap();
            assert!(guard.is_held());
            assert_eq!(guard.release().await, Ending::Released);
        }
    });
}
