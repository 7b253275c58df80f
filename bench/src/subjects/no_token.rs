//! The raw driver with the least that a lock costs: `SET NX PX`, and a release that compares. It has no token, and no
//! waiting.

use std::sync::Arc;

use async_trait::async_trait;
use lock_core::{Owner, Random};
use redis::Value;
use redis::aio::MultiplexedConnection;

use crate::Outcome;
use crate::raw::redis::{self as raw, Server};
use crate::subjects::{Side, Subject, TTL, Worker};

const RELEASE: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

pub(super) struct NoToken {
    shared: Arc<Shared>,
}

struct Shared {
    connection: MultiplexedConnection,
    release: String,
    random: Random,
}

impl NoToken {
    pub(super) async fn connect(url: &str) -> Outcome<NoToken> {
        let mut connection = Server::at(url)?.connect().await?;
        let release = redis::cmd("SCRIPT").arg("LOAD").arg(RELEASE).query_async(&mut connection).await?;
        Ok(NoToken { shared: Arc::new(Shared { connection, release, random: Random::system() }) })
    }
}

#[async_trait]
impl Subject for NoToken {
    async fn worker(&self, name: &str) -> Outcome<Box<dyn Worker>> {
        Ok(Box::new(Cycles { shared: self.shared.clone(), name: name.into() }))
    }

    async fn side(&self, _: &str) -> Outcome<Box<dyn Side>> {
        Err("no-token can't wait, and takes no part in a hand-over".into())
    }
}

struct Cycles {
    shared: Arc<Shared>,
    name: Arc<str>,
}

#[async_trait]
impl Worker for Cycles {
    async fn cycle(&mut self) -> Outcome<()> {
        let (shared, name) = (self.shared.clone(), self.name.clone());
        tokio::spawn(async move { shared.cycle(&name).await }).await?
    }
}

impl Shared {
    async fn cycle(&self, name: &str) -> Outcome<()> {
        let owner = Owner::mint(&self.random).to_string();
        let mut connection = self.connection.clone();
        let mut set = redis::cmd("SET");
        set.arg(name).arg(&owner).arg("NX").arg("PX").arg(TTL.as_millis() as u64);
        match raw::send(&mut connection, &set).await? {
            Value::Okay => {}
            answer => return Err(format!("SET was answered with {answer:?}").into()),
        }
        let mut release = redis::cmd("EVALSHA");
        release.arg(&self.release).arg(1).arg(name).arg(&owner);
        match raw::send(&mut connection, &release).await? {
            Value::Int(1) => Ok(()),
            answer => Err(format!("the release was answered with {answer:?}").into()),
        }
    }
}
