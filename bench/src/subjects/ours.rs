//! The library, through its public API.

use async_trait::async_trait;
use onelock::{Client, Ending, Guard, Lock};

use crate::Outcome;
use crate::subjects::{Side, Subject, TTL, Worker};

pub(super) struct Ours {
    client: Client,
}

impl Ours {
    pub(super) async fn connect(url: &str) -> Outcome<Ours> {
        Ok(Ours::with(onelock::connect(url).await?))
    }

    pub(super) fn with(client: Client) -> Ours {
        Ours { client }
    }

    fn lock(&self, name: &str) -> Outcome<Lock> {
        Ok(self.client.lock(name).ttl(TTL).build()?)
    }
}

#[async_trait]
impl Subject for Ours {
    async fn worker(&self, name: &str) -> Outcome<Box<dyn Worker>> {
        Ok(Box::new(Cycles { lock: self.lock(name)? }))
    }

    async fn side(&self, name: &str) -> Outcome<Box<dyn Side>> {
        Ok(Box::new(Holder { lock: self.lock(name)?, guard: None }))
    }
}

struct Cycles {
    lock: Lock,
}

#[async_trait]
impl Worker for Cycles {
    async fn cycle(&mut self) -> Outcome<()> {
        let guard = self.lock.acquire().await?;
        release(guard).await
    }
}

struct Holder {
    lock: Lock,
    guard: Option<Guard>,
}

#[async_trait]
impl Side for Holder {
    async fn acquire(&mut self) -> Outcome<()> {
        self.guard = Some(self.lock.acquire().await?);
        Ok(())
    }

    async fn release(&mut self) -> Outcome<()> {
        match self.guard.take() {
            Some(guard) => release(guard).await,
            None => Ok(()),
        }
    }
}

async fn release(guard: Guard) -> Outcome<()> {
    match guard.release().await {
        Ending::Released => Ok(()),
        Ending::Expired => Err("the lock had expired before its release".into()),
    }
}
