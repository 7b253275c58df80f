//! Leaving: release until the server has answered, and once more after everything that may still be on its way.

use tokio::sync::oneshot;

use super::held::{GuardedLock, Held};
use super::keep::{Ended, KeptFor};
use super::{Acquisition, OnServer, ReleaseOutcome, made};
use crate::backoff;
use crate::clock::Instant;
use crate::driver::{Lease, Predecessor, Release, Takeover};
use crate::ending::Ending;
use crate::error::{ErrorKind, Result};
use crate::local_queue::Turn;

impl Acquisition {
    /// Releases the lock, or hands it over to the next task of this client. The next task gets its turn when that is done,
    /// or when the lease has ended.
    pub(super) async fn leave(&mut self, guarded: GuardedLock, ended: Ended, mut turn: Option<Turn>) {
        if ended.kept == KeptFor::ItsLease {
            return self.leave_to_its_lease(ended, turn);
        }
        let GuardedLock { held, commands } = guarded;
        // Requests of the guards are not read any more. They are answered at once, and not after the claim has left.
        drop(commands);
        let last_request = held.valid_until().max(self.now() + self.patience());
        let outcome = match self.pass_to_successor(&held, &ended, &mut turn).await {
            Some(released) => Some(released),
            None => self.release(last_request, |now| drop(turn.take_if(|_| now >= held.valid_until()))).await,
        };
        let ending = match (outcome, ended.lost) {
            (Some(Release::Released { .. }), None) => Ending::Released,
            _ => Ending::Expired,
        };
        let how = match ending {
            // The lease lasted to the slot's end, whatever the release has found.
            _ if ended.kept == KeptFor::ASlotThatIsOver => ReleaseOutcome::Kept,
            Ending::Released => ReleaseOutcome::Released,
            Ending::Expired => ReleaseOutcome::Expired,
        };
        if let (Some(turn), Some(Release::Released { others })) = (&turn, outcome) {
            turn.released(others);
        }
        drop(turn);
        self.give_up(how, ended.asker);
        self.settle().await;
    }

    /// Leaves a lock to its lease. No release may follow: it would free what is kept.
    fn leave_to_its_lease(&mut self, ended: Ended, turn: Option<Turn>) {
        drop(turn);
        self.on_server = OnServer::Nothing;
        let how = if ended.lost.is_none() { ReleaseOutcome::Kept } else { ReleaseOutcome::Expired };
        self.give_up(how, ended.asker);
    }

    /// Hands the lock over to the task of this client that waits next, in one request. Returns `None` if the lock still
    /// has to be released: no task waits, the lock is other clients' turn, or the request has failed. If it has failed,
    /// the next task has its turn already, and attempts.
    async fn pass_to_successor(
        &mut self,
        held: &Held,
        ended: &Ended,
        turn: &mut Option<Turn>,
    ) -> Option<Release> {
        let is_certain = self.on_server == OnServer::Something && self.now() < held.valid_until();
        if !is_certain || ended.lost.is_some() || ended.kept != KeptFor::Nothing {
            return None;
        }
        let successor = match turn.take()?.successor() {
            Ok(successor) => successor,
            Err(own) => {
                *turn = Some(own);
                return None;
            }
        };
        self.shared.process.only().await;
        let mut claim = self.shared.driver.claim(successor.request());
        match claim.take_over(&Predecessor::new(self.owner, self.terms.label.clone())).await {
            Ok(Takeover::Granted { grant, others }) => {
                self.on_server = OnServer::Nothing;
                successor.granted(claim, grant, others);
                return Some(Release::Released { others });
            }
            Ok(Takeover::NotHeld) => successor.attempts_itself(),
            // A driver that passes calls on to another one may know less than that one's description says.
            Err(e) if e.kind() == ErrorKind::Unsupported => successor.attempts_itself(),
            Err(e) => successor.failed(claim, e),
        }
        None
    }

    /// Tells the end of the hold.
    fn give_up(&mut self, how: ReleaseOutcome, asker: Option<oneshot::Sender<ReleaseOutcome>>) {
        self.reporter.ended(how.ending());
        if let Some(asker) = asker {
            let _: Result<(), _> = asker.send(how);
        }
    }

    /// Takes back what an entry that failed has left behind, or may still leave behind.
    pub(super) async fn withdraw(&mut self) {
        if self.on_server == OnServer::Nothing {
            return;
        }
        self.release(self.now() + self.patience(), |_| {}).await;
        self.settle().await;
    }

    /// Releases once more after an attempt of unknown outcome. Such an attempt can take effect until its patience has
    /// ended: only a release after that is certain to undo it.
    async fn settle(&mut self) {
        if let OnServer::InFlightUntil(at) = self.on_server {
            self.shared.clock.sleep_until(at).await;
            self.release(at, |_| {}).await;
        }
    }

    /// Releases until the server answers, or until nothing can be left of what was sent until `last_request`. Where
    /// leases belong to locks, that is one ttl later, of the longest ttl that was asked for. Where leases belong to
    /// sessions, a place in the queue would stay as long as the session: there only an answer ends the loop.
    async fn release(&mut self, last_request: Instant, mut failed: impl FnMut(Instant)) -> Option<Release> {
        let over =
            (self.shared.driver.info().lease == Lease::Lock).then_some(last_request + self.longest_ttl);
        for failures in 1.. {
            let hopeless = match self.release_once().await {
                Ok(outcome) => return Some(outcome),
                Err(e) => !e.is_transient(),
            };
            if over.is_some_and(|over| hopeless || self.now() >= over) {
                break;
            }
            failed(self.now());
            self.shared.clock.sleep(backoff::after_error(failures, &self.shared.random)).await;
        }
        None
    }

    async fn release_once(&mut self) -> Result<Release> {
        let asked = self.now();
        self.shared.process.only().await;
        let outcome = made(&mut self.claim).release().await.map_err(|e| self.at("release", e));
        match &outcome {
            Ok(_) => match self.on_server {
                OnServer::InFlightUntil(at) if at > asked => {}
                _ => self.on_server = OnServer::Nothing,
            },
            Err(e) => self.trouble("release", e),
        }
        outcome
    }
}
