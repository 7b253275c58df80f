//! A scheme, or the library, on the server at a URL: for scenes, and for cases of the suite.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lock_conformance::harness::{Forget, SHORTEST_TTL};
use lock_conformance::{Ability, Harness};
use lock_core::toolkit::Location;
use lock_core::{Client, Name, Options, Result};
use lock_naive::Scheme;
use lock_test_servers::RedisAdmin;
use mongodb::bson::{Document, doc};
use sqlx::Connection;

use super::super::evidence::Of;
use crate::backend::Backend;

/// A scheme or the library, on one server.
#[derive(Clone, Debug)]
pub(crate) struct Tried {
    of: Of,
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

    /// Databases write to a disk, and the servers of Redlock share the machine.
    fn ttl(&self) -> Duration {
        match self.of.backend() {
            Backend::Redis => SHORTEST_TTL,
            _ => SHORTEST_TTL * 3,
        }
    }

    fn can_forget(self: Arc<Self>) -> Ability<dyn Forget> {
        match self.of {
            Of::Scheme(..) | Of::Ours(Backend::Redis) => Ok(self),
            Of::Ours(_) => Err(self.missing(<dyn Forget>::WHAT)),
        }
    }
}

#[async_trait]
impl Forget for Tried {
    async fn forget(&self, name: &Name) {
        match self.of {
            Of::Scheme(Scheme::UniqueIndex, _) => delete_row(&self.url, name).await,
            Of::Scheme(Scheme::FindAndModify, _) => delete_document(&self.url, name).await,
            Of::Scheme(scheme, _) => {
                delete_keys(&self.url, &format!("{}:{}", scheme.name(), name.as_str())).await;
            }
            Of::Ours(_) => delete_keys(&self.url, name.as_str()).await,
        }
    }
}

const USED: &str = "the server was used before";

async fn delete_row(url: &str, name: &Name) {
    let mut connection = sqlx::MySqlConnection::connect(url).await.expect(USED);
    let delete = sqlx::query("DELETE FROM naive_locks WHERE name = ?").bind(name.as_str().as_bytes());
    assert_eq!(delete.execute(&mut connection).await.expect(USED).rows_affected(), 1, "{name} was held");
}

async fn delete_document(url: &str, name: &Name) {
    let client = mongodb::Client::with_uri_str(url).await.expect(USED);
    let locks = client.database("naive").collection::<Document>("locks");
    // The driver panics if the last handle is dropped while the runtime ends.
    std::mem::forget(client);
    let deleted = locks.delete_one(doc! { "_id": name.as_str() }).await.expect(USED);
    assert_eq!(deleted.deleted_count, 1, "{name} was held");
}

/// Deletes the key of a lock from the server, or from each of several.
async fn delete_keys(url: &str, key: &str) {
    let location = Location::parse(url).expect(USED);
    for host in location.hosts(6379).expect(USED) {
        let mut admin = RedisAdmin::of(&location.base_of("redis", &host)).await;
        let delete = redis::cmd("DEL").arg(key).to_owned();
        let deleted: u64 = delete.query_async(admin.connection()).await.expect(USED);
        assert_eq!(deleted, 1, "{key} was held");
    }
}
