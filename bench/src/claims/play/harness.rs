//! A scheme, or the library, on the server at a URL: for scenes, and for cases of the suite.

use std::sync::Arc;

use async_trait::async_trait;
use lock_conformance::harness::{Forget, SHORTEST_TTL};
use lock_conformance::{Abilities, Facts, Harness};
use lock_core::{Client, Name, Options, Result};
use lock_test_servers::RedisAdmin;

use super::super::evidence::Of;
use crate::backend::Backend;

/// A scheme or the library, on one server.
#[derive(Clone, Debug)]
pub(crate) struct Tried {
    pub(super) of: Of,
    pub(super) url: String,
}

impl Tried {
    pub(crate) fn of(of: Of, url: &str) -> Tried {
        Tried { of, url: url.to_owned() }
    }

    pub(crate) fn at(&self, url: &str) -> Tried {
        Tried::of(self.of, url)
    }

    /// Prepares several servers that were just started, where that is needed.
    pub(crate) async fn init(&self) -> Result<()> {
        match self.of {
            Of::Ours(_) => self.open(Options::default()).await?.init().await.map(drop),
            Of::Scheme(..) => Ok(()),
        }
    }
}

#[async_trait]
impl Harness for Tried {
    fn name(&self) -> String {
        format!("{} on {}", self.of.subject(), self.of.backend().as_str())
    }

    async fn open(&self, options: Options) -> Result<Client> {
        match self.of {
            Of::Scheme(scheme, _) => scheme.connect(&self.url, options).await,
            Of::Ours(_) => onelock::connect_with(&self.url, options).await,
        }
    }

    fn facts(&self) -> Facts {
        // Databases write to a disk, and the servers of Redlock share the machine.
        let ttl = match self.of.backend() {
            Backend::Redis => SHORTEST_TTL,
            _ => SHORTEST_TTL * 3,
        };
        Facts { ttl, ..Facts::promising([]) }
    }

    fn abilities(self: Arc<Self>) -> Abilities {
        let none = Abilities::none("this harness cannot");
        match self.of.backend() {
            Backend::Redis => Abilities { forget: Ok(self), ..none },
            _ => none,
        }
    }
}

#[async_trait]
impl Forget for Tried {
    async fn forget(&self, name: &Name) {
        let key = match self.of {
            Of::Scheme(scheme, _) => format!("{}:{}", scheme.name(), name.as_str()),
            Of::Ours(_) => name.as_str().to_owned(),
        };
        let delete = redis::cmd("DEL").arg(&key).to_owned();
        let deleted = delete.query_async(RedisAdmin::of(&self.url).await.connection()).await;
        assert_eq!(deleted.ok(), Some(1_u64), "{key} was not held");
    }
}
