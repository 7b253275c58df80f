//! Redis: `SET key value EX seconds NX` with a random value. To unlock, a script compares the value and deletes the key.
//!
//! The text: "Comparison of common schemes for distributed locks" (on Redis locks and Redisson), the row on Redis with
//! Lua; also "Redis distributed locks and Redlock", the section on one instance.
//!
//! The flaw that the texts name: T12 (not reentrant, no blocking wait); one server is a single point of failure. It has
//! no renewal: a holder that works for longer than its lease loses it (T20, T21).

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lock_core::driver::{
    Attempt, Busy, Claim, Context, Grant, Inspection, LossReason, Release, Renewal, Request,
};
use lock_core::toolkit::{Call, whole_seconds};
use lock_core::{Name, Result};

use crate::driver::{LONGEST, Recipe, SchemeDriver, call, info, no_token, released, shown};
use crate::redis_server::{RedisServer, compare_and_delete};

pub(crate) const NAME: &str = "naive-set-nx-ex";

pub(crate) async fn open(url: String, context: Context) -> Result<SchemeDriver<SetNxEx>> {
    let server = RedisServer::at(&url)?;
    server.ask::<()>(&Call::begin(&context.clock, context.patience), &redis::cmd("PING")).await?;
    // EX counts in seconds.
    let mut info = info(NAME, &url, Duration::from_secs(1)..=LONGEST);
    info.clock = "the server's: set forward, it ends leases early";
    info.data_loss = "frees every lock, as a failover to a replica that lags does".to_owned();
    info.requests_per_hand_over = 2;
    Ok(SchemeDriver::new(SetNxEx(Arc::new(server)), info, context))
}

#[derive(Clone, Debug)]
pub(crate) struct SetNxEx(Arc<RedisServer>);

fn key(name: &Name) -> String {
    format!("{NAME}:{}", name.as_str())
}

#[async_trait]
impl Recipe for SetNxEx {
    fn claim(&self, request: Request) -> Box<dyn Claim> {
        let (key, value) = (key(&request.name), request.owner.to_string());
        Box::new(ValueClaim { server: self.0.clone(), key, value, request })
    }

    async fn inspect(&self, name: &Name, call: &Call) -> Result<Inspection> {
        Ok(shown(self.0.ask(call, redis::cmd("GET").arg(key(name))).await?))
    }
}

#[derive(Debug)]
struct ValueClaim {
    server: Arc<RedisServer>,
    key: String,
    /// Random, and new for each acquisition.
    value: String,
    request: Request,
}

#[async_trait]
impl Claim for ValueClaim {
    async fn attempt(&mut self) -> Result<Attempt> {
        let mut set = redis::cmd("SET");
        set.arg(&self.key).arg(&self.value).arg("EX").arg(whole_seconds(self.request.ttl)).arg("NX");
        let set: Option<String> = self.server.ask(&call(&self.request), &set).await?;
        Ok(match set {
            Some(_) => Attempt::Granted(Grant::new(no_token(), self.request.ttl)),
            None => Attempt::Busy(Busy::default()),
        })
    }

    /// The scheme can't prolong a lease, so this reads what is left.
    async fn renew(&mut self, _: Duration) -> Result<Renewal> {
        let call = call(&self.request);
        // In this order: what is left was left of this lease if it is still there afterwards.
        let left: i64 = self.server.ask(&call, redis::cmd("PTTL").arg(&self.key)).await?;
        let value: Option<String> = self.server.ask(&call, redis::cmd("GET").arg(&self.key)).await?;
        Ok(match (u64::try_from(left), value) {
            (Ok(left), Some(value)) if value == self.value => {
                Renewal::Held { valid_for: Duration::from_millis(left), age: Duration::ZERO }
            }
            _ => Renewal::Lost(LossReason::Gone),
        })
    }

    async fn release(&mut self) -> Result<Release> {
        let delete = compare_and_delete(&self.key, &self.value);
        let deleted: u64 = self.server.ask(&call(&self.request), &delete).await?;
        Ok(released(deleted > 0))
    }
}
