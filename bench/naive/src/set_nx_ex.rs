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
use lock_core::Result;
use lock_core::driver::{Attempt, Context, Renewal, Request};
use lock_core::toolkit::whole_seconds;

use crate::driver::{LONGEST, Recipe, SchemeDriver, busy, call, granted, held, info, key_of, lost};
use crate::redis_server::{RedisServer, compare_and_delete};

pub(crate) const NAME: &str = "naive-set-nx-ex";

pub(crate) async fn open(url: String, context: Context) -> Result<SchemeDriver<SetNxEx>> {
    let server = RedisServer::connect(&url, &context).await?;
    // EX counts in seconds.
    let mut info = info(NAME, &url, Duration::from_secs(1)..=LONGEST);
    info.clock = "the server's: set forward, it ends leases early";
    info.data_loss = "frees every lock, as a failover to a replica that lags does".to_owned();
    info.requests_per_hand_over = 2;
    Ok(SchemeDriver::new(SetNxEx(server), info, context))
}

#[derive(Clone, Debug)]
pub(crate) struct SetNxEx(Arc<RedisServer>);

fn key(request: &Request) -> String {
    key_of(NAME, &request.name)
}

/// The value of a key: the owner, which is random, and new for each acquisition.
fn value(request: &Request) -> String {
    request.owner.to_string()
}

#[async_trait]
impl Recipe for SetNxEx {
    type State = ();

    async fn attempt(&self, request: &Request, (): &mut ()) -> Result<Attempt> {
        let mut set = redis::cmd("SET");
        set.arg(key(request)).arg(value(request)).arg("EX").arg(whole_seconds(request.ttl)).arg("NX");
        let set: Option<String> = self.0.ask(&call(request), &set).await?;
        Ok(if set.is_some() { granted(request.ttl) } else { busy() })
    }

    /// The scheme can't prolong a lease, so this reads what is left.
    async fn renew(&self, request: &Request, (): &mut (), _: Duration) -> Result<Renewal> {
        let (call, key) = (call(request), key(request));
        // In this order: what is left was left of this lease if it is still there afterwards.
        let left: i64 = self.0.ask(&call, redis::cmd("PTTL").arg(&key)).await?;
        let found: Option<String> = self.0.ask(&call, redis::cmd("GET").arg(&key)).await?;
        Ok(match u64::try_from(left) {
            Ok(left) if found == Some(value(request)) => held(Duration::from_millis(left)),
            _ => lost(),
        })
    }

    async fn release(&self, request: &Request, (): &mut ()) -> Result<bool> {
        self.0.ask(&call(request), &compare_and_delete(&key(request), &value(request))).await
    }
}
