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
use lock_core::driver::{Attempt, Context, Entry, Inspection, Renewal, Request};
use lock_core::toolkit::{Call, Location, whole_millis};
use lock_core::{Clock, Effect, Error, Name, Owner, OwnerBytes, Random, Result};
use redis::{Cmd, FromRedisValue};

use crate::driver::{LONGEST, Recipe, SchemeDriver, busy, call, granted, held, info, key_of, lost};
use crate::redis_server::{RedisServer, compare_and_delete};

pub(crate) const NAME: &str = "naive-redlock";

/// A client waits for one server for so long. The text has 5 to 50 ms.
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

    /// Fails if no majority has answered.
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
    key_of(NAME, name)
}

#[async_trait]
impl Recipe for Redlock {
    /// The value of the try that was granted. Each try has a new one.
    type State = Option<String>;

    async fn attempt(&self, request: &Request, state: &mut Option<String>) -> Result<Attempt> {
        let Redlock(servers) = self;
        let (call, valid_for) = (call(request), validity(request.ttl));
        let (key, value) = (key(&request.name), Owner::mint(&servers.random).to_string());
        let mut set = redis::cmd("SET");
        set.arg(&key).arg(&value).arg("NX").arg("PX").arg(whole_millis(request.ttl));
        let answers: Vec<Option<String>> = servers.each(&set).await;
        let agreed = answers.iter().flatten().count() >= servers.majority();
        if agreed && servers.clock.now() < call.began() + valid_for {
            *state = Some(value);
            return Ok(granted(valid_for));
        }
        servers.each::<u64>(&compare_and_delete(&key, &value)).await;
        servers.judge(&answers)?;
        Ok(busy())
    }

    async fn renew(&self, request: &Request, state: &mut Option<String>, ttl: Duration) -> Result<Renewal> {
        let Redlock(servers) = self;
        let Some(value) = state else { return Ok(lost()) };
        let (call, valid_for) = (call(request), validity(ttl));
        let mut extend = redis::cmd("EVAL");
        extend.arg(EXTEND).arg(1).arg(key(&request.name)).arg(value).arg(whole_millis(ttl));
        let answers: Vec<bool> = servers.each(&extend).await;
        servers.judge(&answers)?;
        let extended = answers.iter().filter(|extended| **extended).count() >= servers.majority();
        Ok(match extended && servers.clock.now() < call.began() + valid_for {
            true => held(valid_for),
            false => lost(),
        })
    }

    /// Unlocks on all servers, also where it was not locked.
    async fn release(&self, request: &Request, state: &mut Option<String>) -> Result<bool> {
        let Some(value) = state else { return Ok(false) };
        let deleted: Vec<u64> = self.0.each(&compare_and_delete(&key(&request.name), value)).await;
        self.0.judge(&deleted)?;
        *state = None;
        Ok(deleted.contains(&1))
    }

    async fn inspect(&self, name: &Name, _: &Call) -> Result<Inspection> {
        let values: Vec<Option<Vec<u8>>> = self.0.each(redis::cmd("GET").arg(key(name))).await;
        self.0.judge(&values)?;
        let mut found = values.iter().flatten().cloned();
        let count = |value: &Vec<u8>| values.iter().flatten().filter(|other| *other == value).count();
        let holder = found.find(|value| count(value) >= self.0.majority());
        Ok(Inspection::new(holder.map(|owner| Entry::new(OwnerBytes::new(owner))), None))
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
