//! The crate `rslock`: Redlock in Rust, here on one server, with its defaults.

use async_trait::async_trait;
use redis::ProtocolVersion;
use rslock::{LockGuard, LockManager};

use crate::Outcome;
use crate::raw::redis::Server;
use crate::subjects::{Side, Subject, TTL, Worker};

pub(super) struct Rslock {
    manager: LockManager,
}

impl Rslock {
    /// Connects at its first lock.
    pub(super) fn connect(url: &str) -> Outcome<Rslock> {
        let client = Server::at(url)?.client(ProtocolVersion::RESP2)?;
        Ok(Rslock { manager: LockManager::from_clients(vec![client]) })
    }

    fn named(&self, name: &str) -> Named {
        Named { manager: self.manager.clone(), name: name.to_owned(), guard: None }
    }
}

#[async_trait]
impl Subject for Rslock {
    async fn worker(&self, name: &str) -> Outcome<Box<dyn Worker>> {
        Ok(Box::new(self.named(name)))
    }

    async fn side(&self, name: &str) -> Outcome<Box<dyn Side>> {
        Ok(Box::new(self.named(name)))
    }
}

struct Named {
    manager: LockManager,
    name: String,
    guard: Option<LockGuard>,
}

#[async_trait]
impl Worker for Named {
    async fn cycle(&mut self) -> Outcome<()> {
        let guard = self.manager.acquire(self.name.as_str(), TTL).await?;
        guard.release().await;
        Ok(())
    }
}

#[async_trait]
impl Side for Named {
    async fn acquire(&mut self) -> Outcome<()> {
        self.guard = Some(self.manager.acquire(self.name.as_str(), TTL).await?);
        Ok(())
    }

    async fn release(&mut self) -> Outcome<()> {
        if let Some(guard) = self.guard.take() {
            guard.release().await;
        }
        Ok(())
    }
}
