//! Redis: a fair lock with a list of waiters and a sorted set of their timeouts. The timeouts are summed up: the time of
//! each waiter begins when that of the waiter before it is over, and is 5 s.
//!
//! The text: "Reading Redisson's source: the fair lock" (of version 3.17.7). `lock.lua` and `unlock.lua` have its commands, in our
//! words. The text does not say how a waiter leaves that gives up; here it is taken out of the list and the set.
//! The renewal is the watchdog's: "Redis distributed locks and Redlock", the section on Redisson.
//!
//! The flaw that the text names: T19 (with n dead waiters in front, the others wait for 5n s, though the lock is free).
//! Like every lock on one server it is lost on failover to a replica that lags (T14). Flaws that follow from the
//! scripts: an attempt that is repeated counts as a second hold, and the clients' clocks say which waiters are dead.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use futures_util::StreamExt;
use lock_core::driver::{Attempt, Busy, Context, Entry, Fair, Inspection, Queueing, Renewal, Request, Wakes};
use lock_core::toolkit::{Call, whole_millis};
use lock_core::{Effect, Name, OwnerBytes, Result};
use redis::Cmd;
use redis::aio::PubSub;

use crate::driver::{LONGEST, Recipe, SchemeDriver, call, granted, held, info, lost};
use crate::redis_server::{RedisServer, unavailable};

pub(crate) const NAME: &str = "naive-fair-queue";

const LOCK: &str = include_str!("fair_queue/lock.lua");
const UNLOCK: &str = include_str!("fair_queue/unlock.lua");
const RENEW: &str = "if redis.call('hexists', KEYS[1], ARGV[1]) == 1 \
                     then redis.call('pexpire', KEYS[1], ARGV[2]) return 1 else return 0 end";

/// A waiter stands at the head of the queue for so long at most.
const WAIT: Duration = Duration::from_secs(5);
/// A waiter learns from it only that it is its turn.
const MESSAGE: u8 = 0;

pub(crate) async fn open(url: String, context: Context) -> Result<SchemeDriver<FairQueue>> {
    let server = RedisServer::connect(&url, &context).await?;
    let mut info = info(NAME, &url, Duration::from_millis(10)..=LONGEST);
    info.fair = Fair::PerProcess;
    info.wakes = Wakes::Pushed;
    info.clock = "the server's for leases; those of the clients for waiters, of which they drop each other's";
    info.data_loss =
        "frees every lock and forgets the queue; with n dead waiters in it, a free lock is not granted \
                      for up to 5n s after the lease"
            .to_owned();
    info.requests_per_hand_over = 2;
    Ok(SchemeDriver::new(FairQueue(server), info, context))
}

#[derive(Clone, Debug)]
pub(crate) struct FairQueue(Arc<RedisServer>);

#[derive(Debug)]
struct Keys {
    lock: String,
    queue: String,
    timeouts: String,
    /// The beginning of the waiters' channels.
    channel: String,
}

impl Keys {
    fn of(name: &Name) -> Keys {
        let lock = format!("{NAME}:{}", name.as_str());
        let [queue, timeouts, channel] =
            ["queue", "timeouts", "channel"].map(|part| format!("{lock}:{part}"));
        Keys { lock, queue, timeouts, channel }
    }
}

#[derive(Default)]
pub(crate) struct Waiter {
    /// The waiter may stand in the queue.
    queued: bool,
    /// A connection that is subscribed to the channel of this waiter.
    wakes: Option<PubSub>,
}

fn lock(request: &Request) -> Cmd {
    let Keys { lock, queue, timeouts, .. } = Keys::of(&request.name);
    let mut command = redis::cmd("EVAL");
    command.arg(LOCK).arg(3).arg(lock).arg(queue).arg(timeouts).arg(whole_millis(request.ttl));
    command.arg(request.owner.to_string()).arg(whole_millis(WAIT)).arg(now());
    command.arg(u8::from(request.waits == Queueing::Queued));
    command
}

fn unlock(request: &Request) -> Cmd {
    let Keys { lock, queue, timeouts, channel } = Keys::of(&request.name);
    let mut command = redis::cmd("EVAL");
    command.arg(UNLOCK).arg(4).arg(lock).arg(queue).arg(timeouts).arg(channel).arg(MESSAGE);
    command.arg(whole_millis(request.ttl)).arg(request.owner.to_string()).arg(now());
    command
}

/// Returns this client's time in milliseconds, as the scripts take it.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

impl FairQueue {
    /// Takes the waiter out of the queue. Returns whether it stood there.
    async fn leave(&self, request: &Request, call: &Call) -> Result<bool> {
        let (keys, owner) = (Keys::of(&request.name), request.owner.to_string());
        let waited: u64 = self.0.ask(call, redis::cmd("LREM").arg(&keys.queue).arg(0).arg(&owner)).await?;
        self.0.ask::<u64>(call, redis::cmd("ZREM").arg(&keys.timeouts).arg(&owner)).await?;
        Ok(waited > 0)
    }
}

#[async_trait]
impl Recipe for FairQueue {
    type State = Waiter;

    async fn attempt(&self, request: &Request, waiter: &mut Waiter) -> Result<Attempt> {
        // Also if no answer comes.
        waiter.queued |= request.waits == Queueing::Queued;
        let wait: Option<i64> = self.0.ask(&call(request), &lock(request)).await?;
        let Some(wait) = wait else {
            *waiter = Waiter::default();
            return Ok(granted(request.ttl));
        };
        let busy = if waiter.queued { Busy::queued() } else { Busy::default() };
        Ok(Attempt::Busy(busy.with_free_in(u64::try_from(wait).ok().map(Duration::from_millis))))
    }

    async fn listen(&self, request: &Request, waiter: &mut Waiter) -> Result<()> {
        let call = call(request);
        let subscribed = async {
            let mut wakes = self.0.client.get_async_pubsub().await?;
            wakes.subscribe(format!("{}:{}", Keys::of(&request.name).channel, request.owner)).await?;
            Ok(wakes)
        };
        let subscribed = call.within(subscribed).await.ok_or_else(|| call.out_of_time(Effect::Unknown))?;
        waiter.wakes = Some(subscribed.map_err(|e| unavailable(Effect::Unknown, e))?);
        Ok(())
    }

    async fn changed(waiter: &mut Waiter) {
        let message = match &mut waiter.wakes {
            Some(wakes) => wakes.on_message().next().await,
            None => std::future::pending().await,
        };
        // The connection has ended: this wake-up is the last one, and the core looks from time to time.
        if message.is_none() {
            waiter.wakes = None;
        }
    }

    async fn renew(&self, request: &Request, _: &mut Waiter, ttl: Duration) -> Result<Renewal> {
        let (lock, owner) = (Keys::of(&request.name).lock, request.owner.to_string());
        let mut renew = redis::cmd("EVAL");
        renew.arg(RENEW).arg(1).arg(lock).arg(owner).arg(whole_millis(ttl));
        let is_held: bool = self.0.ask(&call(request), &renew).await?;
        Ok(if is_held { held(ttl) } else { lost() })
    }

    async fn release(&self, request: &Request, waiter: &mut Waiter) -> Result<bool> {
        let call = call(request);
        let unlocked: Option<u64> = self.0.ask(&call, &unlock(request)).await?;
        let left = waiter.queued && self.leave(request, &call).await?;
        waiter.queued = false;
        Ok(unlocked.is_some() || left)
    }

    async fn inspect(&self, name: &Name, call: &Call) -> Result<Inspection> {
        let keys = Keys::of(name);
        let holders: Vec<Vec<u8>> = self.0.ask(call, redis::cmd("HKEYS").arg(&keys.lock)).await?;
        let waiters = redis::cmd("LRANGE").arg(&keys.queue).arg(0).arg(-1).to_owned();
        let waiters: Vec<Vec<u8>> = self.0.ask(call, &waiters).await?;
        let entry = |owner: Vec<u8>| Entry::new(OwnerBytes::new(owner));
        let holder = holders.into_iter().map(entry).next();
        Ok(Inspection::new(holder, Some(waiters.into_iter().map(entry).collect())))
    }
}
