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

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use futures_util::StreamExt;
use lock_core::driver::{
    Attempt, Busy, Claim, Context, Entry, Fair, Grant, Inspection, LossReason, Queueing, Release, Renewal,
    Request, Wakes,
};
use lock_core::toolkit::{Call, whole_millis};
use lock_core::{Effect, Name, OwnerBytes, Result};
use redis::Cmd;
use redis::aio::PubSub;

use crate::driver::{LONGEST, Recipe, SchemeDriver, call, info, no_token, released};
use crate::redis_server::{RedisServer, unavailable};

pub(crate) const NAME: &str = "naive-fair-queue";

const LOCK: &str = include_str!("fair_queue/lock.lua");
const UNLOCK: &str = include_str!("fair_queue/unlock.lua");
const RENEW: &str = "if redis.call('hexists', KEYS[1], ARGV[1]) == 1 \
                     then redis.call('pexpire', KEYS[1], ARGV[2]) return 1 else return 0 end";

/// How long a waiter may stand at the head of the queue.
const WAIT: Duration = Duration::from_secs(5);
/// What a waiter is told. It means nothing but that it is told.
const MESSAGE: u8 = 0;

pub(crate) async fn open(url: String, context: Context) -> Result<SchemeDriver<FairQueue>> {
    let server = RedisServer::at(&url)?;
    server.ask::<()>(&Call::begin(&context.clock, context.patience), &redis::cmd("PING")).await?;
    let mut info = info(NAME, &url, Duration::from_millis(10)..=LONGEST);
    info.fair = Fair::PerProcess;
    info.wakes = Wakes::Pushed;
    info.clock = "the server's for leases; those of the clients for waiters, of which they drop each other's";
    info.data_loss =
        "frees every lock and forgets the queue; with n dead waiters in it, a free lock is not granted \
                      for up to 5n s after the lease"
            .to_owned();
    info.requests_per_hand_over = 2;
    Ok(SchemeDriver::new(FairQueue(Arc::new(server)), info, context))
}

#[derive(Clone, Debug)]
pub(crate) struct FairQueue(Arc<RedisServer>);

/// The keys of one name.
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

#[async_trait]
impl Recipe for FairQueue {
    fn claim(&self, request: Request) -> Box<dyn Claim> {
        let (keys, owner) = (Keys::of(&request.name), request.owner.to_string());
        Box::new(QueueClaim { server: self.0.clone(), keys, owner, request, queued: false, wakes: None })
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

struct QueueClaim {
    server: Arc<RedisServer>,
    keys: Keys,
    owner: String,
    request: Request,
    /// Whether it may stand in the queue.
    queued: bool,
    /// A connection that is subscribed to the channel of this waiter.
    wakes: Option<PubSub>,
}

impl fmt::Debug for QueueClaim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueueClaim").field("owner", &self.owner).field("queued", &self.queued).finish()
    }
}

impl QueueClaim {
    fn lock(&self) -> Cmd {
        let Keys { lock, queue, timeouts, .. } = &self.keys;
        let mut command = redis::cmd("EVAL");
        command.arg(LOCK).arg(3).arg(lock).arg(queue).arg(timeouts);
        command.arg(whole_millis(self.request.ttl)).arg(&self.owner).arg(whole_millis(WAIT)).arg(now());
        command.arg(u8::from(self.request.waits == Queueing::Queued));
        command
    }

    fn unlock(&self) -> Cmd {
        let Keys { lock, queue, timeouts, channel } = &self.keys;
        let mut command = redis::cmd("EVAL");
        command.arg(UNLOCK).arg(4).arg(lock).arg(queue).arg(timeouts).arg(channel);
        command.arg(MESSAGE).arg(whole_millis(self.request.ttl)).arg(&self.owner).arg(now());
        command
    }

    /// Takes the waiter out of the queue. Returns whether it stood there.
    async fn leave(&self, call: &Call) -> Result<bool> {
        let waited = redis::cmd("LREM").arg(&self.keys.queue).arg(0).arg(&self.owner).to_owned();
        let waited: u64 = self.server.ask(call, &waited).await?;
        let timed = redis::cmd("ZREM").arg(&self.keys.timeouts).arg(&self.owner).to_owned();
        self.server.ask::<u64>(call, &timed).await?;
        Ok(waited > 0)
    }
}

/// Returns this client's time in milliseconds, as the scripts take it.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[async_trait]
impl Claim for QueueClaim {
    async fn attempt(&mut self) -> Result<Attempt> {
        // Also if no answer comes.
        self.queued |= self.request.waits == Queueing::Queued;
        let wait: Option<i64> = self.server.ask(&call(&self.request), &self.lock()).await?;
        let Some(wait) = wait else {
            (self.queued, self.wakes) = (false, None);
            return Ok(Attempt::Granted(Grant::new(no_token(), self.request.ttl)));
        };
        let busy = if self.queued { Busy::queued() } else { Busy::default() };
        Ok(Attempt::Busy(busy.with_free_in(u64::try_from(wait).ok().map(Duration::from_millis))))
    }

    async fn listen(&mut self) -> Result<()> {
        let call = call(&self.request);
        let subscribed = async {
            let mut wakes = self.server.client().get_async_pubsub().await?;
            wakes.subscribe(format!("{}:{}", self.keys.channel, self.owner)).await?;
            Ok(wakes)
        };
        let subscribed = call.within(subscribed).await.ok_or_else(|| call.out_of_time(Effect::Unknown))?;
        self.wakes = Some(subscribed.map_err(|e| unavailable(Effect::Unknown, e))?);
        Ok(())
    }

    async fn changed(&mut self) {
        let message = match &mut self.wakes {
            Some(wakes) => wakes.on_message().next().await,
            None => std::future::pending().await,
        };
        // The connection has ended: this wake-up is the last one, and the core looks from time to time.
        if message.is_none() {
            self.wakes = None;
        }
    }

    async fn renew(&mut self, ttl: Duration) -> Result<Renewal> {
        let mut renew = redis::cmd("EVAL");
        renew.arg(RENEW).arg(1).arg(&self.keys.lock).arg(&self.owner).arg(whole_millis(ttl));
        Ok(match self.server.ask(&call(&self.request), &renew).await? {
            true => Renewal::Held { valid_for: ttl, age: Duration::ZERO },
            false => Renewal::Lost(LossReason::Gone),
        })
    }

    async fn release(&mut self) -> Result<Release> {
        let call = call(&self.request);
        let unlocked: Option<u64> = self.server.ask(&call, &self.unlock()).await?;
        let left = self.queued && self.leave(&call).await?;
        self.queued = false;
        Ok(released(unlocked.is_some() || left))
    }
}
