//! Acquiring a lock: a claim is started, and its caller waits for the answer or until the wait is over.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::oneshot;

use super::Lock;
use crate::acquisition::{Acquisition, Answer, LONGEST_PATIENCE, Outcome};
use crate::driver::{Inspection, Queueing};
use crate::error::{Effect, Error, Result};
use crate::guard::Hold;
use crate::human_duration::HumanDuration;
use crate::local_queue::{FIRST_ANSWER, Seen};
use crate::runtime::{Caller, RunToCompletion, Unanswered, runtime_ended};

/// The time for which a caller whose wait has run out asks the server for the holder, where no attempt has shown it.
const HOLDER_LOOK: Duration = Duration::from_millis(50);

const OTHERS_WERE_BEFORE: &str =
    "another caller of this client was before this one; the server shows no holder now";

/// A claim that has begun, and the channel of its answer.
struct Claimed {
    caller: Caller,
    claim_future: Arc<RunToCompletion>,
    answer: oneshot::Receiver<Answer>,
}

impl Lock {
    /// Waits for the lock.
    pub(super) async fn acquire_anew(&self) -> Result<Arc<Hold>> {
        let claim = self.claim(Queueing::Queued)?;
        let outcome = match self.wait {
            // Waits for ever if it has to, but not for a runtime that stands still.
            None => self.granted(LONGEST_PATIENCE, claim).await,
            Some(wait) => self.in_time(wait, claim).await,
        };
        match self.answered(outcome)? {
            Outcome::Granted(hold) => Ok(hold),
            Outcome::Failed(error) => Err(error),
            // A claim that waits is refused only when its wait is over. Boxed because it is rarely needed: without the
            // box, every acquisition would carry this future.
            Outcome::NotGranted(seen) => {
                let error = Box::pin(async {
                    let error = self.out_of_time(seen).await;
                    self.runtime.explain(&self.shared.clock, error).await
                });
                Err(self.at("acquire", error.await))
            }
        }
    }

    /// Attempts once; returns `None` if another owner holds the lock.
    pub(super) async fn try_anew(&self) -> Result<Option<Arc<Hold>>> {
        let patience = self.shared.patience_for(self.terms.ttl);
        let outcome = self.granted(patience, self.claim(Queueing::No)?).await;
        match self.answered(outcome)? {
            Outcome::Granted(hold) => Ok(Some(hold)),
            Outcome::NotGranted(_) => Ok(None),
            // Boxed, as above.
            Outcome::Failed(error) => Err(Box::pin(self.runtime.explain(&self.shared.clock, error)).await),
        }
    }

    /// Starts a claim. The caller has to poll its future or wake it.
    fn claim(&self, waits: Queueing) -> Result<Claimed> {
        let Lock { shared, runtime, terms, .. } = self;
        runtime.is_here().map_err(|e| self.at("acquire", e))?;
        if shared.is_closing() {
            return Err(
                self.at("acquire", Error::unavailable(Effect::NotApplied, "this client is shut down"))
            );
        }
        let wait_ends = self.wait.map(|wait| shared.clock.now() + wait);
        let (reply, answer) = oneshot::channel();
        let counted = runtime.task_count().enter();
        let life = Box::new(Acquisition::new(Arc::clone(shared), counted, terms.clone(), waits, wait_ends));
        Ok(Claimed {
            caller: runtime.caller(),
            claim_future: RunToCompletion::new(runtime.handle(), life.live(reply)),
            answer,
        })
    }

    /// Waits for the answer to a claim, as long as the client's runtime does not stand still for `patience`.
    async fn granted(&self, patience: Duration, claim: Claimed) -> Result<Outcome<Arc<Hold>>, Unanswered> {
        self.runtime.answer(&self.shared.clock, patience, self.answer(claim)).await
    }

    /// Waits for the answer to a claim. If this future is dropped, the claim leaves by itself.
    async fn answer(&self, Claimed { caller, claim_future, answer }: Claimed) -> Outcome<Arc<Hold>> {
        let Lock { shared, runtime, terms, .. } = self;
        match claim_future.answer(caller, || (), answer).await {
            Err(_gone) => Outcome::Failed(self.at("acquire", runtime_ended())),
            Ok(Outcome::Failed(error)) => Outcome::Failed(self.at("acquire", error)),
            Ok(answer) => answer.map(|granted| {
                Arc::new(Hold::new(terms.clone(), granted, claim_future, shared.clone(), runtime.clone()))
            }),
        }
    }

    /// Returns the answer if it comes within `wait`. If there has been no answer of the server yet, waits up to
    /// [`FIRST_ANSWER`].
    async fn in_time(&self, wait: Duration, claim: Claimed) -> Result<Outcome<Arc<Hold>>, Unanswered> {
        let clock = &self.shared.clock;
        let began = clock.now();
        let seen = || self.shared.local_queues.seen_since(began, &self.terms.name);
        let answered = self.runtime.here(async {
            let mut answer = pin!(self.answer(claim));
            let mut outcome = clock.until(began + wait, &mut answer).await;
            let unheard = || matches!(seen(), Seen::Nothing | Seen::HeldBefore);
            if outcome.is_none() && wait < FIRST_ANSWER && unheard() {
                outcome = clock.until(began + FIRST_ANSWER, &mut answer).await;
            }
            if let Some(outcome) = outcome {
                return outcome;
            }
            // Read before `answer` is dropped, with which the claim leaves the local queue. A claim that ends by itself
            // answers before it leaves.
            let seen = seen();
            answer.now_or_never().unwrap_or(Outcome::NotGranted(seen))
        });
        answered.await
    }

    fn answered(&self, outcome: Result<Outcome<Arc<Hold>>, Unanswered>) -> Result<Outcome<Arc<Hold>>> {
        outcome.map_err(|why| self.at("acquire", self.runtime.unanswered(why, Effect::NotApplied)))
    }

    /// Returns the error for a caller whose wait is over. It names the holder, or says that another caller was before
    /// this one, or that the server refuses or does not answer.
    async fn out_of_time(&self, seen: Seen) -> Error {
        let wait = self.wait.unwrap_or_default();
        let gave_up = match wait {
            Duration::ZERO => "did not wait".to_owned(),
            wait => format!("gave up after {}", HumanDuration(wait)),
        };
        let unanswered = |why: String| {
            Error::unavailable(
                Effect::NotApplied,
                format!("the server has not answered within the wait of {}{why}", HumanDuration(wait)),
            )
        };
        let (holder, otherwise) = match seen {
            Seen::Nothing => return unanswered(String::new()),
            Seen::Trouble(what) => return unanswered(format!("; last error: {what}")),
            Seen::Refused(why) => {
                return Error::unavailable(Effect::NotApplied, format!("{gave_up}: {why}")).as_refusal();
            }
            Seen::Held(Some(holder)) => (Some(*holder), ""),
            Seen::Held(None) => (self.look().await.and_then(|shown| shown.holder), "another holder had it"),
            // The last answer is older than this wait: only the server knows whether the lock is still held.
            Seen::HeldBefore => match self.look().await {
                Some(shown) => (shown.holder, OTHERS_WERE_BEFORE),
                None => return unanswered(String::new()),
            },
        };
        match holder {
            Some(holder) => Error::timeout(format!("{gave_up}: {holder}")).with_holder(holder),
            None => Error::timeout(format!("{gave_up}: {otherwise}")),
        }
    }

    /// Asks the server who holds the lock; `None` if it does not answer soon.
    async fn look(&self) -> Option<Inspection> {
        self.shared.clock.timeout(HOLDER_LOOK, self.inspect()).await?.ok()
    }
}
