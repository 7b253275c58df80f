//! A claim: one owner's calls for one lock, each of them one script.

mod succession;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lock_core::driver::{
    Attempt, Busy, Call, Claim, Grant, LossReason, Predecessor, Queueing, Release, Renewal, Request,
    Succession, UnixTime, Watched, whole_millis,
};
use lock_core::{Effect, Error, FencingToken, Instant, Owner, Result};
use redis::{Cmd, Value};

use crate::acks::Kept;
use crate::feed::Topic;
use crate::layout::{Asker, Keys, Listens};
use crate::link::Link;
use crate::listening::Listening;
use crate::scripts::{self, Script};
use crate::server::Server;

/// By how much the end of one lease may seem to differ at two looks: as much as one answer is slower than the other.
const SAME_END: Duration = Duration::from_millis(20);

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
    /// That owner may tell no waiter of its release.
    untold: bool,
    /// Keeps the answer to a release that was sent and not answered yet.
    latch: Option<Box<[u8]>>,
    /// The answer to an attempt never came: the present holder may be this owner.
    maybe_held: bool,
    /// This owner had to wait for the lock.
    has_waited: bool,
    /// An attempt is under way, or its caller does not wait for its answer any more.
    is_asked: bool,
}

/// How a claim is written down on the server. It is made for each call: many locks are held at a time, and few of them are
/// asked about.
struct Written {
    keys: Keys,
    /// How this owner is written down while it holds the lock.
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
            untold: false,
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

    /// Tells the waiters that listen at this other server of a release.
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

    /// Asks for the lock. The server may refuse an attempt as late although it has time left, because our estimate of
    /// the server's clock was behind. The refusal corrects the estimate, and the attempt is sent once more.
    async fn grant(&mut self, call: &Call) -> Result<Attempt> {
        let written = self.written();
        for _ in 0..2 {
            let link = self.server.primary(call).await?;
            let grant = &self.server.layout.scripts().grant;
            let mut command = self.asks(grant, &written, &link, call);
            self.server.layout.add_to_grant(&mut command, self.asker(&written, &link));
            self.is_asked = true;
            let (answer, acknowledgement) =
                self.server.run_acknowledged_on(&link, call, grant, command).await?;
            self.is_asked = false;
            match answer.fields[..] {
                [1, token, left] => {
                    return match acknowledgement.kept().await {
                        Kept::Enough => {
                            grant_of(token, left).map(Attempt::Granted).ok_or_else(|| answer.unexpected())
                        }
                        too_few => Err(self.take_back(call, too_few).await),
                    };
                }
                [0, left] => return busy(left).map(Attempt::Busy),
                [3, left] => return Ok(Attempt::Busy(busy(left)?.and_untold())),
                [2, look] => return Ok(Attempt::Busy(Busy::queued().with_free_in(duration(look)))),
                [-1] if !call.left().is_zero() => {}
                [-1] => break,
                _ => return Err(answer.unexpected()),
            }
        }
        Err(too_late())
    }

    /// Returns the call of a script that can take the lock, with what all of these take first.
    fn asks(&self, script: &Script, written: &Written, link: &Link, call: &Call) -> Cmd {
        let mut command = script.on(&written.keys.with_token());
        command.arg(&written.value).arg(whole_millis(self.request.ttl)).arg(link.deadline(call));
        command
    }

    /// Returns whether other clients wait, from what a script has answered. Our own connection counts among those that
    /// listen only if it is subscribed both `before` and after.
    fn others(&self, releases: &Topic, before: bool, answered: i64) -> Option<bool> {
        let after = self.server.feed.is_confirmed(releases);
        let listens = if before && after { Listens::Also } else { Listens::NotNow };
        self.server.layout.others(answered, listens)
    }

    /// Gives up a lock that was granted, and that too few replicas know of.
    async fn take_back(&mut self, call: &Call, kept: Kept) -> Error {
        let message = format!("the grant was taken back: {kept}");
        match self.release_within(call).await {
            Ok(_) => Error::unavailable(Effect::NotApplied, message),
            Err(e) => Error::unavailable(Effect::Unknown, format!("{kept}; {}", e.message())).with_source(e),
        }
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

    /// Looks at a lock before it asks for it: once if the lock was seen held, and after a release as often as there are
    /// quarters of all waiters that have waited for longer, so that those ask first. Returns `None` if only the script can
    /// tell.
    async fn look_first(&mut self, call: &Call) -> Result<Option<Busy>> {
        if let Some(until) = self.taken_until.take() {
            return self.look(call, until).await;
        }
        let until = call.began() + self.request.ttl;
        for _ in 0..self.listening.as_ref().map_or(0, Listening::quarters_in_front) {
            if let Some(busy) = self.look(call, until).await? {
                return Ok(Some(busy));
            }
        }
        Ok(None)
    }

    /// Looks at a lock, at a seventh of what the script costs the server. As last seen, another owner has it `until` then.
    async fn look(&mut self, call: &Call, until: Instant) -> Result<Option<Busy>> {
        if self.maybe_held || call.began() >= until {
            return Ok(None);
        }
        match self.server.ask(call, redis::cmd("PTTL").arg(self.keys().lock)).await {
            Ok(Value::Int(left @ 0..)) => {
                let (busy, ends) =
                    (Busy::default().with_free_in(duration(left)), call.began() + duration(left));
                Ok(match self.untold {
                    false => Some(busy),
                    // Another lease: only the script shows whether its holder tells of its release.
                    true if ends > until + SAME_END => None,
                    true => Some(busy.and_untold()),
                })
            }
            Ok(_) => Ok(None),
            // A look has done nothing, also if it was not answered.
            Err(e) if e.is_transient() => {
                Err(Error::unavailable(Effect::NotApplied, e.message()).with_source(e))
            }
            Err(e) => Err(e),
        }
    }
}

/// The calls of the contract, each within a call that may have begun before: the caller counts its patience from there.
impl RedisClaim {
    pub(crate) fn call(&self) -> Call {
        Call::begin(&self.request.clock, self.request.patience)
    }

    pub(crate) async fn attempt_within(&mut self, call: &Call) -> Result<Attempt> {
        if self.request.waits == Queueing::Queued && self.listening.is_none() {
            let Server { feed, layout, .. } = &*self.server;
            self.listening = Listening::to_releases_already(feed, &self.releases(), *layout, &self.request);
        }
        let outcome = match self.look_first(call).await? {
            Some(busy) => Ok(Attempt::Busy(busy)),
            None => self.grant(call).await,
        };
        match outcome {
            Ok(Attempt::Granted(grant)) => {
                // A holder does not wait for wake-ups: one that it consumed would be missed by a waiter of this process.
                self.listening = None;
                Ok(Attempt::Granted(grant))
            }
            Ok(Attempt::Busy(busy)) => {
                self.has_waited = true;
                // A place in a queue is kept by asking: it needs the script each time.
                self.untold = busy.untold;
                let free_in = busy.free_in.filter(|_| !busy.queued);
                self.taken_until = free_in.map(|free_in| call.began() + free_in);
                Ok(Attempt::Busy(if self.listening.is_some() { busy.and_listens() } else { busy }))
            }
            Err(e) => {
                self.maybe_held |= e.may_have_taken_effect();
                Err(e)
            }
        }
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

    pub(crate) async fn renew_within(&mut self, call: &Call, ttl: Duration) -> Result<Renewal> {
        self.longest = self.longest.max(ttl);
        let link = self.server.primary(call).await?;
        let renew = &self.server.layout.scripts().renew;
        let written = self.written();
        let mut command = renew.on(&written.keys.without_token());
        command.arg(&written.value).arg(whole_millis(ttl)).arg(whole_millis(self.longest));
        self.server.layout.add_to_renewal(&mut command, self.asker(&written, &link));
        let (answer, acknowledgement) = self.server.run_acknowledged_on(&link, call, renew, command).await?;
        match answer.fields[..] {
            [1, left] => match acknowledgement.kept().await {
                Kept::Enough => Ok(Renewal::Held { valid_for: duration(left), age: Duration::ZERO }),
                // A replica that is promoted may have the earlier deadline.
                too_few => {
                    Err(Error::unavailable(Effect::Unknown, format!("the renewal does not count: {too_few}")))
                }
            },
            [0] => Ok(Renewal::Lost(LossReason::Gone)),
            [-1] => Ok(Renewal::Lost(LossReason::Revoked)),
            [-2] => Ok(Renewal::Lost(LossReason::Taken)),
            _ => Err(answer.unexpected()),
        }
    }

    pub(crate) async fn release_within(&mut self, call: &Call) -> Result<Release> {
        let releases = self.releases();
        let before = self.server.feed.is_confirmed(&releases);
        let link = self.server.primary(call).await?;
        let written = self.written();
        let release = &self.server.layout.scripts().release;
        let latch = match self.latch.take() {
            // This release was sent before, and its answer is missing.
            Some(latch) => Some(latch.into_vec()),
            None => self.server.layout.latch(&written.keys.lock, &Owner::mint(&self.server.random)),
        };
        self.latch = latch.as_deref().map(Box::from);
        let mut keys = written.keys.without_token();
        keys.extend(latch);
        let mut command = release.on(&keys);
        command.arg(&written.value).arg(written.keys.releases()).arg(link.facts.delivery.publish());
        self.server.layout.add_to_release(&mut command, self.asker(&written, &link));
        let answer = match self.is_asked {
            true => self.server.run_behind(&link, call, release, command).await?,
            false => self.server.run_on(&link, call, release, command).await?,
        };
        if let (Some(latch), [1, _]) = (self.latch.take(), &answer.fields[..]) {
            // The answer is here, and will not be asked for again.
            self.server.delete_in_background(latch.into_vec());
        }
        match answer.fields[..] {
            [1, others] => Ok(Release::Released { others: self.others(&releases, before, others) }),
            [0] => Ok(Release::NotHeld),
            _ => Err(answer.unexpected()),
        }
    }

    /// Reads the clock that ends this lock's lease: of the server that has the lock, which a script about its keys finds.
    pub(crate) async fn server_time_within(&mut self, call: &Call) -> Result<UnixTime> {
        let link = self.server.primary(call).await?;
        let inspect = &self.server.layout.scripts().inspect;
        let command = inspect.on(&self.keys().with_token());
        let shown = self.server.run_for_value(&link, call, inspect, command).await;
        scripts::time_of(&shown.map_err(Error::not_applied)?)
    }
}

#[async_trait]
impl Claim for RedisClaim {
    async fn attempt(&mut self) -> Result<Attempt> {
        let call = self.call();
        self.attempt_within(&call).await
    }

    async fn succeed(&mut self, predecessor: &Predecessor) -> Result<Succession> {
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

fn busy(left: i64) -> Result<Busy> {
    match left {
        -1 => Err(Error::rejected(
            "the key has no expiry: some clients write such a key when they take a lock without a timeout, as redis-py's \
             Lock does by default, and so do programs that keep other data there; have that client set a timeout, take \
             another name or prefix, or delete the key",
        )),
        // Free, and the turn of a waiter.
        -2 => Ok(Busy::default()),
        left => Ok(Busy::default().with_free_in(duration(left))),
    }
}

/// Converts the time left, which the server answered in milliseconds.
pub(crate) fn duration(millis: i64) -> Duration {
    Duration::from_millis(u64::try_from(millis).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_without_end_is_no_lock() {
        assert!(busy(-1).is_err());
        assert!(matches!(busy(0), Ok(Busy { free_in: Some(Duration::ZERO), .. })));
    }
}
