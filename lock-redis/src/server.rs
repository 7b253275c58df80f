//! The server as the claims see it: one connection, opened when it is needed and replaced when it is no longer usable,
//! and calls on it that end in time.

use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lock_core::driver::{Call, Context, Feed, Prefix, Subscription};
use lock_core::{Clock, Effect, Error, Name, Random, Result};
use redis::{Cmd, ErrorKind, ProtocolVersion, RedisResult, ServerErrorKind, Value};

use crate::errors;
use crate::feed::{Channels, Topic};
use crate::link::Link;
use crate::profile::Profile;
use crate::scripts::{Answer, Script};
use crate::settings::Redis;
use crate::side::{Kind, side_key};

/// What all claims of a client share.
#[derive(Debug)]
pub(crate) struct Server {
    client: redis::Client,
    pub(crate) clock: Clock,
    pub(crate) random: Random,
    pub(crate) prefix: Prefix,
    pub(crate) profile: Arc<Profile>,
    pub(crate) feed: Feed<Channels>,
    current: Mutex<Option<Arc<Link>>>,
    /// How long opening a connection may take.
    patience: Duration,
    /// Held while a connection is being opened; other calls that need one wait for it.
    opening: Arc<tokio::sync::Mutex<()>>,
}

impl Server {
    pub(crate) fn new(redis: Redis, context: Context) -> Result<Server> {
        let database = redis.connection.redis_settings().db();
        let profile = Arc::new(Profile::new(redis.address(), database, &redis.prefix));
        // RESP3, because only with it does redis report the end of a connection on which no command is under way.
        let speaking = |protocol| {
            let login = redis.connection.redis_settings().clone().set_protocol(protocol);
            redis::Client::open(redis.connection.clone().set_redis_settings(login))
                .map_err(errors::connecting)
        };
        let client = speaking(ProtocolVersion::RESP3)?;
        let channels = Channels::new(speaking(ProtocolVersion::RESP2)?, profile.clone());
        Ok(Server {
            client,
            feed: Feed::new(channels, context.clone()),
            clock: context.clock,
            random: context.random,
            prefix: redis.prefix,
            profile,
            current: Mutex::default(),
            patience: context.patience,
            opening: Arc::default(),
        })
    }

    /// Returns the channel on which revokes are published.
    pub(crate) fn revokes_channel(&self) -> Vec<u8> {
        side_key(self.prefix.as_str().as_bytes(), Kind::Revokes)
    }

    /// Listens to revokes of what this owner holds, from its return on.
    ///
    /// `Unsupported` if this user may not subscribe.
    pub(crate) async fn watch(&self, owner: &Name, call: &Call) -> Result<Subscription> {
        self.feed.watch(owner, Topic::revokes(&self.revokes_channel()), call).await
    }

    /// Runs a script that writes, and returns the numbers that it answered.
    pub(crate) async fn run(self: &Arc<Self>, call: &Call, script: &Script, command: Cmd) -> Result<Answer> {
        let link = self.primary(call).await?;
        self.run_on(&link, call, script, command).await
    }

    /// Like `run`, on the connection whose clock estimate the command's deadline is based on.
    pub(crate) async fn run_on(
        &self,
        link: &Arc<Link>,
        call: &Call,
        script: &Script,
        command: Cmd,
    ) -> Result<Answer> {
        let answer = Answer::parse(&self.run_for_value(link, call, script, command).await?)?;
        link.hear(call.clock(), answer.now);
        Ok(answer)
    }

    /// Runs a script whose answer is more than numbers.
    pub(crate) async fn run_for_value(
        &self,
        link: &Arc<Link>,
        call: &Call,
        script: &Script,
        command: Cmd,
    ) -> Result<Value> {
        // Pinned here: a future that is passed on by value takes up its size again in each future that it is passed to.
        let answer = pin!(async {
            match link.send(&command).await {
                // The script was not run: the server has forgotten its scripts, or never knew this one. Sending it in
                // full, instead of loading it first, takes one more round trip, and no failover can happen in between.
                Err(e) if e.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
                    Box::pin(link.send(&script.in_full(&command))).await
                }
                outcome => outcome,
            }
        });
        self.within(link, call, answer).await
    }

    /// Sends a plain command.
    pub(crate) async fn ask(self: &Arc<Self>, call: &Call, command: &Cmd) -> Result<Value> {
        let link = self.link(call).await?;
        self.within(&link, call, pin!(link.send(command))).await
    }

    /// Waits for an answer until the call is over. Gives up a connection that broke or stayed silent for so long: the
    /// next call opens another. Calls that still wait on the old one may go on.
    async fn within(
        &self,
        link: &Arc<Link>,
        call: &Call,
        answer: impl Future<Output = RedisResult<Value>>,
    ) -> Result<Value> {
        let left = call.left();
        if left.is_zero() {
            return Err(call.out_of_time(Effect::NotApplied));
        }
        match call.clock().timeout(left, answer).await {
            Some(Ok(value)) => Ok(value),
            Some(Err(e)) => {
                if errors::ends_connection(&e) {
                    self.give_up(link);
                }
                Err(errors::asking(e))
            }
            None => {
                self.give_up(link);
                Err(call.out_of_time(Effect::Unknown))
            }
        }
    }

    /// Returns the connection, for a command that writes. A replica is refused even if it takes writes. If the server
    /// was a replica when it was connected to, this connects anew: it may have been promoted since, or its address may
    /// lead to another server.
    pub(crate) async fn primary(self: &Arc<Self>, call: &Call) -> Result<Arc<Link>> {
        if let Some(known) = self.usable().filter(|link| link.facts.is_replica()) {
            self.give_up(&known);
        }
        let link = self.link(call).await?;
        match link.facts.is_replica() {
            true => Err(errors::replica()),
            false => Ok(link),
        }
    }

    /// Returns the connection; opens one if there is none. If this fails, nothing has been asked.
    pub(crate) async fn link(self: &Arc<Self>, call: &Call) -> Result<Arc<Link>> {
        match self.usable() {
            Some(link) => Ok(link),
            // On the heap: otherwise every call's future would reserve space for it, and almost none needs it.
            None => Box::pin(call.clock().timeout(call.left(), self.open()))
                .await
                .unwrap_or_else(|| Err(call.out_of_time(Effect::NotApplied))),
        }
    }

    /// Opens a connection in a task of its own. If opening takes longer than this call may, the calls after it still
    /// get the connection.
    async fn open(self: &Arc<Self>) -> Result<Arc<Link>> {
        let opening = self.opening.clone().lock_owned().await;
        // Another call opened it while this one waited for its turn.
        if let Some(link) = self.usable() {
            return Ok(link);
        }
        let server = self.clone();
        let task = tokio::spawn(async move {
            let _opening = opening;
            let call = &Call::begin(&server.clock, server.patience);
            let link = server.clock.timeout(server.patience, Link::open(&server.client, &server.clock)).await;
            let link = Arc::new(link.unwrap_or_else(|| Err(call.out_of_time(Effect::NotApplied)))?);
            server.profile.learn(&link.facts);
            *server.current() = Some(link.clone());
            Ok(link)
        });
        task.await.unwrap_or_else(|e| {
            Err(Error::unavailable(Effect::NotApplied, "connecting ended early").with_source(e))
        })
    }

    fn usable(&self) -> Option<Arc<Link>> {
        self.current().as_ref().filter(|link| !link.is_closed()).cloned()
    }

    fn give_up(&self, link: &Arc<Link>) {
        let mut current = self.current();
        if current.as_ref().is_some_and(|current| Arc::ptr_eq(current, link)) {
            *current = None;
        }
    }

    fn current(&self) -> MutexGuard<'_, Option<Arc<Link>>> {
        // Nothing that can panic runs under this lock.
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
