//! The driver: opens claims, shows holders, revokes locks.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lock_core::driver::{
    Claim, Context, Driver, Finding, Inspection, Lists, Request, Revocation, Revoked, When,
};
use lock_core::toolkit::{Call, Opening};
use lock_core::{Error, Info, Name, Result};
use redis::Value;

use crate::check;
use crate::claim::{RedisClaim, duration};
use crate::layout;
use crate::scripts::{Answer, unexpected};
use crate::server::Server;
use crate::settings::Redis;
use crate::side::{self, Kind};
use crate::value::Seen;

/// The driver of one Redis server.
#[derive(Debug)]
pub(crate) struct RedisDriver(Arc<Server>);

impl RedisDriver {
    pub(crate) fn of(server: Arc<Server>) -> RedisDriver {
        RedisDriver(server)
    }

    pub(crate) async fn open(redis: Redis, context: Context) -> Result<RedisDriver> {
        let (opening, patience) = (redis.common.opening, context.patience);
        let server = Arc::new(Server::new(redis, context)?);
        if opening == Opening::Waits {
            let clock = server.clock.clone();
            server.link(&Call::begin(&clock, patience)).await?.check_acknowledgements()?;
        }
        Ok(RedisDriver(server))
    }
}

#[async_trait]
impl Driver for RedisDriver {
    fn info(&self) -> Arc<Info> {
        self.0.profile.get()
    }

    fn claim(&self, request: Request) -> Box<dyn Claim> {
        Box::new(RedisClaim::new(self.0.clone(), request))
    }

    async fn inspect(&self, name: &Name, patience: Duration) -> Result<Inspection> {
        let call = &Call::begin(&self.0.clock, patience);
        let link = self.0.link(call).await?;
        let (keys, inspect) = (self.0.keys(name), &self.0.layout.scripts().inspect);
        let command = inspect.on(&keys.with_token());
        let answer = self.0.run_for_value(&link, call, inspect, command).await?;
        let Shown { holder, waiters } = Shown::parse(answer)?;
        let waiters = waiters.map(|places| places.iter().map(|place| layout::waiter(place)).collect());
        Ok(Inspection::new(holder.map(|seen| self.0.layout.entry(seen)), waiters))
    }

    async fn revoke(&self, name: &Name, revocation: Revocation) -> Result<Revoked> {
        let Revocation { holder, by, label, when, patience, .. } = revocation;
        let call = &Call::begin(&self.0.clock, patience);
        let (layout, keys) = (self.0.layout, self.0.keys(name));
        let successor = match when {
            When::HoldersDeadline => layout.revoked(holder.as_bytes(), &by, &label),
            When::Now => String::new(),
        };
        let link = self.0.primary(call).await?;
        let revoke = &layout.scripts().revoke;
        let mut command = revoke.on(&keys.without_token());
        command.arg(holder.as_bytes()).arg(keys.releases()).arg(link.facts.delivery.publish());
        command.arg(successor).arg(self.0.revokes_channel());
        layout.add_to_revoke(&mut command, holder.as_bytes());
        let answer: Answer = self.0.run_on(&link, call, revoke, command).await?;
        match answer.fields[..] {
            [2, left] => Ok(Revoked::FreeIn(duration(left))),
            [1] => Ok(Revoked::Free),
            [0] => Ok(Revoked::NotHeld),
            [-1] => Err(Error::rejected(
                "the key has no expiry: another client has locked it without a timeout, or it is no lock; this library does \
                 not revoke it: release it there, or delete the key",
            )),
            _ => Err(answer.unexpected()),
        }
    }

    async fn names(&self, beginning: &str, patience: Duration) -> Result<Vec<Name>> {
        if self.0.profile.get().lists == Lists::Nothing {
            return Err(Error::unsupported("this server can't list its locks"));
        }
        let (prefix, mut cursor, mut asked) = (&self.0.prefix, b"0".to_vec(), 0);
        let pattern = side::pattern(format!("{}{beginning}", prefix.as_str()).as_bytes(), Kind::Token);
        let mut names = Vec::new();
        loop {
            let mut scan = redis::cmd("SCAN");
            scan.arg(&cursor).arg("MATCH").arg(&pattern).arg("COUNT").arg(SCANNED);
            let answer = self.0.ask(&Call::begin(&self.0.clock, patience), &scan).await;
            let answer = answer.map_err(|e| {
                e.not_applied().and_says(&format!("; about {} keys were read before", asked * SCANNED))
            })?;
            asked += 1;
            let read = redis::from_redis_value::<(Vec<u8>, Vec<Vec<u8>>)>(answer);
            let (next, keys) = read.map_err(|e| unexpected(&"something of another form").with_source(e))?;
            let locks = keys.iter().filter_map(|key| side::lock_of(key, Kind::Token));
            names.extend(locks.filter_map(|lock| prefix.name(lock)));
            cursor = next;
            if cursor == b"0" {
                return Ok(names);
            }
        }
    }

    async fn check(&self, patience: Duration) -> Result<Vec<Finding>> {
        check::check(&self.0, patience).await
    }
}

/// The number of keys that one request of a list looks at. While the server does that, it does nothing else.
const SCANNED: u64 = 1000;

/// The answer to an inspection.
struct Shown {
    holder: Option<Seen>,
    /// The places of the waiters, the first one first, where the server knows them.
    waiters: Option<Vec<Vec<u8>>>,
}

impl Shown {
    /// Parses the answer of an `inspect.lua`. Where waiters have places, they are before the time.
    fn parse(answer: Value) -> Result<Shown> {
        type Fields = (Option<Vec<u8>>, i64, Option<i64>, i64);
        let other = |e| unexpected(&"something of another form").with_source(e);
        let (answer, waiters) = match answer {
            Value::Array(mut items) if items.len() == 5 => {
                let waiters = redis::from_redis_value(items.remove(3)).map_err(other)?;
                (Value::Array(items), Some(waiters))
            }
            answer => (answer, None),
        };
        let (value, left, token, now): Fields = redis::from_redis_value(answer).map_err(other)?;
        let left = (left >= 0).then(|| duration(left));
        Ok(Shown { holder: value.map(|value| Seen { value, left, token, now }), waiters })
    }
}
