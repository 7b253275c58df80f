//! A client of this library in a case.

use std::fmt;
use std::path::Path;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use lock_conformance::timing::{Answered, released, within};
use lock_core::{Client, ErrorKind, Guard, Lock, LockBuilder, Result, Revoked, When};
use tokio::task::JoinHandle;

use super::cases::Storm;
use super::contender::Contender;
use super::counter::increment;

/// A client of this library.
#[derive(Debug)]
pub struct Ours {
    client: Client,
    /// The time that it waits for its turn in a storm before it asks again. `None` if it waits without a limit.
    patience: Option<Duration>,
    /// The length of its leases. `None` if they last as long as they do by default.
    ttl: Option<Duration>,
    asked: Option<JoinHandle<Result<Guard>>>,
    guard: Option<Guard>,
}

impl Ours {
    /// Makes a contender that acquires its locks with this client, with the default terms.
    pub fn new(client: Client) -> Ours {
        Ours { client, patience: None, ttl: None, asked: None, guard: None }
    }

    /// Makes it ask again in a storm after it has waited for this time, as users do who share a lock with clients that
    /// tell it of no release.
    #[must_use]
    pub fn asking_again_after(self, patience: Duration) -> Ours {
        Ours { patience: Some(patience), ..self }
    }

    /// Makes its leases last for this time.
    #[must_use]
    pub(super) fn with_ttl(self, ttl: Duration) -> Ours {
        Ours { ttl: Some(ttl), ..self }
    }

    /// Takes the lock at once from the client that holds it.
    pub(super) async fn take_away(&self, name: &str) {
        let lock = self.lock(name);
        let holder = lock.inspect().answered().await.holder.expect("it is held");
        let revoked = lock.revoke(&holder.owner, When::Now).answered().await;
        assert_eq!(revoked, Revoked::Free, "{name}");
    }

    fn lock(&self, name: &str) -> Lock {
        self.terms(name).build().expect("the name is short, and the terms are usual")
    }

    fn terms(&self, name: &str) -> LockBuilder {
        let lock = self.client.lock(name);
        if let Some(ttl) = self.ttl { lock.ttl(ttl) } else { lock }
    }

    /// Waits for the lock, and asks again when its patience has ended.
    async fn turn(&self, name: &str) -> Guard {
        let lock = self.terms(name);
        let lock = if let Some(patience) = self.patience { lock.wait(patience) } else { lock };
        let lock = lock.build().expect("the name is short");
        loop {
            match lock.acquire().await {
                Ok(guard) => return guard,
                Err(error) if error.kind() == ErrorKind::Timeout => {}
                Err(error) => panic!("our lock is acquired: {error:?}"),
            }
        }
    }
}

impl fmt::Display for Ours {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ours")
    }
}

#[async_trait]
impl Contender for Ours {
    async fn ask(&mut self, name: &str) {
        let lock = self.lock(name);
        self.asked = Some(tokio::spawn(async move { lock.acquire().await }));
    }

    fn has_it(&mut self) -> bool {
        self.guard.is_some() || self.asked.as_ref().is_some_and(JoinHandle::is_finished)
    }

    async fn held(&mut self) {
        let asked = self.asked.take().expect("it was asked for");
        let guard = within("our lock", super::LIMIT, asked).await.expect("no panic of ours");
        self.guard = Some(guard.expect("our lock is acquired"));
    }

    async fn attempt(&mut self, name: &str) -> Option<bool> {
        self.guard = self.lock(name).try_acquire().answered().await;
        Some(self.guard.is_some())
    }

    fn token(&self) -> Option<u64> {
        self.guard.as_ref().map(|guard| guard.token().get())
    }

    async fn release(&mut self, _: &str) {
        let guard = self.guard.take().expect("it is held");
        released(guard).await;
    }

    async fn storm(&mut self, name: &str, file: &Path, storm: Storm) -> u64 {
        let end = Instant::now() + storm.length;
        let mut turns = 0;
        while Instant::now() < end {
            let guard = within("our turn", super::LIMIT, self.turn(name)).await;
            increment(file).await.expect("our turn at the counter");
            released(guard).await;
            turns += 1;
            tokio::time::sleep(storm.pause).await;
        }
        turns
    }
}
