//! Completing: a run that has ended well keeps the lock to the end of its slot, without a process that renews it. So no
//! other client runs in that slot.

use std::time::Duration;

use super::held::Held;
use super::{Acquisition, OnServer, made};
use crate::backoff;
use crate::clock::Instant;
use crate::driver::{Renewal, Revocation, When};
use crate::ending::LossReason;
use crate::error::Result;
use crate::owner::Owner;
use crate::period::{Slot, UnixTime};

/// The state of a slot whose work is done.
pub(super) enum SlotOutcome {
    /// The lease lasts to the slot's end. Nothing else is asked of the server.
    Kept,
    /// The lock was held until the slot's end, which has come.
    KeptUntilNow,
    /// The slot was over before. The next slot is another run's.
    Over,
    /// The server says that the lock is lost.
    Lost(LossReason),
    /// The server has not answered in time. The slot may be kept, so the lock is not released.
    Unanswered(LossReason),
}

/// A slot that is kept.
struct KeptSlot {
    slot: Slot,
    /// The rest of the slot after `asked`, or somewhat more.
    left: Duration,
    asked: Instant,
}

impl Acquisition {
    /// Asks the server for its time, if the lock is held once per period. A server that tells none can't keep such a
    /// lock, and nothing is taken there.
    pub(super) async fn check_period(&mut self) -> Result<()> {
        if self.terms.period.is_none() {
            return Ok(());
        }
        match self.server_time().await {
            // The attempt shows whether the trouble lasts.
            Err(e) if e.is_transient() => Ok(()),
            outcome => outcome.map(drop),
        }
    }

    /// Returns the slot of a lock that was just granted, if it is held once per period.
    pub(super) async fn slot_of_grant(&mut self) -> Result<Option<Slot>> {
        let Some(period) = self.terms.period else { return Ok(None) };
        Ok(Some(period.slot_at(self.server_time().await?)))
    }

    /// Keeps the lock to the end of its slot. Asks until the server has answered, or until the lock's deadline.
    ///
    /// Once the server was asked, only the slot's end lets this client release the lock. If no answer comes, the lease
    /// ends at the slot's end or, like that of a holder that died, at its own.
    pub(super) async fn complete(&mut self, held: &mut Held, slot: Slot) -> SlotOutcome {
        if let Some(lost) = self.outlast_attempts(held).await {
            return SlotOutcome::Lost(lost);
        }
        let lease_ends_by = self.lease_ends_by;
        loop {
            if let Some(cause) = self.detect_loss(held) {
                return SlotOutcome::Unanswered(cause);
            }
            match self.ask_to_keep(held, slot).await {
                Ok(Ok(kept)) => return self.leave_kept(held, &kept, lease_ends_by).await,
                Ok(Err(not_kept)) => return not_kept,
                Err(e) => {
                    self.trouble("complete", &e);
                    let pause = self.pause_after_failure(held);
                    self.shared.clock.sleep(pause).await;
                }
            }
        }
    }

    /// Waits until no attempt of this claim can take effect any more. One that came to the server after the lease's end
    /// would take the lock, and no release would follow. Renews meanwhile. Returns why the lock was lost, if it was.
    pub(super) async fn outlast_attempts(&mut self, held: &mut Held) -> Option<LossReason> {
        let OnServer::InFlightUntil(at) = self.on_server else { return None };
        let lost = self.hold_until(held, at).await;
        if lost.is_none() {
            self.on_server = OnServer::Something;
        }
        lost
    }

    /// Asks the server for its time, and then for a lease to the slot's end.
    async fn ask_to_keep(&mut self, held: &Held, slot: Slot) -> Result<Result<KeptSlot, SlotOutcome>> {
        let asked = self.now();
        let Some(left) = slot.left(self.server_time().await?) else { return Ok(Err(SlotOutcome::Over)) };
        self.longest_ttl = self.longest_ttl.max(left);
        // The server's clock has gone on since it told its time. So the lease ends at the slot's end, or later by the
        // time that these two calls take.
        let renewal = self.renew(held, left).await.map_err(|e| self.at("complete", e))?;
        Ok(match (renewal, held.lost()) {
            (Renewal::Lost(cause), _) => {
                held.lose(cause, &mut self.reporter);
                Err(SlotOutcome::Lost(cause))
            }
            // Too late: the guard was told that the lock is lost, and stays told.
            (Renewal::Held { .. }, Some(cause)) => Err(SlotOutcome::Unanswered(cause)),
            (Renewal::Held { .. }, None) => Ok(KeptSlot { slot, left, asked }),
        })
    }

    /// Leaves the lock to its lease, if that ends with the slot. If the lease that was granted before lasts longer,
    /// waits for the slot's end: no renewal shortens a lease, and the next run would find the lock held.
    async fn leave_kept(&mut self, held: &Held, kept: &KeptSlot, lease_ends_by: Instant) -> SlotOutcome {
        if lease_ends_by > kept.asked + (kept.left + LATE) {
            return self.wait_for_end(kept, lease_ends_by).await;
        }
        self.mark_done(held).await;
        SlotOutcome::Kept
    }

    /// Waits until the server's clock shows the slot's end, or until the lease has ended.
    async fn wait_for_end(&mut self, kept: &KeptSlot, lease_ends_by: Instant) -> SlotOutcome {
        let clock = self.shared.clock.clone();
        let mut look_at = kept.asked + kept.left;
        loop {
            clock.sleep_until(look_at).await;
            if clock.now() >= lease_ends_by {
                return SlotOutcome::Kept;
            }
            // Without an answer, the lease ends by itself.
            let told = self.server_time().await.inspect_err(|e| self.trouble("complete", e));
            let left = match told.map(|now| kept.slot.left(now)) {
                Ok(None) => return SlotOutcome::KeptUntilNow,
                Ok(Some(left)) => left,
                Err(_) => backoff::after_error(1, &self.shared.random),
            };
            look_at = clock.now() + left.max(SHORTEST_PAUSE);
        }
    }

    /// Changes the label that people see, so that they can tell a slot that is kept from one in which the work is being
    /// done. It is a revoke at the deadline, which leaves the lease as it is. No client relies on the lock any more.
    ///
    /// If this fails, people see the label of the run.
    async fn mark_done(&mut self, held: &Held) {
        let driver = self.shared.driver.clone();
        let Ok(shown) = driver.inspect(&self.terms.name, self.patience()).await else { return };
        let Some(holder) = shown.holder.filter(|holder| holder.token == Some(held.token)) else { return };
        let (by, label) = (Owner::mint(&self.shared.random), self.terms.label.done());
        let mark = Revocation::new(holder.owner, by, label, When::HoldersDeadline, self.patience());
        drop(driver.revoke(&self.terms.name, mark).await);
    }

    /// Returns how long to wait after an error: so short that there are several tries before the deadline.
    fn pause_after_failure(&self, held: &mut Held) -> Duration {
        held.failures += 1;
        let left = held.valid_until().since(self.now());
        backoff::after_error(held.failures, &self.shared.random).min(left / 4).max(SHORTEST_PAUSE)
    }

    async fn server_time(&mut self) -> Result<UnixTime> {
        self.shared.process.only().await;
        made(&mut self.claim).server_time().await.map_err(|e| self.at("server time", e))
    }
}

/// By how much the lease may outlast the slot. It is about what the two calls of a completion take, so that this client
/// does not stay for a difference that it makes itself.
const LATE: Duration = Duration::from_millis(50);
/// The shortest pause between two questions.
const SHORTEST_PAUSE: Duration = Duration::from_millis(2);
