//! A claim: one owner's calls for one lock, each of them one script.

mod attempt;
mod holding;
mod takeover;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lock_core::driver::{
    Attempt, Claim, Grant, Predecessor, Release, Renewal, Request, Takeover, UnixTime, Watched,
};
use lock_core::toolkit::{Call, whole_millis};
use lock_core::{Effect, Error, FencingToken, Instant, Result};
use redis::Cmd;

use crate::feed::Topic;
use crate::layout::{Asker, Keys};
use crate::link::Link;
use crate::listening::Listening;
use crate::scripts::{self, Script, TELL_TIME};
use crate::server::Server;

/// One owner's claim on one lock.
#[derive(Debug)]
pub(crate) struct RedisClaim {
    server: Arc<Server>,
    request: Request,
    /// The longest ttl that was asked for so far.
    longest: Duration,
    listening: Option<Listening>,
    /// Until when another owner holds the lock, as last seen. Cleared at a wake-up.
    taken_until: Option<Instant>,
    /// That owner may notify no waiter of its release.
    without_notification: bool,
    /// Keeps the answer to a release that was sent and not answered yet.
    latch: Option<Box<[u8]>>,
    /// The answer to an attempt never came: the present holder may be this owner.
    maybe_held: bool,
    /// The owner had to wait for the lock.
    has_waited: bool,
    /// An attempt is under way, or its caller does not wait for its answer any more.
    is_asked: bool,
}

/// The form of a claim on the server. It is made for each call: many locks are held at a time, and few of
/// them are asked about.
struct Written {
    keys: Keys,
    /// The text of this owner in the lock's value while it holds the lock.
    value: String,
}

impl RedisClaim {
    pub(crate) fn new(server: Arc<Server>, request: Request) -> RedisClaim {
        RedisClaim {
            longest: request.ttl,
            server,
            request,
            listening: None,
            taken_until: None,
            without_notification: false,
            latch: None,
            maybe_held: false,
            has_waited: false,
            is_asked: false,
        }
    }

    /// Asks this server from now on, which has the lock instead of the present one. Listens to nothing there yet.
    pub(crate) fn move_to(&mut self, server: &Arc<Server>) {
        self.server = server.clone();
        (self.listening, self.taken_until) = (None, None);
    }

    pub(crate) fn is_listening(&self) -> bool {
        self.listening.is_some()
    }

    /// Returns whether it listens for a release that the server does not report at present.
    pub(crate) fn is_deaf(&self) -> bool {
        self.listening.is_some() && !self.server.feed.is_confirmed(&self.releases())
    }

    pub(crate) fn stop_listening(&mut self) {
        self.listening = None;
    }

    /// Notifies the waiters that listen at this other server of a release.
    pub(crate) fn tell_at(&self, server: &Server) {
        server.publish_in_background(&self.keys().releases(), server.layout.released());
    }

    fn keys(&self) -> Keys {
        self.server.keys(&self.request.name)
    }

    fn releases(&self) -> Topic {
        Topic::releases(&self.request.name, &self.keys().releases())
    }

    fn written(&self) -> Written {
        let Request { owner, label, .. } = &self.request;
        Written { keys: self.keys(), value: self.server.layout.held(owner, label) }
    }

    /// Returns the server that was asked last.
    pub(crate) fn server(&self) -> &Server {
        &self.server
    }

    /// Asks this server, and listens as before.
    pub(crate) fn ask_at(&mut self, server: &Arc<Server>) {
        self.server = server.clone();
    }

    /// Returns the call of a script that can take the lock, with what all of these take first.
    fn asks(&self, script: &Script, written: &Written, link: &Link, call: &Call) -> Cmd {
        let mut command = script.on(&written.keys.with_token());
        command.arg(&written.value).arg(whole_millis(self.request.ttl)).arg(link.deadline(call));
        command
    }

    fn asker<'a>(&'a self, written: &'a Written, link: &Link) -> Asker<'a> {
        Asker {
            request: &self.request,
            value: &written.value,
            keys: &written.keys,
            client: &self.server.client_digits,
            delivery: link.facts.delivery,
            has_waited: self.has_waited,
        }
    }
}

/// The calls of the contract, each within a call that may have begun before: the caller counts its patience from there.
impl RedisClaim {
    pub(crate) fn call(&self) -> Call {
        Call::begin(&self.request.clock, self.request.patience)
    }

    pub(crate) async fn listen_within(&mut self, call: &Call) -> Result<()> {
        if self.listening.is_none() {
            let Server { feed, layout, .. } = &*self.server;
            let listening =
                Listening::to_releases(feed, &self.releases(), *layout, &self.request, call).await?;
            self.listening = Some(listening);
        }
        Ok(())
    }

    pub(crate) async fn watch_within(&mut self, call: &Call) -> Result<Watched> {
        let watching = self.server.watch(self.request.owner, call).await?;
        self.listening = Some(Listening::to_revokes(watching));
        Ok(Watched::FromNowOn)
    }

    /// Reads the clock that ends this lock's lease: of the server that has the lock, which a script about its keys finds.
    pub(crate) async fn server_time_within(&mut self, call: &Call) -> Result<UnixTime> {
        let link = self.server.primary(call).await?;
        let command = TELL_TIME.on(&self.keys().alone());
        let told = self.server.run_for_value(&link, call, &TELL_TIME, command).await;
        scripts::time_of(&told.map_err(Error::not_applied)?)
    }
}

#[async_trait]
impl Claim for RedisClaim {
    async fn attempt(&mut self) -> Result<Attempt> {
        let call = self.call();
        self.attempt_within(&call).await
    }

    async fn take_over(&mut self, predecessor: &Predecessor) -> Result<Takeover> {
        let call = self.call();
        self.succeed_within(&call, predecessor).await
    }

    async fn listen(&mut self) -> Result<()> {
        let call = self.call();
        self.listen_within(&call).await
    }

    async fn changed(&mut self) {
        match &self.listening {
            Some(listening) => listening.woken().await,
            None => std::future::pending().await,
        }
        self.taken_until = None;
    }

    async fn watch(&mut self) -> Result<Watched> {
        let call = self.call();
        self.watch_within(&call).await
    }

    async fn renew(&mut self, ttl: Duration) -> Result<Renewal> {
        let call = self.call();
        self.renew_within(&call, ttl).await
    }

    async fn release(&mut self) -> Result<Release> {
        let call = self.call();
        self.release_within(&call).await
    }

    async fn server_time(&mut self) -> Result<UnixTime> {
        let call = self.call();
        self.server_time_within(&call).await
    }
}

fn grant_of(token: i64, left: i64) -> Option<Grant> {
    let token = FencingToken::new(u64::try_from(token).ok()?)?;
    Some(Grant::new(token, duration(left)))
}

fn too_late() -> Error {
    let message = "the attempt reached the server too late, and was refused for it";
    Error::unavailable(Effect::NotApplied, message)
}

/// Converts the time left, which the server answered in milliseconds.
pub(crate) fn duration(millis: i64) -> Duration {
    Duration::from_millis(u64::try_from(millis).unwrap_or(0))
}
