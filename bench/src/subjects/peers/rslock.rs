//! The crate `rslock`: Redlock in Rust, here on one server, with its defaults.

use async_trait::async_trait;
use redis::ProtocolVersion;
use rslock::{LockGuard, LockManager};

use crate::Outcome;
use crate::raw::redis::Server;
use crate::subjects::{Side, Subject, TTL};

pub(super) struct Rslock {
    manager: LockManager,
}

impl Rslock {
    /// Connects at its first lock.
    pub(super) fn connect(url: &str) -> Outcome<Rslock> {
        let client = Server::at(url)?.client(ProtocolVersion::RESP2)?;
        Ok(Rslock { manager: LockManager::from_clients(vec![client]) })
    }
}

#[async_trait]
impl Subject for Rslock {
    async fn side(&self, name: &str) -> Outcome<Box<dyn Side>> {
        Ok(Box::new(Named { manager: self.manager.clone(), name: name.to_owned(), guard: None }))
    }
}

struct Named {
    manager: LockManager,
    name: String,
    guard: Option<LockGuard>,
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
