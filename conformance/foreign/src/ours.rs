//! A client of this library in a case.

use std::fmt;
use std::path::Path;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use lock_conformance::timing::{Answered, released, within};
use lock_core::{Client, Guard, Lock, Result};
use tokio::task::JoinHandle;

use super::contender::Contender;
use super::counter::increment;

/// A client of this library.
#[derive(Debug)]
pub struct Ours {
    client: Client,
    asked: Option<JoinHandle<Result<Guard>>>,
    guard: Option<Guard>,
}

impl Ours {
    /// Makes a contender that acquires its locks with this client, with the default terms.
    pub fn new(client: Client) -> Ours {
        Ours { client, asked: None, guard: None }
    }

    fn lock(&self, name: &str) -> Lock {
        self.client.lock(name).build().expect("the name is short and plain, and the terms are the defaults")
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

    async fn release(&mut self, _: &str) {
        let guard = self.guard.take().expect("it is held");
        released(guard).await;
    }

    async fn storm(&mut self, name: &str, file: &Path, length: Duration) -> u64 {
        let (lock, end) = (self.lock(name), Instant::now() + length);
        let mut turns = 0;
        while Instant::now() < end {
            let guard = within("our turn", super::LIMIT, lock.acquire()).await.expect("our lock is acquired");
            increment(file).await.expect("our turn at the counter");
            released(guard).await;
            turns += 1;
        }
        turns
    }
}
