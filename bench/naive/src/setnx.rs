//! Redis: `SETNX`, then `EXPIRE` if that succeeded. To unlock, `DEL`.
//!
//! The text: "Comparison of common schemes for distributed locks" (on Redis locks and Redisson), the row on Redis'
//! commands.
//!
//! Flaws that the text names: T8 (a crash between the two commands leaves a key without expiry), T9 (`DEL` deletes
//! another's lock), T10 (not reentrant, no blocking wait). It has no renewal: a holder that works for longer than its
//! lease loses it (T20, T21).

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lock_core::driver::{
    Attempt, Busy, Claim, Context, Grant, Inspection, LossReason, Release, Renewal, Request,
};
use lock_core::toolkit::{Call, whole_seconds};
use lock_core::{Name, Result};

use crate::driver::{LONGEST, Recipe, SchemeDriver, call, info, no_token, released, shown};
use crate::redis_server::RedisServer;

pub(crate) const NAME: &str = "naive-setnx";

pub(crate) async fn open(url: String, context: Context) -> Result<SchemeDriver<Setnx>> {
    let server = RedisServer::at(&url)?;
    server.ask::<()>(&Call::begin(&context.clock, context.patience), &redis::cmd("PING")).await?;
    // EXPIRE counts in seconds.
    let mut info = info(NAME, &url, Duration::from_secs(1)..=LONGEST);
    info.clock =
        "the server's; a client that crashes between SETNX and EXPIRE leaves a lock that no clock ends";
    info.data_loss = "frees every lock; a release frees the lock of any holder".to_owned();
    info.requests_per_hand_over = 3;
    Ok(SchemeDriver::new(Setnx(Arc::new(server)), info, context))
}

#[derive(Clone, Debug)]
pub(crate) struct Setnx(Arc<RedisServer>);

fn key(name: &Name) -> String {
    format!("{NAME}:{}", name.as_str())
}

#[async_trait]
impl Recipe for Setnx {
    fn claim(&self, request: Request) -> Box<dyn Claim> {
        Box::new(SetnxClaim { server: self.0.clone(), key: key(&request.name), request })
    }

    async fn inspect(&self, name: &Name, call: &Call) -> Result<Inspection> {
        Ok(shown(self.0.ask(call, redis::cmd("GET").arg(key(name))).await?))
    }
}

#[derive(Debug)]
struct SetnxClaim {
    server: Arc<RedisServer>,
    key: String,
    request: Request,
}

#[async_trait]
impl Claim for SetnxClaim {
    async fn attempt(&mut self) -> Result<Attempt> {
        let (call, seconds) = (call(&self.request), whole_seconds(self.request.ttl));
        let set: bool = self.server.ask(&call, redis::cmd("SETNX").arg(&self.key).arg("locked")).await?;
        if !set {
            return Ok(Attempt::Busy(Busy::default()));
        }
        self.server.ask::<i64>(&call, redis::cmd("EXPIRE").arg(&self.key).arg(seconds)).await?;
        Ok(Attempt::Granted(Grant::new(no_token(), self.request.ttl)))
    }

    /// The scheme can't prolong a lease, so this reads what is left of the key, also of another client's.
    async fn renew(&mut self, ttl: Duration) -> Result<Renewal> {
        let left: i64 = self.server.ask(&call(&self.request), redis::cmd("PTTL").arg(&self.key)).await?;
        Ok(match (left, u64::try_from(left)) {
            (_, Ok(left)) => Renewal::Held { valid_for: Duration::from_millis(left), age: Duration::ZERO },
            (-1, _) => Renewal::Held { valid_for: ttl, age: Duration::ZERO },
            _ => Renewal::Lost(LossReason::Gone),
        })
    }

    async fn release(&mut self) -> Result<Release> {
        let deleted: u64 = self.server.ask(&call(&self.request), redis::cmd("DEL").arg(&self.key)).await?;
        Ok(released(deleted > 0))
    }
}
