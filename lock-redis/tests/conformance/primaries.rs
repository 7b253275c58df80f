//! The suite's access to several primaries: the facts that it reads, and the faults that it causes.

use std::time::Duration;

use async_trait::async_trait;
use lock_conformance::Counters;
use lock_conformance::harness::{Age, Count, Forget, Interrupt, Residue};
use lock_core::Name;
use lock_redis::Layout;
use lock_test_servers::RedisAdmin;

use crate::admin::Admin;

/// The primaries, each of which has a part of the locks.
#[derive(Debug)]
pub(crate) struct Primaries {
    urls: Vec<String>,
}

impl Primaries {
    pub(crate) fn at(urls: &[String]) -> Primaries {
        Primaries { urls: urls.to_owned() }
    }

    fn each(&self) -> impl Iterator<Item = Admin> {
        self.urls.iter().map(|url| Admin::of(url, Layout::Own))
    }
}

#[async_trait]
impl Forget for Primaries {
    async fn forget(&self, name: &Name) {
        let (mut forgot, mut refused) = (0, Vec::new());
        for url in &self.urls {
            let mut admin = RedisAdmin::of(url).await;
            let mut forget = redis::cmd("DEL");
            match forget.arg(name.as_str()).query_async::<u64>(admin.connection()).await {
                Ok(deleted) => forgot += deleted,
                // The primaries that do not have the name's slot refuse.
                Err(e) => refused.push(e),
            }
        }
        assert_eq!(forgot, 1, "{name} was held; {refused:?}");
    }
}

#[async_trait]
impl Count for Primaries {
    async fn counters(&self) -> Counters {
        let mut all = Counters { requests: 0, writes: 0 };
        for admin in self.each() {
            let Counters { requests, writes } = admin.counters().await;
            all = Counters { requests: all.requests + requests, writes: all.writes + writes };
        }
        all
    }
}

#[async_trait]
impl Residue for Primaries {
    async fn residue(&self) -> u64 {
        let mut all = 0;
        for admin in self.each() {
            all += admin.residue().await;
        }
        all
    }
}

#[async_trait]
impl Age for Primaries {
    async fn kept(&self) -> u64 {
        let mut all = 0;
        for admin in self.each() {
            all += admin.kept().await;
        }
        all
    }

    async fn age(&self, by: Duration) {
        for admin in self.each() {
            admin.age(by).await;
        }
    }
}

#[async_trait]
impl Interrupt for Primaries {
    async fn interrupt(&self) {
        for admin in self.each() {
            admin.interrupt().await;
        }
    }
}
