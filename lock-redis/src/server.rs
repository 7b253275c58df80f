//! The server as the claims see it: one connection, opened when it is needed and replaced when it is no longer usable,
//! and calls on it that end in time. Of several servers it is the primary; which one that is, is asked at each connection.

use std::pin::pin;
use std::sync::Arc;

use lock_core::driver::Context;
use lock_core::toolkit::{Call, Feed, Prefix, SharedConnection, Subscription};
use lock_core::{Clock, Effect, Instant, Name, Owner, Random, Result};
use redis::{Cmd, ErrorKind, RedisResult, ServerErrorKind, Value};
use tokio::sync::watch;

use crate::acks::{Acknowledged, Acknowledgement, Reply};
use crate::calls::Way;
use crate::errors;
use crate::feed::{Channels, Topic};
use crate::finder::{self, Finder};
use crate::layout::{CLIENT_DIGITS, Keys, Layout};
use crate::link::{Connector, Link};
use crate::profile::Profile;
use crate::scripts::{Answer, Script};
use crate::settings::Redis;
use crate::side::{Kind, side_key};

/// State that all claims of a client share. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    pub(crate) clock: Clock,
    pub(crate) random: Random,
    pub(crate) prefix: Prefix,
    pub(crate) layout: Layout,
    /// The prefix of the queue positions of this client's waiters, by which it is notified of their turns.
    pub(crate) client_digits: Arc<str>,
    pub(crate) profile: Arc<Profile>,
    pub(crate) feed: Arc<Feed<Channels>>,
    pub(crate) finder: Arc<Finder>,
    links: Arc<SharedConnection<Connector>>,
    way: Way,
}

/// The answers that a request waits for besides the primary's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waits {
    /// Nothing.
    No,
    /// The answers to those that were sent before, which may wait for replicas.
    ForEarlier,
    /// As many replicas as acknowledge each grant of this client.
    ForReplicas,
}

impl Server {
    pub(crate) fn new(redis: Redis, context: Context) -> Result<Server> {
        let profile = Arc::new(Profile::new(&redis));
        let client_digits = digits_of_a_client(&context.random);
        Server::of_client(redis, context, profile, client_digits)
    }

    /// Makes one of several servers of the same client.
    pub(crate) fn of_client(
        redis: Redis,
        context: Context,
        profile: Arc<Profile>,
        client_digits: Arc<str>,
    ) -> Result<Server> {
        let finder = Arc::new(Finder::new(redis.servers)?);
        let links = Arc::new(SharedConnection::new(Connector {
            finder: finder.clone(),
            profile: profile.clone(),
            acks: redis.acks,
            patience: context.patience,
            newest: watch::Sender::default(),
        }));
        let channels =
            Channels::new(finder.clone(), links.clone(), profile.clone(), client_digits.clone(), &context);
        Ok(Server {
            feed: Arc::new(Feed::new(channels, context.clone())),
            clock: context.clock,
            random: context.random,
            prefix: redis.common.prefix,
            layout: redis.layout,
            client_digits,
            profile,
            finder,
            links,
            way: Way::Straight,
        })
    }

    /// Returns the same server for requests about a key that is on its way to it, from another member of its cluster.
    pub(crate) fn asking(&self) -> Server {
        Server { way: Way::Asking, ..self.clone() }
    }

    /// Returns the address of the only server, for people; empty if there are several.
    pub(crate) fn address(&self) -> String {
        self.finder.only_server().map_or_else(String::new, finder::address)
    }

    /// Returns whether both are the same server of one client.
    pub(crate) fn is_same(&self, other: &Server) -> bool {
        Arc::ptr_eq(&self.links, &other.links)
    }

    /// Returns the keys of the lock with this name.
    pub(crate) fn keys(&self, name: &Name) -> Keys {
        self.layout.keys(self.prefix.key(name).into_bytes())
    }

    /// Returns the channel on which revokes are published.
    pub(crate) fn revokes_channel(&self) -> Vec<u8> {
        side_key(self.prefix.as_str().as_bytes(), Kind::Revokes)
    }

    /// Listens to revokes of what this owner holds, from its return on.
    ///
    /// `Unsupported` if this user may not subscribe.
    pub(crate) async fn watch(&self, owner: Owner, call: &Call) -> Result<Subscription> {
        self.feed.watch(owner, Topic::revokes(&self.revokes_channel()), call).await
    }

    /// Runs a script that writes, on the connection whose facts and clock estimate the command is based on, and returns
    /// the numbers that it answered.
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

    /// Runs a script that writes what a failover must not lose. Replicas have half of the time that is left
    /// to acknowledge it, so that the caller can take back what they did not.
    pub(crate) async fn run_acknowledged_on(
        &self,
        link: &Arc<Link>,
        call: &Call,
        script: &Script,
        command: Cmd,
    ) -> Result<(Answer, Acknowledgement)> {
        let reply = self.reply(link, call, script, &command, Waits::ForReplicas).await?;
        let answer = Answer::parse(&reply.value)?;
        link.hear(call.clock(), answer.now);
        Ok((answer, reply.acknowledgement))
    }

    /// Runs a script whose answer does not count.
    pub(crate) async fn keep(
        &self,
        link: &Arc<Link>,
        call: &Call,
        script: &Script,
        command: Cmd,
    ) -> Result<Acknowledged> {
        let reply = self.reply(link, call, script, &command, Waits::ForReplicas).await?;
        Ok(reply.acknowledgement.kept().await)
    }

    /// Runs a script after all attempts of this client that were sent before, also those that were not answered.
    pub(crate) async fn run_behind(
        &self,
        link: &Arc<Link>,
        call: &Call,
        script: &Script,
        command: Cmd,
    ) -> Result<Answer> {
        let reply = self.reply(link, call, script, &command, Waits::ForEarlier).await?;
        Answer::parse(&reply.value)
    }

    /// Runs a script whose answer is more than numbers.
    pub(crate) async fn run_for_value(
        &self,
        link: &Arc<Link>,
        call: &Call,
        script: &Script,
        command: Cmd,
    ) -> Result<Value> {
        Ok(self.reply(link, call, script, &command, Waits::No).await?.value)
    }

    async fn reply(
        &self,
        link: &Arc<Link>,
        call: &Call,
        script: &Script,
        command: &Cmd,
        waits: Waits,
    ) -> Result<Reply> {
        // Pinned here: a future that is passed on by value takes up its size again in each future that it is passed to.
        let answer = pin!(async {
            match self.send(link, call, command, waits).await {
                // The script was not run: the server has forgotten its scripts, or never knew this one. Sending it in
                // full, instead of loading it first, takes one more round trip, and no failover can happen in between.
                Err(e) if e.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
                    Box::pin(self.send(link, call, &script.in_full(command), waits)).await
                }
                outcome => outcome,
            }
        });
        self.within(link, call, answer).await
    }

    /// Sends a plain command.
    pub(crate) async fn ask(&self, call: &Call, command: &Cmd) -> Result<Value> {
        let link = self.link(call).await?;
        let reply = self.within(&link, call, pin!(self.send(&link, call, command, Waits::No))).await?;
        Ok(reply.value)
    }

    async fn send(&self, link: &Link, call: &Call, command: &Cmd, waits: Waits) -> RedisResult<Reply> {
        let value = match (&link.acknowledged, waits) {
            (Some(calls), Waits::ForReplicas) => {
                return calls.send(command, self.way, call.clock().now() + call.left() / 2).await;
            }
            (Some(calls), Waits::ForEarlier) => return calls.send_behind(command, self.way).await,
            (None, _) | (_, Waits::No) => match self.way {
                Way::Straight => link.send(command).await?,
                Way::Asking => link.send_asking(command).await?,
            },
        };
        Ok(Reply::of_primary(value))
    }

    /// Deletes a key that expires anyway, without waiting for it.
    pub(crate) fn delete_in_background(&self, key: Vec<u8>) {
        if let Some(link) = self.links.usable() {
            tokio::spawn(async move {
                let mut delete = redis::cmd("DEL");
                let _: RedisResult<Value> = link.send(delete.arg(key)).await;
            });
        }
    }

    /// Publishes on a channel that only the members with its slot pass on, without waiting for it.
    pub(crate) fn publish_in_background(&self, channel: &[u8], message: &'static str) {
        let Some(link) = self.links.usable() else { return };
        let mut publish = redis::cmd(link.facts.delivery.publish());
        publish.arg(channel).arg(message);
        tokio::spawn(async move {
            let _: RedisResult<Value> = link.send(&publish).await;
        });
    }

    /// Waits for an answer until the call is over. Gives up a connection that broke or stayed silent for so long: the
    /// next call opens another. Calls that still wait on the old one may go on, unless another server is known to be the
    /// primary.
    async fn within(
        &self,
        link: &Arc<Link>,
        call: &Call,
        answer: impl Future<Output = RedisResult<Reply>>,
    ) -> Result<Reply> {
        if call.is_over() {
            return Err(call.out_of_time(Effect::NotApplied));
        }
        let answer = async {
            tokio::select! {
                biased;
                answer = answer => Some(answer),
                () = link.left() => None,
            }
        };
        match call.within(answer).await {
            Some(Some(Ok(reply))) => Ok(reply),
            Some(Some(Err(e))) => {
                if errors::ends_connection(&e) {
                    self.links.give_up(link);
                }
                Err(errors::asking(e, self.layout))
            }
            Some(None) => Err(errors::left()),
            None => {
                self.links.give_up(link);
                Err(call.out_of_time(Effect::Unknown))
            }
        }
    }

    /// Returns the connection, for a command that writes. A replica is refused even if it takes writes. If the server
    /// was a replica when it was connected to, this connects anew: it may have been promoted since, or its address may
    /// lead to another server.
    pub(crate) async fn primary(&self, call: &Call) -> Result<Arc<Link>> {
        if let Some(known) = self.links.usable().filter(|link| link.facts.is_replica()) {
            self.links.give_up(&known);
        }
        let link = self.link(call).await?;
        match link.facts.is_replica() {
            true => Err(errors::replica()),
            false => Ok(link),
        }
    }

    /// Returns an estimate of what the server's clock shows when a request arrives that is `sent` then, in microseconds.
    /// `None` without a connection.
    pub(crate) fn on_arrival(&self, sent: Instant) -> Option<i64> {
        self.links.usable().map(|link| link.on_arrival(sent))
    }

    /// Returns the connection; opens one if there is none. If this fails, nothing has been asked.
    pub(crate) async fn link(&self, call: &Call) -> Result<Arc<Link>> {
        self.links.get(call).await
    }
}

/// Mints what the places of a client's waiters begin with.
pub(crate) fn digits_of_a_client(random: &Random) -> Arc<str> {
    Owner::mint(random).to_string()[..CLIENT_DIGITS].into()
}
