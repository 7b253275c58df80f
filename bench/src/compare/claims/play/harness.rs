//! A scheme, or the library, on the server at a URL.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lock_conformance::harness::{Forget, SHORTEST_TTL};
use lock_conformance::{Ability, Harness};
use lock_core::toolkit::Location;
use lock_core::{Client, Name, Options, Result};
use lock_naive::harness::OnServers;
use lock_test_servers::RedisAdmin;

use super::super::evidence::Of;
use crate::Outcome;
use crate::backend::Backend;

/// What is tried, and where.
#[derive(Clone, Debug)]
pub(super) struct Tried {
    of: Of,
    pub(super) url: String,
}

impl Tried {
    pub(super) fn of(of: Of, url: &str) -> Tried {
        Tried { of, url: url.to_owned() }
    }

    /// The same on another server.
    pub(super) fn at(&self, url: &str) -> Tried {
        Tried::of(self.of, url)
    }

    /// Opens a client with connections of its own.
    pub(super) async fn open(&self, options: Options) -> Result<Client> {
        match self.of {
            Of::Scheme(scheme, _) => scheme.connect(&self.url, options).await,
            Of::Ours(_) => onelock::connect_with(&self.url, options).await,
        }
    }

    /// Prepares several servers that were just started, where that is needed.
    pub(super) async fn init(&self) -> Outcome<()> {
        if let Of::Ours(_) = self.of {
            self.open(Options::default()).await?.init().await?;
        }
        Ok(())
    }

    /// Returns the harness for cases of the suite.
    pub(super) fn harness(&self) -> Outcome<Arc<dyn Harness>> {
        Ok(match self.of {
            Of::Scheme(scheme, backend) => Arc::new(OnServers::at(scheme, urls(backend, &self.url)?)),
            Of::Ours(backend) => Arc::new(Library { backend, url: self.url.clone() }),
        })
    }
}

/// Returns the URL of each server.
fn urls(backend: Backend, url: &str) -> Result<Vec<String>> {
    if backend != Backend::Redlock {
        return Ok(vec![url.to_owned()]);
    }
    let location = Location::parse(url)?;
    Ok(location.hosts(6379)?.iter().map(|host| location.base_of("redis", host)).collect())
}

/// The library on one kind of server.
#[derive(Debug)]
struct Library {
    backend: Backend,
    url: String,
}

#[async_trait]
impl Harness for Library {
    fn name(&self) -> String {
        format!("the library on {}", self.backend.as_str())
    }

    async fn open(&self, options: Options) -> Result<Client> {
        onelock::connect_with(&self.url, options).await
    }

    /// Databases write to a disk, and the servers of Redlock share the machine.
    fn ttl(&self) -> Duration {
        match self.backend {
            Backend::Redis => SHORTEST_TTL,
            _ => SHORTEST_TTL * 3,
        }
    }

    fn can_forget(self: Arc<Self>) -> Ability<dyn Forget> {
        match self.backend {
            Backend::Redis => Ok(self),
            _ => Err(self.missing(<dyn Forget>::WHAT)),
        }
    }
}

#[async_trait]
impl Forget for Library {
    async fn forget(&self, name: &Name) {
        let mut admin = RedisAdmin::of(&self.url).await;
        let delete = redis::cmd("DEL").arg(name.as_str()).to_owned();
        let forgot: u64 = delete.query_async(admin.connection()).await.expect("the server was used before");
        assert_eq!(forgot, 1, "{name} was held");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_server_of_redlock_has_a_url() {
        let several = urls(Backend::Redlock, "redlock://a:1,b:2/").unwrap();
        assert_eq!(several.len(), 2, "{several:?}");
        assert!(several.iter().all(|url| url.starts_with("redis://")), "{several:?}");
        assert_eq!(urls(Backend::Redis, "redis://a:1/0").unwrap(), ["redis://a:1/0"]);
    }
}
