//! A held lock, as its user sees it. Everything here reads what the claim's task says, and the clock.

use std::fmt;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};

use crate::claim::{Granted, lost_because};
use crate::client::Shared;
use crate::clock::Instant;
use crate::driver::Cause;
use crate::errand::Errand;
use crate::error::Result;
use crate::keeper::Keeper;
use crate::name::Name;
use crate::owner::Owner;
use crate::token::FencingToken;

/// A held lock, renewed in the background while this lives, in the process that acquired it: in a fork of that it is lost.
///
/// Dropping it, anywhere, releases the lock in the background. Dropped as a program's last act it may not be released
/// before the runtime ends: then the server frees the lock one ttl later. [`Lock::run`](crate::Lock::run),
/// [`Guard::release`], [`Client::shutdown`](crate::Client::shutdown) and dedicated clients don't have that gap.
pub struct Guard {
    name: Name,
    owner: Owner,
    token: FencingToken,
    state: watch::Receiver<State>,
    commands: mpsc::UnboundedSender<Command>,
    errand: Arc<Errand>,
    shared: Arc<Shared>,
    // Last, so that a dedicated client's last guard has told its claim to leave before it waits for that.
    keeper: Arc<Keeper>,
}

/// What the claim's task tells the guard.
#[derive(Clone, Copy, Debug)]
pub(crate) struct State {
    pub(crate) until: Instant,
    /// Why it is lost when `until` comes.
    pub(crate) at_end: Cause,
    pub(crate) lost: Option<Cause>,
}

/// What the guard asks of the claim's task. The end of the channel asks for a release.
#[derive(Debug)]
pub(crate) enum Command {
    Renew { ttl: Duration, reply: oneshot::Sender<Result<Duration>> },
    Release(oneshot::Sender<Ending>),
}

/// How a hold came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "an expired lock may have been somebody else's before the work was done"]
pub enum Ending {
    /// It was held until it was released.
    Released,
    /// The lease had ended before, or the server could not be asked before it did.
    Expired,
}

impl Ending {
    /// One lower-case word: the label of the metric.
    pub fn as_str(self) -> &'static str {
        match self {
            Ending::Released => "released",
            Ending::Expired => "expired",
        }
    }
}

impl Guard {
    pub(crate) fn new(
        name: Name,
        granted: Granted,
        errand: Arc<Errand>,
        shared: Arc<Shared>,
        keeper: Arc<Keeper>,
    ) -> Guard {
        let Granted { owner, token, state, commands } = granted;
        Guard { name, owner, token, state, commands, errand, shared, keeper }
    }

    /// The lock's name.
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// This acquisition's identity, as the server has it.
    pub fn owner(&self) -> Owner {
        self.owner
    }

    /// The fencing token: give it to the resource, which refuses a lower one than it has seen.
    pub fn token(&self) -> FencingToken {
        self.token
    }

    /// Whether the lock is certainly held, now. Right at the next call also after this process was stopped.
    pub fn is_held(&self) -> bool {
        !self.valid_for().is_zero()
    }

    /// For how long the lock is certainly held if no renewal succeeds; zero once lost.
    ///
    /// Counted from before the server was asked, less 1 % and 2 ms, on a clock that goes on while the machine sleeps.
    pub fn valid_for(&self) -> Duration {
        match (self.loss(), *self.state.borrow()) {
            (None, State { until, .. }) => until.since(self.shared.clock.now()),
            (Some(_), _) => Duration::ZERO,
        }
    }

    /// Resolves when the lock is lost, with the reason, before anybody else can be granted it. Cancel safe.
    ///
    /// The exception is a break "now" (see [`When::Now`](crate::driver::When::Now)).
    pub async fn lost(&self) -> Cause {
        if self.keeper.is_inherited() {
            return Cause::RuntimeEnded;
        }
        let mut state = self.state.clone();
        let told = state.wait_for(|state| state.lost.is_some()).await.ok().and_then(|state| state.lost);
        told.unwrap_or(Cause::RuntimeEnded)
    }

    /// Resolves when less than `before` is left of what is certain, or the lock is lost: time to stop cleanly.
    ///
    /// A renewed lock goes down to two thirds of its ttl before every renewal: a `before` of less than half the ttl
    /// means that a renewal has failed. Cancel safe.
    pub async fn at_risk(&self, before: Duration) {
        let clock = &self.shared.clock;
        let mut state = self.state.clone();
        let watch = async {
            loop {
                let State { until, lost, .. } = *state.borrow_and_update();
                if lost.is_some() || until.since(clock.now()) <= before || self.keeper.is_inherited() {
                    return;
                }
                let at = Instant::from_origin(until.since_origin().saturating_sub(before));
                tokio::select! {
                    biased;
                    renewed = state.changed() => if renewed.is_err() { return },
                    () = clock.sleep_until(at) => {}
                }
            }
        };
        self.keeper.within(watch).await;
    }

    /// Runs `work` while the lock is held; drops it and answers [`Lost`](crate::ErrorKind::Lost) when it is lost.
    ///
    /// The clock is read before every poll of `work`, so that a process which did not run is not resumed in the middle
    /// of what it may no longer do; and after its end, so that `Ok` means that the lock was held until then. Cancel
    /// safe if `work` is.
    pub async fn protect<T>(&self, work: impl Future<Output = T>) -> Result<T> {
        let (mut lost, mut work) = (pin!(self.lost()), pin!(work));
        let out = poll_fn(|context| {
            if let Poll::Ready(cause) = lost.as_mut().poll(context) {
                return Poll::Ready(Err(cause));
            }
            self.still_held()?;
            let out = std::task::ready!(work.as_mut().poll(context));
            self.still_held()?;
            Poll::Ready(Ok(out))
        });
        out.await.map_err(|cause| self.shared.at("hold", Some(&self.name), lost_because(cause)))
    }

    /// Keeps the lock for `ttl` more from now, never for less than it had; answers for how long it is then certain.
    ///
    /// `Lost` if it is lost; `Unavailable` if the server did not answer, in which case the lock is held for as long as
    /// before. `Invalid` if `ttl` is outside the backend's bounds. Cancel safe: the renewal goes on.
    pub async fn renew(&self, ttl: Duration) -> Result<Duration> {
        let at = |e| self.shared.at("renew", Some(&self.name), e);
        self.shared.check_ttl(ttl).map_err(at)?;
        let lost = || lost_because(self.loss().unwrap_or(Cause::Expired));
        if self.keeper.is_inherited() {
            return Err(at(lost()));
        }
        let (reply, answer) = oneshot::channel();
        let outcome = match self.commands.send(Command::Renew { ttl, reply }) {
            Ok(()) => answer.await.unwrap_or_else(|_| Err(lost())),
            Err(_) => Err(lost()),
        };
        outcome.map_err(at)
    }

    /// Releases the lock and says whether it was held until then.
    ///
    /// Never an error for being late. With a dead server it waits until the lease has ended at most; the release goes
    /// on in the background, as it does if this future is dropped. With `min_hold` it waits for that first.
    pub async fn release(self) -> Ending {
        if self.keeper.is_inherited() {
            return Ending::Expired;
        }
        let (reply, answer) = oneshot::channel();
        // If nobody takes it, the lock was lost before: then its sender is gone, and the answer says so.
        let ask = || drop(self.commands.send(Command::Release(reply)));
        let answer = self.errand.answer(self.keeper.caller(), ask, answer);
        let ending = async {
            let mut answer = pin!(answer);
            loop {
                let until = self.state.borrow().until;
                match self.shared.clock.until(until, &mut answer).await {
                    Some(ending) => return ending.unwrap_or(Ending::Expired),
                    // Renewed meanwhile: a `min_hold` is waited for.
                    None if self.state.borrow().until > until => {}
                    None => return Ending::Expired,
                }
            }
        };
        self.keeper.within(ending).await
    }

    /// Why the lock is lost, if it is.
    fn loss(&self) -> Option<Cause> {
        let State { until, at_end, lost } = *self.state.borrow();
        lost.or_else(|| (until <= self.shared.clock.now()).then_some(at_end))
            .or_else(|| self.state.has_changed().is_err().then_some(Cause::RuntimeEnded))
            .or_else(|| self.keeper.is_inherited().then_some(Cause::RuntimeEnded))
    }

    fn still_held(&self) -> Result<(), Cause> {
        self.loss().map_or(Ok(()), Err)
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard")
            .field("name", &self.name)
            .field("owner", &self.owner)
            .field("token", &self.token)
            .field("valid_for", &self.valid_for())
            .finish_non_exhaustive()
    }
}
