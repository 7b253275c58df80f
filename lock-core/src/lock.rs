//! A lock on its terms: what users call.

mod builder;

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use crate::backoff;
use crate::claim::{Answer, Life, Refused};
use crate::client::Shared;
use crate::clock::Clock;
use crate::driver::{Info, Inspection, Mode, Revocation, Revoked, Waits, When};
use crate::errand::{Caller, Errand};
use crate::error::{Done, Error, Result};
use crate::gate::Seen;
use crate::guard::{Ending, Guard, Hold};
use crate::keeper::{Keeper, runtime_ended};
use crate::name::Name;
use crate::owner::{Label, Owner, OwnerBytes};
use crate::reentrant::{Place, Reentrant};

pub use builder::LockBuilder;

/// How long a lock is kept without a renewal, unless its terms say otherwise.
pub const DEFAULT_TTL: Duration = Duration::from_secs(30);
/// However short a wait is, the server has this long for its first answer.
pub(crate) const FIRST_ANSWER: Duration = Duration::from_millis(100);
/// How long a caller whose wait has run out waits for the holder's name, where no attempt has shown it.
const HOLDER_LOOK: Duration = Duration::from_millis(50);

/// A named lock and the terms on which it is taken. Cheap to clone; holds nothing.
#[derive(Clone, Debug)]
pub struct Lock {
    shared: Arc<Shared>,
    keeper: Arc<Keeper>,
    terms: Terms,
    wait: Option<Duration>,
    reentrant: Option<Reentrant>,
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

    /// How long it is kept without a renewal: as was asked for, or the nearest to [`DEFAULT_TTL`] that the backend takes.
    pub fn ttl(&self) -> Duration {
        self.terms.ttl
    }

    /// Waits for the lock, at most for the `wait` of its terms; by default without end.
    ///
    /// `Timeout` when the wait is over and another holder has the lock, naming that holder, or another caller of this
    /// client was before this one; `Unavailable` when it is over and the server has not answered. Cancel safe: dropped, it leaves neither lock nor place in a queue.
    ///
    /// Poll it to its end or drop it. One that was begun and is put aside, as in a `select!` that goes on with something
    /// else, keeps its place among the tasks of this process, and the others wait behind it; so does its place in the
    /// queue of a server that has one, and other processes with it. Spawned as a task, it goes on by itself.
    pub async fn acquire(&self) -> Result<Guard> {
        self.acquire_in_part().await.map(Guard::handed_over)
    }

    /// One of several locks, whose guard the user gets only with those of the others.
    pub(crate) async fn acquire_in_part(&self) -> Result<Guard> {
        let Some(owner) = &self.reentrant else { return self.acquire_anew().await.map(Guard::new) };
        let granted = async { self.acquire_anew().await.map(Some) };
        let guard = Box::pin(self.enter(owner, granted)).await?;
        Ok(guard.expect("a wait ends with a hold or an error"))
    }

    /// Takes the lock if it is free: `None` if somebody else holds it. Answers within the patience (a third of the ttl,
    /// 100 ms to 5 s). Cancel safe.
    pub async fn try_acquire(&self) -> Result<Option<Guard>> {
        Ok(self.try_acquire_in_part().await?.map(Guard::handed_over))
    }

    /// The same as [`acquire_in_part`](Self::acquire_in_part).
    pub(crate) async fn try_acquire_in_part(&self) -> Result<Option<Guard>> {
        let granted = async { self.granted(self.claim(Waits::No)?).await.map(Result::ok) };
        match &self.reentrant {
            None => Ok(granted.await?.map(Guard::new)),
            Some(owner) => Box::pin(self.enter(owner, granted)).await,
        }
    }

    /// Acquires the lock, runs `work` under its protection, and releases it: the front door.
    ///
    /// Errors as [`acquire`](Self::acquire); `Lost` if the lock was lost before `work` was done, which is then dropped.
    /// When it answers, the lock is given back: with a [`min_hold`](LockBuilder::min_hold), which is waited for, not
    /// before that is over.
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
    /// With [`When::HoldersDeadline`] the name becomes free when the holder's last guard goes, and at the holder's deadline
    /// at the latest; with [`When::Now`] at once, and two may run until then, with only the token between them.
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

    /// A guard of what this owner holds already, or else of what is `granted`.
    async fn enter(
        &self,
        owner: &Reentrant,
        granted: impl Future<Output = Result<Option<Arc<Hold>>>>,
    ) -> Result<Option<Guard>> {
        let hold = owner.enter(self.place(), granted).await.map_err(|e| self.at("acquire", e))?;
        Ok(hold.map(Guard::new))
    }

    async fn acquire_anew(&self) -> Result<Arc<Hold>> {
        let claim = self.claim(Waits::Queued)?;
        let outcome = match self.wait {
            None => self.granted(claim).await.map_err(OutOfTime::Failed).and_then(refused_late),
            Some(wait) => self.in_time(wait, claim).await,
        };
        match outcome {
            Ok(hold) => Ok(hold),
            Err(OutOfTime::Failed(error)) => Err(error),
            // Rarely come to: not to be carried along by every acquisition.
            Err(OutOfTime::Seen(seen)) => Err(self.at("acquire", Box::pin(self.out_of_time(seen)).await)),
        }
    }

    /// A claim that somebody has to attend to now.
    fn claim(&self, waits: Waits) -> Result<Claimed> {
        let Lock { shared, keeper, terms, .. } = self;
        keeper.is_here().map_err(|e| self.at("acquire", e))?;
        if shared.is_closing() {
            return Err(self.at("acquire", Error::unavailable(Done::No, "this client is shut down")));
        }
        let wait_ends = self.wait.map(|wait| shared.clock.now() + wait);
        let (reply, answer) = oneshot::channel();
        let life = Life::new(shared.clone(), keeper.census().enter(), terms.clone(), waits, wait_ends);
        Ok(Claimed {
            caller: keeper.caller(),
            errand: Errand::new(keeper.handle(), life.live(reply)),
            answer,
        })
    }

    /// What becomes of a claim. It leaves by itself if this future is dropped.
    async fn granted(
        &self,
        Claimed { caller, errand, answer }: Claimed,
    ) -> Result<Result<Arc<Hold>, Refused>> {
        let Lock { shared, keeper, terms, .. } = self;
        let answer = errand.answer(caller, || (), answer).await;
        let granted = answer.unwrap_or_else(|_| Err(runtime_ended())).map_err(|e| self.at("acquire", e))?;
        Ok(granted.map(|granted| Arc::new(Hold::new(terms, granted, errand, shared.clone(), keeper.clone()))))
    }

    /// The answer, if it comes within `wait`; where nobody has heard of the server yet, a moment longer.
    async fn in_time(&self, wait: Duration, claim: Claimed) -> Result<Arc<Hold>, OutOfTime> {
        let clock = &self.shared.clock;
        // Looked at while the claim still stands in its place at the gate.
        let began = clock.now();
        let mut answer = pin!(self.granted(claim));
        let seen = || self.shared.gates.seen_since(began, &self.terms.name);
        let answered = pin!(async {
            let outcome = clock.until(began + wait, &mut answer).await;
            let unheard = || matches!(seen(), Seen::Nothing | Seen::HeldBefore);
            if outcome.is_none() && wait < FIRST_ANSWER && unheard() {
                return clock.until(began + FIRST_ANSWER, &mut answer).await;
            }
            outcome
        });
        match self.keeper.within(answered).await {
            Some(answered) => answered.map_err(OutOfTime::Failed).and_then(refused_late),
            None => Err(OutOfTime::Seen(seen())),
        }
    }

    /// What to tell a caller whose wait is over: who holds the lock, who stood before it, or that the server is silent.
    async fn out_of_time(&self, seen: Seen) -> Error {
        let wait = self.wait.unwrap_or_default();
        let unanswered = |why: String| {
            Error::unavailable(
                Done::No,
                format!("the server has not answered within the wait of {wait:?}{why}"),
            )
        };
        let reason = match seen {
            Seen::Nothing => return unanswered(String::new()),
            Seen::Trouble(what) => return unanswered(format!("; last: {what}")),
            Seen::Held(Some(holder)) => holder.to_string(),
            Seen::Held(None) => match self.look().await {
                Some(Inspection { holder: Some(holder), .. }) => holder.to_string(),
                _ => "another holder had it".to_owned(),
            },
            // What was seen of the lock is older than this wait: only the server knows whether it is still held.
            Seen::HeldBefore => match self.look().await {
                Some(Inspection { holder: Some(holder), .. }) => holder.to_string(),
                Some(_) => {
                    "another caller of this client was before it; the server shows no holder now".to_owned()
                }
                None => return unanswered(String::new()),
            },
        };
        Error::timeout(format!("gave up after {wait:?}: {reason}"))
    }

    /// Who holds the lock, if the server says so soon.
    async fn look(&self) -> Option<Inspection> {
        let look = pin!(self.shared.clock.timeout(HOLDER_LOOK, self.inspect()));
        self.keeper.within(look).await?.ok()
    }

    /// This lock, with a wait that is not longer.
    pub(crate) fn waiting_at_most(&self, most: Duration) -> Lock {
        Lock { wait: Some(self.wait.map_or(most, |wait| wait.min(most))), ..self.clone() }
    }

    pub(crate) fn info(&self) -> Arc<Info> {
        self.shared.driver.info()
    }

    pub(crate) fn keeper(&self) -> &Arc<Keeper> {
        &self.keeper
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.shared.clock
    }

    pub(crate) fn pause_after_error(&self, round: u32) -> Duration {
        backoff::after_error(round, &self.shared.random)
    }

    /// Where a reentrant owner finds what it holds: whoever waits there twice waits for itself.
    pub(crate) fn place(&self) -> Place {
        (Arc::as_ptr(&self.shared).addr(), self.terms.name.clone())
    }

    fn at(&self, operation: &'static str, error: Error) -> Error {
        self.shared.at(operation, Some(&self.terms.name), error)
    }
}

/// A claim that has begun, and its answer.
struct Claimed {
    caller: Caller,
    errand: Arc<Errand>,
    answer: oneshot::Receiver<Answer>,
}

/// Why a caller that waits for a limited time gets no guard.
enum OutOfTime {
    /// The claim came to nothing.
    Failed(Error),
    /// The time is over, and this is what was last seen.
    Seen(Seen),
}

/// A refusal ends a wait only where that is over.
fn refused_late(answer: Result<Arc<Hold>, Refused>) -> Result<Arc<Hold>, OutOfTime> {
    answer.map_err(|Refused(holder)| OutOfTime::Seen(Seen::Held(holder)))
}
