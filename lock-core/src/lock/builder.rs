//! The terms of a lock in the making.

use std::time::Duration;

use super::{DEFAULT_TTL, Lock, Terms};
use crate::claim::certain;
use crate::client::Client;
use crate::driver::{Lease, Mode};
use crate::error::{Error, Result};
use crate::name::Name;
use crate::owner::Label;
use crate::reentrant::Reentrant;

/// The terms of a lock in the making.
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until `build`"]
pub struct LockBuilder {
    client: Client,
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
    pub(crate) fn new(client: Client, name: String) -> LockBuilder {
        LockBuilder {
            client,
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

    /// How long the lock is kept without a renewal: 30 s by default, or the nearest to that which the backend takes;
    /// renewed every third of it.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// How long [`Lock::acquire`] waits: without end by default, as it does if this is more than a clock can hold.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = Some(wait);
        self
    }

    /// Never renews: the lock ends one ttl after the grant, whatever its holder does.
    pub fn fixed_lease(mut self) -> Self {
        self.renewed = false;
        self
    }

    /// The longest time that the lock is held, renewals included; then it is lost with
    /// [`Cause::MaxHold`](crate::Cause::MaxHold).
    pub fn max_hold(mut self, most: Duration) -> Self {
        self.max_hold = Some(most);
        self
    }

    /// The shortest time that the lock is held, so that a client that does the same work by another clock, which is a
    /// little behind, finds it taken.
    ///
    /// An earlier release waits, and so do [`Guard::release`](crate::Guard::release), [`Lock::run`] and
    /// [`Lock::try_run`], which answer when the lock is given back. Where the guard or their future is dropped, that
    /// happens in the background, if the runtime goes on: else, as after a crash, the server frees the lock one ttl after
    /// the last renewal.
    pub fn min_hold(mut self, least: Duration) -> Self {
        self.min_hold = Some(least);
        self
    }

    /// What others are shown of the holder; by default the client's label.
    pub fn label(mut self, label: &str) -> Self {
        self.label = Some(Label::new(label));
        self
    }

    /// Lets whoever has `owner` enter a lock again that `owner` holds, without waiting for itself and without asking the
    /// server. See [`Reentrant`].
    pub fn reentrant(mut self, owner: &Reentrant) -> Self {
        self.reentrant = Some(owner.clone());
        self
    }

    /// The lock. `Invalid` for a name or a ttl that the backend can't take, for a `max_hold` of zero or below `min_hold`,
    /// and for a `min_hold` that a fixed lease does not last for: on a server that keeps sessions, for about half of its ttl.
    pub fn build(self) -> Result<Lock> {
        let Client { shared, keeper } = self.client;
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
                "min_hold ({least:?}) is more than max_hold ({most:?})"
            ))));
        }
        let lasts = lasts(ttl, shared.driver.info().lease);
        if let Some(least) = self.min_hold
            && !self.renewed
            && least >= lasts
        {
            return Err(invalid(Error::invalid(format!(
                "min_hold ({least:?}) is not less than what a fixed lease of {ttl:?} lasts for certain ({lasts:?}): ask for a \
                 longer ttl, or have it renewed"
            ))));
        }
        let label = self.label.unwrap_or_else(|| shared.label.clone());
        let terms = Terms {
            name,
            mode: Mode::Exclusive,
            ttl,
            renewed: self.renewed,
            max_hold: self.max_hold,
            min_hold: self.min_hold.filter(|least| !least.is_zero()),
            label,
        };
        let wait = self.wait.filter(|wait| *wait < FOR_EVER);
        Ok(Lock { shared, keeper, terms, wait, reentrant: self.reentrant })
    }
}

/// How long a fixed lease lasts for certain. A session may have been proven half of the ttl before it is granted in: so
/// long the backends take a proof for good.
fn lasts(ttl: Duration, lease: Lease) -> Duration {
    match lease {
        Lease::Lock => certain(ttl, Duration::ZERO),
        Lease::Session => certain(ttl / 2, ttl / 2),
    }
}

/// A wait that no clock need measure.
const FOR_EVER: Duration = Duration::from_secs(100 * 365 * 24 * 3600);
