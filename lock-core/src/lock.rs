//! A lock on its terms: what users call.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use crate::claim::Life;
use crate::client::{Client, Shared};
use crate::driver::{Inspection, Mode, Revocation, Revoked, Waits, When};
use crate::errand::Caller;
use crate::error::{Done, Error, Result};
use crate::gate::Seen;
use crate::guard::{Ending, Guard};
use crate::keeper::{Keeper, runtime_ended};
use crate::name::Name;
use crate::owner::{Label, Owner, OwnerBytes};

/// How long a lock is kept without a renewal, unless its terms say otherwise.
pub const DEFAULT_TTL: Duration = Duration::from_secs(30);
/// However short a wait is, the server has this long for its first answer.
const FIRST_ANSWER: Duration = Duration::from_millis(100);
/// How long a caller whose wait has run out waits for the holder's name.
const HOLDER_LOOK: Duration = Duration::from_millis(50);

/// A named lock and the terms on which it is taken. Cheap to clone; holds nothing.
#[derive(Clone, Debug)]
pub struct Lock {
    shared: Arc<Shared>,
    keeper: Arc<Keeper>,
    terms: Terms,
    wait: Option<Duration>,
}

/// The terms of an acquisition.
#[derive(Clone, Debug)]
pub(crate) struct Terms {
    pub(crate) name: Name,
    pub(crate) mode: Mode,
    pub(crate) ttl: Duration,
    pub(crate) renewed: bool,
    pub(crate) max_hold: Option<Duration>,
    pub(crate) min_hold: Option<Duration>,
    pub(crate) label: Label,
}

impl Lock {
    /// The lock's name.
    pub fn name(&self) -> &Name {
        &self.terms.name
    }

    /// Waits for the lock, at most for the `wait` of its terms; by default without end.
    ///
    /// `Timeout` when the wait is over and somebody else holds the lock, naming the holder; `Unavailable` when it is
    /// over and the server has not answered. Cancel safe: dropped, it leaves neither lock nor place in a queue.
    pub async fn acquire(&self) -> Result<Guard> {
        let answer = self.enter(self.keeper.caller(), Waits::Queued);
        let outcome = match self.wait {
            None => Ok(answer.await?),
            Some(wait) => self.keeper.within(self.in_time(wait, answer)).await,
        };
        let seen = match outcome {
            Ok(Some(guard)) => return Ok(guard),
            // Its wait was over when the server said so.
            Ok(None) => Seen::Held,
            Err(OutOfTime::Failed(error)) => return Err(error),
            Err(OutOfTime::Unanswered(seen)) => seen,
        };
        Err(self.at("acquire", self.keeper.within(self.out_of_time(seen)).await))
    }

    /// Takes the lock if it is free: `None` if somebody else holds it. Answers within the patience (a third of the ttl,
    /// 100 ms to 5 s). Cancel safe.
    pub async fn try_acquire(&self) -> Result<Option<Guard>> {
        self.enter(self.keeper.caller(), Waits::No).await
    }

    /// Acquires the lock, runs `work` under its protection, and releases it: the front door.
    ///
    /// Errors as [`acquire`](Self::acquire); `Lost` if the lock was lost before `work` was done, which is then dropped.
    ///
    /// ```
    /// # async fn example(lock: lock_core::Lock) -> lock_core::Result<()> {
    /// let report = lock.run(async |guard| format!("made with token {}", guard.token())).await?;
    /// # Ok(()) }
    /// ```
    pub async fn run<T>(&self, work: impl AsyncFnOnce(&Guard) -> T) -> Result<T> {
        let guard = self.acquire().await?;
        self.finish(guard, work).await
    }

    /// [`run`](Self::run) if the lock is free; `None`, without running anything, if somebody else holds it.
    pub async fn try_run<T>(&self, work: impl AsyncFnOnce(&Guard) -> T) -> Result<Option<T>> {
        match self.try_acquire().await? {
            Some(guard) => self.finish(guard, work).await.map(Some),
            None => Ok(None),
        }
    }

    /// Who holds the lock and, where the server knows, who waits.
    pub async fn inspect(&self) -> Result<Inspection> {
        let (driver, name) = (self.shared.driver.clone(), self.terms.name.clone());
        let patience = self.shared.patience_for(self.terms.ttl);
        let outcome = self.keeper.run(async move { driver.inspect(&name, patience).await }).await;
        outcome.map_err(|e| self.at("inspect", e))
    }

    /// Takes the lock from `holder`, as [`inspect`](Self::inspect) showed it: its renewals fail from now on.
    ///
    /// With [`When::HoldersDeadline`] the name becomes free when the holder stops believing that it holds; with
    /// [`When::Now`] two may run until then, with only the token between them.
    pub async fn revoke(&self, holder: &OwnerBytes, when: When) -> Result<Revoked> {
        let (driver, name) = (self.shared.driver.clone(), self.terms.name.clone());
        let revocation = Revocation {
            holder: holder.clone(),
            by: Owner::mint(&self.shared.random),
            label: self.terms.label.clone(),
            when,
            patience: self.shared.patience_for(self.terms.ttl),
        };
        let outcome = self.keeper.run(async move { driver.revoke(&name, revocation).await }).await;
        outcome.map_err(|e| self.at("revoke", e))
    }

    async fn finish<T>(&self, guard: Guard, work: impl AsyncFnOnce(&Guard) -> T) -> Result<T> {
        let out = guard.protect(work(&guard)).await;
        // What was lost while the release was on its way was held while the work was done.
        let _: Ending = guard.release().await;
        out
    }

    /// Starts a claim and answers with what becomes of it. It leaves by itself if this future is dropped.
    async fn enter(&self, caller: Caller, waits: Waits) -> Result<Option<Guard>> {
        let Lock { shared, keeper, terms, .. } = self;
        keeper.is_here().map_err(|e| self.at("acquire", e))?;
        if shared.is_closing() {
            return Err(self.at("acquire", Error::unavailable(Done::No, "this client is shut down")));
        }
        let wait_ends = self.wait.map(|wait| shared.clock.now() + wait);
        let (reply, answer) = oneshot::channel();
        let life = Life::new(shared.clone(), terms.clone(), waits, wait_ends).live(reply);
        let errand = keeper.take_on(life);
        let answer = errand.answer(caller, || (), answer).await;
        let granted = answer.unwrap_or_else(|_| Err(runtime_ended())).map_err(|e| self.at("acquire", e))?;
        Ok(granted
            .map(|granted| Guard::new(terms.name.clone(), granted, errand, shared.clone(), keeper.clone())))
    }

    /// The answer, if it comes within `wait`; where nobody has heard of the server yet, a moment longer.
    async fn in_time(
        &self,
        wait: Duration,
        answer: impl Future<Output = Result<Option<Guard>>>,
    ) -> Result<Option<Guard>, OutOfTime> {
        let (clock, mut answer) = (&self.shared.clock, std::pin::pin!(answer));
        // Looked at while `answer` still stands in its place at the gate.
        let began = clock.now();
        let seen = || self.shared.gates.seen_since(began, &self.terms.name);
        let mut outcome = clock.until(began + wait, &mut answer).await;
        if outcome.is_none() && wait < FIRST_ANSWER && matches!(seen(), Seen::Nothing) {
            outcome = clock.until(began + FIRST_ANSWER, &mut answer).await;
        }
        match outcome {
            Some(answered) => answered.map_err(OutOfTime::Failed),
            None => Err(OutOfTime::Unanswered(seen())),
        }
    }

    /// What to tell a caller whose wait is over: who holds the lock, or that nobody knows.
    async fn out_of_time(&self, seen: Seen) -> Error {
        let wait = self.wait.unwrap_or_default();
        let unanswered = |why: String| {
            Error::unavailable(
                Done::No,
                format!("the server has not answered within the wait of {wait:?}{why}"),
            )
        };
        match seen {
            Seen::Nothing => return unanswered(String::new()),
            Seen::Trouble(what) => return unanswered(format!("; last: {what}")),
            Seen::Held => {}
        }
        let look = self.shared.clock.timeout(HOLDER_LOOK, self.inspect()).await;
        let holder = look.and_then(Result::ok).and_then(|inspection| inspection.holder);
        Error::timeout(match holder {
            Some(holder) => format!("gave up after {wait:?}: {holder}"),
            None => format!("gave up after {wait:?}: somebody else held it"),
        })
    }

    fn at(&self, operation: &'static str, error: Error) -> Error {
        self.shared.at(operation, Some(&self.terms.name), error)
    }
}

/// Why a caller that waits for a limited time gets no guard.
enum OutOfTime {
    /// The claim came to nothing.
    Failed(Error),
    /// The time is over, and this is what was last seen.
    Unanswered(Seen),
}

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
        }
    }

    /// How long the lock is kept without a renewal: 30 s by default, renewed every third of it.
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

    /// The shortest time that the lock is held: an earlier release waits, in the background if the guard is dropped.
    /// A crash leaves what is left of the ttl.
    pub fn min_hold(mut self, least: Duration) -> Self {
        self.min_hold = Some(least);
        self
    }

    /// What others are shown of the holder; by default the client's label.
    pub fn label(mut self, label: &str) -> Self {
        self.label = Some(Label::new(label));
        self
    }

    /// The lock. `Invalid` for a name or a ttl that the backend can't take, and for a `max_hold` of zero or below
    /// `min_hold`.
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
        Ok(Lock { shared, keeper, terms, wait })
    }
}

/// A wait that no clock need measure.
const FOR_EVER: Duration = Duration::from_secs(100 * 365 * 24 * 3600);
