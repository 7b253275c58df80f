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
use lock_core::Result;
use lock_core::driver::{Attempt, Context, Renewal, Request};
use lock_core::toolkit::whole_seconds;

use crate::driver::{LONGEST, Recipe, SchemeDriver, busy, call, granted, held, info, key_of, lost};
use crate::redis_server::RedisServer;

pub(crate) const NAME: &str = "naive-setnx";

pub(crate) async fn open(url: String, context: Context) -> Result<SchemeDriver<Setnx>> {
    let server = RedisServer::connect(&url, &context).await?;
    // EXPIRE counts in seconds.
    let mut info = info(NAME, &url, Duration::from_secs(1)..=LONGEST);
    info.clock =
        "the server's; a client that crashes between SETNX and EXPIRE leaves a lock that no clock ends";
    info.data_loss = "frees every lock; a release frees the lock of any holder".to_owned();
    info.requests_per_hand_over = 3;
    Ok(SchemeDriver::new(Setnx(server), info, context))
}

#[derive(Clone, Debug)]
pub(crate) struct Setnx(Arc<RedisServer>);

fn key(request: &Request) -> String {
    key_of(NAME, &request.name)
}

#[async_trait]
impl Recipe for Setnx {
    type State = ();

    async fn attempt(&self, request: &Request, (): &mut ()) -> Result<Attempt> {
        let (call, key) = (call(request), key(request));
        let set: bool = self.0.ask(&call, redis::cmd("SETNX").arg(&key).arg("locked")).await?;
        if !set {
            return Ok(busy());
        }
        let seconds = whole_seconds(request.ttl);
        self.0.ask::<i64>(&call, redis::cmd("EXPIRE").arg(&key).arg(seconds)).await?;
        Ok(granted(request.ttl))
    }

    /// The scheme can't prolong a lease, so this reads what is left of the key, also of another client's.
    async fn renew(&self, request: &Request, (): &mut (), ttl: Duration) -> Result<Renewal> {
        let left: i64 = self.0.ask(&call(request), redis::cmd("PTTL").arg(key(request))).await?;
        Ok(match (left, u64::try_from(left)) {
            (_, Ok(left)) => held(Duration::from_millis(left)),
            (-1, _) => held(ttl),
            _ => lost(),
        })
    }

    async fn release(&self, request: &Request, (): &mut ()) -> Result<bool> {
        self.0.ask(&call(request), redis::cmd("DEL").arg(key(request))).await
    }
}
