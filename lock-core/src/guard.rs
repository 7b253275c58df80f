//! A held lock, as its user sees it.

mod hold;
mod protect;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::claim::lost_because;
use crate::clock::Clock;
use crate::driver::Cause;
use crate::error::{Error, Result};
use crate::keeper::Keeper;
use crate::name::Name;
use crate::owner::Owner;
use crate::token::FencingToken;

pub(crate) use hold::{Command, Hold, State};
pub(crate) use protect::protect;

/// A held lock, renewed in the background while this lives, in the process that acquired it: in a fork of that it is lost.
///
/// Dropping it, anywhere, releases the lock in the background. Dropped as a program's last act it may not be released
/// before the runtime ends: then the server frees the lock one ttl later. [`Lock::run`](crate::Lock::run),
/// [`Guard::release`], [`Client::shutdown`](crate::Client::shutdown) and dedicated clients don't have that gap.
///
/// A [reentrant](crate::LockBuilder::reentrant) lock has a guard for each time that it was entered: the last one to go
/// releases it, each one before renews it.
///
/// The lock is held for as long as the guard is kept, so one that is not kept is warned of:
///
/// ```compile_fail
/// # #![deny(unused_must_use)]
/// # async fn example(lock: lock_core::Lock) -> lock_core::Result<()> {
/// lock.acquire().await?; // warning: unused `Guard` that must be used
/// # Ok(()) }
/// ```
///
/// ```
/// # #![deny(unused_must_use)]
/// # async fn example(lock: lock_core::Lock) -> lock_core::Result<()> {
/// let _guard = lock.acquire().await?;
/// # Ok(()) }
/// ```
#[must_use = "a lock is released when its guard is dropped, here at once: keep it in a variable (`let _guard = …`; `_` \
              alone keeps nothing)"]
pub struct Guard {
    /// Taken when the guard goes, and at no other time.
    hold: Option<Arc<Hold>>,
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
    pub(crate) fn new(hold: Arc<Hold>) -> Guard {
        Guard { hold: Some(hold) }
    }

    /// On its way to the user: from now on `min_hold` counts. One that goes before that leaves nothing.
    pub(crate) fn handed_over(self) -> Guard {
        self.hold().is_handed_over();
        self
    }

    /// The lock's name.
    pub fn name(&self) -> &Name {
        &self.hold().name
    }

    /// This acquisition's identity, as the server has it.
    pub fn owner(&self) -> Owner {
        self.hold().owner
    }

    /// The fencing token: give it to the resource, which refuses a lower one than it has seen.
    pub fn token(&self) -> FencingToken {
        self.hold().token
    }

    /// Whether the lock is certainly held, now. Right at the next call also after this process was stopped.
    pub fn is_held(&self) -> bool {
        !self.valid_for().is_zero()
    }

    /// For how long the lock is certainly held if no renewal succeeds; zero once lost.
    ///
    /// Counted from before the server was asked, less 1 % and 2 ms, on a clock that goes on while the machine sleeps.
    pub fn valid_for(&self) -> Duration {
        self.hold().valid_for()
    }

    /// [`Lost`](crate::ErrorKind::Lost), with the reason, unless the lock is certainly held: a question to ask between
    /// two steps of work that can't be interrupted.
    pub fn check(&self) -> Result<()> {
        self.still_held().map_err(|cause| self.lost_because(cause))
    }

    /// Resolves when the lock is lost, with the reason, before anybody else can be granted it. Cancel safe.
    ///
    /// The exception is a break "now" (see [`When::Now`](crate::driver::When::Now)).
    pub async fn lost(&self) -> Cause {
        self.hold().lost().await
    }

    /// Resolves when less than `before` is left of what is certain, or the lock is lost: time to stop cleanly. Why it is
    /// lost, or will be.
    ///
    /// A renewed lock goes down to two thirds of its ttl before every renewal: a `before` of less than half the ttl
    /// means that a renewal has failed. Cancel safe.
    pub async fn at_risk(&self, before: Duration) -> Cause {
        self.hold().at_risk(before).await
    }

    /// Runs `work` while the lock is held; drops it and answers [`Lost`](crate::ErrorKind::Lost) when it is lost.
    ///
    /// The clock is read before every poll of `work`, so that a process which did not run is not resumed in the middle
    /// of what it may no longer do; and after its end, so that `Ok` means that the lock was held until then. Cancel
    /// safe if `work` is.
    pub async fn protect<T>(&self, work: impl Future<Output = T>) -> Result<T> {
        let out = protect(self.lost(), || self.still_held(), work).await;
        out.map_err(|cause| self.lost_because(cause))
    }

    /// Keeps the lock for `ttl` more from now, never for less than it had; answers for how long it is then certain.
    ///
    /// `Lost` if it is lost; `Unavailable` if the server did not answer, in which case the lock is held for as long as
    /// before. `Invalid` if `ttl` is outside the backend's bounds. Cancel safe: the renewal goes on.
    pub async fn renew(&self, ttl: Duration) -> Result<Duration> {
        let hold = self.hold();
        let at = |e| hold.at("renew", e);
        hold.shared.check_ttl(ttl).map_err(at)?;
        hold.renew(ttl).await.map_err(at)
    }

    /// Releases the lock and says whether it was held until then.
    ///
    /// Never an error for being late. With a dead server it waits until the lease has ended at most; the release goes
    /// on in the background, as it does if this future is dropped. With `min_hold` it waits for that first.
    ///
    /// Where a [reentrant](crate::LockBuilder::reentrant) lock has other guards, it stays held and is renewed.
    pub async fn release(mut self) -> Ending {
        // Nobody else takes it.
        let Some(hold) = self.hold.take() else { return Ending::Expired };
        let ending = match Arc::strong_count(&hold) {
            // Whoever enters in this very moment has seen it held.
            1 => Ending::Released,
            _ => {
                hold.prolonged().await;
                hold.standing()
            }
        };
        // Of guards that go at the same time, exactly one is the last.
        match Arc::into_inner(hold) {
            Some(last) => last.release().await,
            None => ending,
        }
    }

    pub(crate) fn still_held(&self) -> Result<(), Cause> {
        self.hold().loss().map_or(Ok(()), Err)
    }

    pub(crate) fn keeper(&self) -> &Arc<Keeper> {
        &self.hold().keeper
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.hold().shared.clock
    }

    pub(crate) fn lost_because(&self, cause: Cause) -> Error {
        self.hold().at("hold", lost_because(cause))
    }

    fn hold(&self) -> &Hold {
        self.hold.as_deref().expect("a guard has its hold until it goes")
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(hold) = self.hold.take()
            && Arc::strong_count(&hold) > 1
        {
            hold.prolong();
        }
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard")
            .field("name", self.name())
            .field("owner", &self.owner())
            .field("token", &self.token())
            .field("valid_for", &self.valid_for())
            .finish_non_exhaustive()
    }
}
