//! A granted lock, as its claim keeps it: until when it is certain, and when to ask the server what.

use std::time::Duration;

use super::event_reporter::EventReporter;
use super::guard_link::{ClaimEnd, Commands, GuardEnd};
use super::validity::Validity;
use crate::clock::Instant;
use crate::ending::LossReason;
use crate::error::Error;
use crate::period::Slot;
use crate::token::FencingToken;

/// A granted lock.
pub(super) struct Held {
    pub(super) token: FencingToken,
    pub(super) since: Instant,
    /// The longest lease that the server has granted.
    pub(super) lease: Duration,
    pub(super) renew_at: Option<Instant>,
    /// When to ask the server whether the lock is still held, although nothing has to be renewed yet.
    pub(super) look_at: Option<Instant>,
    /// When to ask the server to announce revokes; `None` once it does, or if it can't.
    pub(super) watch_at: Option<Instant>,
    /// When `max_hold` ends the hold.
    pub(super) end: Option<Instant>,
    /// The slot in which the lock was granted, if it is held once per period.
    pub(super) slot: Option<Box<Slot>>,
    pub(super) failures: u32,
    /// The error of a renewal that the claim made by itself, and when the error was known.
    pub(super) failed: Option<(Instant, Error)>,
    claim_end: ClaimEnd,
}

impl Held {
    /// Returns a lock that was granted to the attempt of `since`, and is certain until `valid_until`.
    pub(super) fn new(
        token: FencingToken,
        since: Instant,
        valid_until: Instant,
        lease: Duration,
        end: Option<Instant>,
    ) -> Held {
        let claim_end = ClaimEnd::new(Validity::new(valid_until, end));
        let watch_at = Some(since + WATCHED_AFTER);
        let (renew_at, look_at, failures, failed) = (None, None, 0, None);
        Held {
            token,
            since,
            lease,
            renew_at,
            look_at,
            watch_at,
            end,
            slot: None,
            failures,
            failed,
            claim_end,
        }
    }

    /// Returns the deadline: until when the lock is certain.
    pub(super) fn valid_until(&self) -> Instant {
        self.claim_end.validity().valid_until
    }

    /// Returns the tie to the guard that this lock gets: what the claim reads, and the guard's end.
    pub(super) fn link(&self) -> (Commands, GuardEnd) {
        self.claim_end.ends()
    }

    /// Records a proof that the lock is held up to `valid_until`. An older proof may reach further: the server never
    /// shortens.
    pub(super) fn reaches(&mut self, valid_until: Instant) {
        let validity = Validity::new(valid_until.max(self.valid_until()), self.end);
        // What is lost stays lost.
        self.claim_end.notify(Validity { lost: self.lost(), ..validity });
    }

    /// Notifies the guards and all receivers of events of the loss, once.
    pub(super) fn lose(&self, cause: LossReason, reporter: &mut EventReporter) {
        let validity = self.claim_end.validity();
        if validity.lost.is_none() {
            self.claim_end.notify(Validity { lost: Some(cause), ..validity });
        }
        reporter.lost(cause);
    }

    /// Returns why the lock was lost, if the guards have been notified of a loss.
    pub(super) fn lost(&self) -> Option<LossReason> {
        self.claim_end.validity().lost
    }

    /// Returns why the lock is lost when the deadline is reached.
    pub(super) fn at_end(&self) -> LossReason {
        self.claim_end.validity().at_end
    }

    /// Returns the error of a renewal of the claim's own that was still under way at `asked`. It also answers the
    /// renewal that was asked for by hand at that time: the caller's patience is that of one call, and not of two.
    pub(super) fn answered_since(&mut self, asked: Instant) -> Option<Error> {
        self.failed.take().filter(|(at, _)| asked <= *at).map(|(_, error)| error)
    }

    /// Makes the next question due at `now`, because the state on the server may have changed. A fixed lease is not
    /// prolonged for that: the server is only asked whether it is held.
    pub(super) fn make_due(&mut self, now: Instant) {
        match &mut self.renew_at {
            Some(at) => *at = now,
            None => self.look_at = Some(now),
        }
    }

    /// Returns when to ask the server next, or the deadline if that comes first.
    pub(super) fn next(&self) -> Instant {
        [self.renew_at, self.look_at].into_iter().flatten().fold(self.valid_until(), Instant::min)
    }

    /// Returns what to ask the server now. A renewal also shows whether the lock is still held.
    pub(super) fn due(&self, now: Instant, ttl: Duration) -> Option<Ask> {
        let is_due = |at: &Instant| *at <= now;
        let renewal = self.renew_at.filter(is_due).map(|_| Ask::Keep(ttl));
        renewal.or(self.look_at.filter(is_due).map(|_| Ask::Look))
    }
}

/// A question to the server about a held lock.
#[derive(Clone, Copy)]
pub(super) enum Ask {
    /// To keep it for this long from now.
    Keep(Duration),
    /// Ask the server for the state of the lock.
    Look,
}

/// A lock that was handed over to a guard.
pub(super) struct GuardedLock {
    pub(super) held: Box<Held>,
    /// The guard's commands. Closed when the guard is gone.
    pub(super) commands: Commands,
}

/// The time for which a lock is held before its claim asks the server to announce revokes. Most locks are released
/// sooner and cost nothing.
pub(super) const WATCHED_AFTER: Duration = Duration::from_millis(200);
