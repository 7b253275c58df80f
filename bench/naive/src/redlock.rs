//! Redlock as written: N independent Redis servers, asked one after the other for `SET NX PX` with a random value, each
//! for a short time. A majority within the validity time (the ttl, less what the asking took, less the clocks' drift)
//! is the lock. Otherwise, and to unlock, a script compares and deletes on all servers.
//!
//! The text: "Redis distributed locks and Redlock" (a translation of Redis' own page), from "The Redlock algorithm" to
//! "Extending the lock".
//!
//! Flaws that the text names: T16 (a server that restarts empty breaks exclusion), T17 (no token by itself), T25 and T26
//! (what a crashed majority and a partition cost). It is not reentrant, and has no blocking wait.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lock_core::driver::{
    Attempt, Busy, Claim, Context, Grant, Inspection, LossReason, Release, Renewal, Request,
};
use lock_core::toolkit::{Call, Location, whole_millis};
use lock_core::{Clock, Effect, Error, Name, Owner, Random, Result};
use redis::{Cmd, FromRedisValue};

use crate::driver::{LONGEST, Recipe, SchemeDriver, call, info, no_token, released, shown};
use crate::redis_server::{RedisServer, compare_and_delete};

pub(crate) const NAME: &str = "naive-redlock";

/// How long one server may take. The text has 5 to 50 ms.
const PATIENCE: Duration = Duration::from_millis(50);

const EXTEND: &str = "if redis.call('get', KEYS[1]) == ARGV[1] \
                      then return redis.call('pexpire', KEYS[1], ARGV[2]) else return 0 end";

pub(crate) async fn open(location: Location, context: Context) -> Result<SchemeDriver<Redlock>> {
    let hosts = location.hosts(6379)?;
    let servers = hosts.iter().map(|host| RedisServer::at(&location.base_of("redis", host)));
    let servers = servers.collect::<Result<_>>()?;
    let servers = Arc::new(Servers { servers, clock: context.clock.clone(), random: context.random.clone() });
    let mut info = info(NAME, location.base(), Duration::from_millis(100)..=LONGEST);
    info.clock = "the servers', whose rates may differ by the drift: set forward, they end leases early";
    info.data_loss =
        "a server that restarts empty within a lease may give the lock to a second holder".to_owned();
    info.requests_per_hand_over = 2 * u32::try_from(hosts.len()).unwrap_or(u32::MAX / 2);
    Ok(SchemeDriver::new(Redlock(servers), info, context))
}

#[derive(Clone, Debug)]
pub(crate) struct Redlock(Arc<Servers>);

#[derive(Debug)]
struct Servers {
    servers: Vec<RedisServer>,
    clock: Clock,
    random: Random,
}

impl Servers {
    fn majority(&self) -> usize {
        self.servers.len() / 2 + 1
    }

    /// Sends a command to one server after the other. Returns what those have answered that did so in time.
    async fn each<T: FromRedisValue>(&self, command: &Cmd) -> Vec<T> {
        let mut answers = Vec::new();
        for server in &self.servers {
            answers.extend(server.ask(&Call::begin(&self.clock, PATIENCE), command).await.ok());
        }
        answers
    }

    /// The error if no majority has answered.
    fn judge<T>(&self, answers: &[T]) -> Result<()> {
        match answers.len() >= self.majority() {
            true => Ok(()),
            false => {
                Err(Error::unavailable(Effect::Unknown, "no majority of the servers has answered in time"))
            }
        }
    }
}

/// Returns the part of a ttl for which the lock is valid, counted from before the first server was asked. The rest is
/// for the drift of the clocks.
fn validity(ttl: Duration) -> Duration {
    ttl.saturating_sub(ttl / 100 + Duration::from_millis(2))
}

fn key(name: &Name) -> String {
    format!("{NAME}:{}", name.as_str())
}

#[async_trait]
impl Recipe for Redlock {
    fn claim(&self, request: Request) -> Box<dyn Claim> {
        Box::new(MajorityClaim { servers: self.0.clone(), key: key(&request.name), value: None, request })
    }

    async fn inspect(&self, name: &Name, _: &Call) -> Result<Inspection> {
        let values: Vec<Option<Vec<u8>>> = self.0.each(redis::cmd("GET").arg(key(name))).await;
        self.0.judge(&values)?;
        let mut held = values.iter().flatten().cloned();
        let count = |value: &Vec<u8>| values.iter().flatten().filter(|other| *other == value).count();
        Ok(shown(held.find(|value| count(value) >= self.0.majority())))
    }
}

#[derive(Debug)]
struct MajorityClaim {
    servers: Arc<Servers>,
    key: String,
    /// The value of the try that was granted. Each try has a new one.
    value: Option<String>,
    request: Request,
}

impl MajorityClaim {
    /// Unlocks on all servers, also where it was not locked. Returns what each has answered.
    async fn unlock(&self, value: &str) -> Vec<u64> {
        self.servers.each(&compare_and_delete(&self.key, value)).await
    }
}

#[async_trait]
impl Claim for MajorityClaim {
    async fn attempt(&mut self) -> Result<Attempt> {
        let (call, valid_for) = (call(&self.request), validity(self.request.ttl));
        let value = Owner::mint(&self.servers.random).to_string();
        let mut set = redis::cmd("SET");
        set.arg(&self.key).arg(&value).arg("NX").arg("PX").arg(whole_millis(self.request.ttl));
        let answers: Vec<Option<String>> = self.servers.each(&set).await;
        let granted = answers.iter().flatten().count() >= self.servers.majority();
        if granted && self.servers.clock.now() < call.began() + valid_for {
            self.value = Some(value);
            return Ok(Attempt::Granted(Grant::new(no_token(), valid_for)));
        }
        self.unlock(&value).await;
        self.servers.judge(&answers)?;
        Ok(Attempt::Busy(Busy::default()))
    }

    async fn renew(&mut self, ttl: Duration) -> Result<Renewal> {
        let Some(value) = &self.value else { return Ok(Renewal::Lost(LossReason::Gone)) };
        let (call, valid_for) = (call(&self.request), validity(ttl));
        let mut extend = redis::cmd("EVAL");
        extend.arg(EXTEND).arg(1).arg(&self.key).arg(value).arg(whole_millis(ttl));
        let answers: Vec<bool> = self.servers.each(&extend).await;
        self.servers.judge(&answers)?;
        let extended = answers.iter().filter(|extended| **extended).count() >= self.servers.majority();
        Ok(match extended && self.servers.clock.now() < call.began() + valid_for {
            true => Renewal::Held { valid_for, age: Duration::ZERO },
            false => Renewal::Lost(LossReason::Gone),
        })
    }

    async fn release(&mut self) -> Result<Release> {
        let Some(value) = &self.value else { return Ok(Release::NotHeld) };
        let deleted = self.unlock(value).await;
        self.servers.judge(&deleted)?;
        self.value = None;
        Ok(released(deleted.contains(&1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_drift_is_taken_from_the_ttl() {
        let ms = Duration::from_millis;
        assert_eq!((validity(ms(30_000)), validity(ms(100)), validity(ms(1))), (ms(29_698), ms(97), ms(0)));
    }
}
