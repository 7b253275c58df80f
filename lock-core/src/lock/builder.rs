//! The builder of a lock and its terms.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::{DEFAULT_TTL, Lock};
use crate::acquisition::{Shared, Terms, less_margin};
use crate::driver::{Lease, Mode};
use crate::error::{Error, Result};
use crate::human_duration::HumanDuration;
use crate::name::Name;
use crate::owner::Label;
use crate::process::Shares;
use crate::reentrant::Reentrant;
use crate::runtime::RuntimeHandle;

/// Builds a [`Lock`]: a name and its terms.
///
/// ```
/// # use lock_core as onelock;
/// # async fn example(client: onelock::Client) -> onelock::Result<()> {
/// use std::time::Duration;
///
/// let lock = client
///     .lock("deploy")
///     .ttl(Duration::from_secs(10)) // kept for so long without a renewal
///     .wait(Duration::from_secs(60)) // how long `acquire` waits
///     .max_hold(Duration::from_secs(3600))
///     .label("deploy of web-3") // what others see
///     .build()?;
/// assert_eq!(lock.ttl(), Duration::from_secs(10));
/// # Ok(()) }
/// ```
#[derive(Clone)]
#[must_use = "a builder does nothing until `build`"]
pub struct LockBuilder {
    shared: Shares<Shared>,
    runtime: Shares<RuntimeHandle>,
    name: String,
    ttl: Option<Duration>,
    wait: Option<Duration>,
    renewed: bool,
    max_hold: Option<Duration>,
    min_hold: Option<Duration>,
    label: Option<Label>,
    reentrant: Option<Reentrant>,
}

impl LockBuilder {
    pub(crate) fn new(shared: Shares<Shared>, runtime: Shares<RuntimeHandle>, name: String) -> LockBuilder {
        LockBuilder {
            shared,
            runtime,
            name,
            ttl: None,
            wait: None,
            renewed: true,
            max_hold: None,
            min_hold: None,
            label: None,
            reentrant: None,
        }
    }

    /// Sets how long the lock is kept without a renewal. By default 30 s, or the nearest time that the backend allows.
    ///
    /// The lock is renewed every third of the ttl.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// Sets how long [`Lock::acquire`] waits. By default it waits without a limit.
    ///
    /// A wait of more than a hundred years is the same as no limit.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = Some(wait);
        self
    }

    /// Never renews the lock by itself: it ends one ttl after the grant, unless [`Guard::renew`](crate::Guard::renew)
    /// prolongs it.
    pub fn fixed_lease(mut self) -> Self {
        self.renewed = false;
        self
    }

    /// Sets the longest time for which the lock is held, renewals included. Then the lock is lost with
    /// [`LossReason::MaxHold`](crate::LossReason::MaxHold).
    pub fn max_hold(mut self, most: Duration) -> Self {
        self.max_hold = Some(most);
        self
    }

    /// Sets the shortest time for which the lock is held.
    ///
    /// It is meant for several clients that do the same work at the same time by their own clocks: a client whose clock
    /// is a little behind then still finds the lock held.
    ///
    /// An earlier release waits for this time. So do [`Guard::release`](crate::Guard::release), [`Lock::run`] and
    /// [`Lock::try_run`], which return when the lock has been given back. If the guard or their future is dropped, the
    /// release happens in the background, provided that the runtime goes on. Otherwise the server frees the lock one
    /// ttl after the last renewal, as after a crash.
    pub fn min_hold(mut self, least: Duration) -> Self {
        self.min_hold = Some(least);
        self
    }

    /// Sets the text that people see for the holder. By default the client's label.
    pub fn label(mut self, label: impl AsRef<str>) -> Self {
        self.label = Some(Label::new(label));
        self
    }

    /// Lets code that has a clone of `owner` enter this lock again while `owner` holds it. It does not wait then, and
    /// sends the server no request. See [`Reentrant`].
    pub fn reentrant(mut self, owner: &Reentrant) -> Self {
        self.reentrant = Some(owner.clone());
        self
    }

    /// Builds the lock.
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::ErrorKind::Invalid)
    ///
    /// - for a name or a ttl that the backend does not allow,
    /// - for a `max_hold` of zero or below `min_hold`,
    /// - for a `min_hold` that is not shorter than a fixed lease certainly lasts. On a server that keeps sessions, that
    ///   is about half of the ttl.
    pub fn build(self) -> Result<Lock> {
        let LockBuilder { shared, runtime, .. } = self;
        let invalid = |e: Error| shared.at("build", None, e);
        let name = Name::new(&self.name).map_err(invalid)?;
        let ttl = match self.ttl {
            Some(ttl) => shared.check_ttl(ttl).map_err(invalid)?,
            None => shared.nearest_ttl(DEFAULT_TTL),
        };
        if self.max_hold.is_some_and(|most| most.is_zero()) {
            return Err(invalid(Error::invalid("max_hold must not be zero")));
        }
        if let (Some(least), Some(most)) = (self.min_hold, self.max_hold)
            && least > most
        {
            return Err(invalid(Error::invalid(format!(
                "min_hold ({}) is more than max_hold ({})",
                HumanDuration(least),
                HumanDuration(most)
            ))));
        }
        let lasts = lasts(ttl, shared.info().lease);
        if let Some(least) = self.min_hold
            && !self.renewed
            && least >= lasts
        {
            return Err(invalid(Error::invalid(format!(
                "min_hold ({}) must be less than the time for which a fixed lease of {} certainly lasts ({}): ask for a \
                 longer ttl, or let the lock be renewed",
                HumanDuration(least),
                HumanDuration(ttl),
                HumanDuration(lasts)
            ))));
        }
        let label = self.label.unwrap_or_else(|| shared.label.clone());
        let terms = Arc::new(Terms {
            name,
            mode: Mode::Exclusive,
            ttl,
            renewed: self.renewed,
            max_hold: self.max_hold,
            min_hold: self.min_hold.filter(|least| !least.is_zero()),
            label,
            period: None,
        });
        let wait = self.wait.filter(|wait| *wait < FOR_EVER);
        Ok(Lock { shared, runtime, terms, wait, reentrant: self.reentrant })
    }
}

impl fmt::Debug for LockBuilder {
    /// One line: the name, and the terms that were set.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LockBuilder { name, ttl, wait, renewed, max_hold, min_hold, label, .. } = self;
        f.debug_struct("LockBuilder")
            .field("name", name)
            .field("ttl", ttl)
            .field("wait", wait)
            .field("renewed", renewed)
            .field("max_hold", max_hold)
            .field("min_hold", min_hold)
            .field("label", label)
            .finish_non_exhaustive()
    }
}

/// Returns for how long a fixed lease certainly lasts. In a session the last proof may be half of the ttl old when the
/// lock is granted: the backends accept a proof for that long.
fn lasts(ttl: Duration, lease: Lease) -> Duration {
    match lease {
        Lease::Lock => less_margin(ttl, Duration::ZERO),
        Lease::Session => less_margin(ttl / 2, ttl / 2),
    }
}

/// A wait of this length counts as a wait without a limit.
const FOR_EVER: Duration = Duration::from_secs(100 * 365 * 24 * 3600);
