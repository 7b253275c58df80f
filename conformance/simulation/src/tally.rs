//! The number of events of each kind. A fault that never hits, or an operation that no caller does, tests nothing.

use std::collections::BTreeMap;
use std::ops::{AddAssign, Index};

use lock_core::LossReason;

use super::faults::Kind;
use super::ids::CallId;
use super::log::{Entry, Parting, Terms, What, Why};
use super::named::named;
use super::rules::FamilyName;
use super::timeline::micros;

named! {
    /// An event that a run of histories has to contain; a run without it leaves something untested.
    pub enum Occurrence {
        /// A message was lost by chance.
        Lost = "messages lost",
        /// A message arrived twice.
        Doubled = "messages doubled",
        /// A message was so late that others could overtake it.
        Late = "messages late",
        /// A message was lost because its client was cut off.
        CutOff = "messages of clients cut off",
        /// A message was lost because one of several servers was cut off.
        ServerCutOff = "messages of servers cut off",
        /// A renewal or a heartbeat was lost by a fault that hits only those.
        LostProof = "renewals and heartbeats lost",
        /// A grant, or the answer to a renewal or a heartbeat, arrived 20 ms after its question or later, while its
        /// client still waited for it.
        LateProof = "grants and proofs heard late",
        /// A grant, or the answer to a renewal or a heartbeat, came late, and was the last message that its client
        /// heard.
        LastWord = "grants and proofs heard late and last",
        /// A client that held a lock was stopped.
        StoppedHolding = "clients stopped while they held",
        /// A client's process was killed while it held a lock.
        KilledHolding = "processes killed while they held",
        /// A client's process was killed while it waited for a lock.
        KilledAsking = "processes killed while they asked",
        /// The server was stopped while a client held a lock.
        ServerStopped = "servers stopped while a lock was held",
        /// The server's clock was set forward while a client held a lock.
        SetForward = "server clocks set forward meanwhile",
        /// The server's clock was set back while a client held a lock.
        SetBack = "server clocks set back meanwhile",
        /// The server lost its data while a client held a lock.
        Wiped = "servers wiped meanwhile",
        /// The server ended a lease before its time.
        LeaseEnded = "leases ended by force",
        /// The server ended the session of a client that held a lock.
        SessionEndedHolding = "sessions of holders ended by force",
        /// The server ended the session of a client that waited for a lock.
        SessionEndedWaiting = "sessions of waiters ended by force",
        /// A call asked again in another session.
        SessionMoved = "claims moved to another session",
        /// A lock went from one call to the next one of its client in one request.
        Succeeded = "locks handed over in one request",
        /// A majority of several servers granted a lock with the same token.
        AgreedAtOnce = "majorities that agreed on a token at once",
        /// A majority of several servers had the same token after some of them were asked to raise theirs.
        AgreedByRaise = "majorities that raised their tokens",
        /// A lock was revoked as of its holder's deadline.
        RevokedAtDeadline = "revokes at the holder's deadline",
        /// A lock was revoked at once.
        RevokedNow = "revokes at once",
        /// A holder whose lock was revoked gave it back before its deadline.
        GivenBack = "revoked locks given back",
        /// A holder was told that its lock is revoked.
        ToldRevoked = "holders told of a revoke",
        /// A holder was told that its session has ended.
        ToldSession = "holders told that their session ended",
        /// A holder was told that its lease had ended.
        ToldExpired = "holders told that their lease ended",
        /// A call that doesn't wait for the lock did not get it.
        Refused = "tries refused",
        /// A call's wait ran out.
        WaitRanOut = "waits that ran out",
        /// A caller went away before it was answered.
        Cancelled = "acquisitions cancelled",
        /// A caller went away before its release was answered.
        ReleaseCancelled = "releases cancelled",
        /// A guard was dropped.
        GuardDropped = "guards dropped",
        /// A caller went away in the middle of its work under `run`.
        WorkCancelled = "work cancelled",
        /// A lease was renewed by hand.
        RenewedByHand = "renewals by hand",
        /// A lease without renewals was held until its end.
        FixedLeaseEnded = "fixed leases held to their end",
        /// A lock was held as long as its terms allow.
        MaxHoldReached = "locks held for max_hold",
        /// A holder let its guard go before `min_hold` was over.
        MinHoldWaited = "locks given back before min_hold",
    }
}

impl Occurrence {
    /// Returns whether it can happen in this family.
    pub fn can_happen_in(self, family: FamilyName) -> bool {
        match self {
            Occurrence::SetForward | Occurrence::SetBack => family != FamilyName::Queue,
            Occurrence::SessionEndedHolding
            | Occurrence::SessionEndedWaiting
            | Occurrence::SessionMoved
            | Occurrence::ToldSession => family == FamilyName::Queue,
            Occurrence::Succeeded => family == FamilyName::Lease,
            // Revokes are not simulated on several servers.
            Occurrence::RevokedAtDeadline
            | Occurrence::RevokedNow
            | Occurrence::GivenBack
            | Occurrence::ToldRevoked => family != FamilyName::Redlock,
            Occurrence::ServerCutOff | Occurrence::AgreedAtOnce | Occurrence::AgreedByRaise => {
                family == FamilyName::Redlock
            }
            _ => true,
        }
    }
}

/// The number of times that each [`Occurrence`] happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tally([u64; Occurrence::ALL.len()]);

impl Default for Tally {
    fn default() -> Self {
        Tally([0; Occurrence::ALL.len()])
    }
}

impl Index<Occurrence> for Tally {
    type Output = u64;

    fn index(&self, what: Occurrence) -> &u64 {
        &self.0[what as usize]
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, more: Tally) {
        self.0.iter_mut().zip(more.0).for_each(|(sum, more)| *sum += more);
    }
}

/// A call, as far as this file needs to know it.
struct Call {
    client: usize,
    asked: u64,
    terms: Terms,
    holds: bool,
    by_hand: bool,
}

impl Tally {
    pub(super) fn count(&mut self, what: Occurrence) {
        self.0[what as usize] += 1;
    }

    /// Counts the occurrences that the log of a history shows.
    pub(super) fn read(&mut self, log: &[Entry]) {
        let mut calls = BTreeMap::new();
        for entry in log {
            self.see(entry, &mut calls);
        }
    }

    fn see(&mut self, entry: &Entry, calls: &mut BTreeMap<CallId, Call>) {
        match entry.what {
            What::Asked { call, client, terms, .. } => {
                let new = Call { client, asked: entry.at, terms, holds: false, by_hand: false };
                calls.insert(call, new);
            }
            What::Granted { call, .. } => {
                calls.get_mut(&call).into_iter().for_each(|call| call.holds = true);
            }
            What::NotGranted { call, why } => {
                calls.remove(&call);
                self.is_refused(why);
            }
            What::Renews(call) => calls.get_mut(&call).into_iter().for_each(|call| call.by_hand = true),
            What::Renewed(_) => self.count(Occurrence::RenewedByHand),
            What::Told { call, cause, .. } => {
                let told = calls.remove(&call);
                self.is_told(cause, told.is_some_and(|call| call.terms.fixed && !call.by_hand));
            }
            What::LetGo { call, parting, .. } => {
                if let Some(call) = calls.remove(&call)
                    && call.terms.min_hold.is_some_and(|least| entry.at - call.asked < micros(least))
                {
                    self.count(Occurrence::MinHoldWaited);
                }
                self.lets_go(parting);
            }
            What::Left(_) => self.count(Occurrence::ReleaseCancelled),
            What::Begins(fault) => self.begins(fault.kind, calls),
            _ => {}
        }
    }

    fn is_refused(&mut self, why: Why) {
        match why {
            Why::Busy => self.count(Occurrence::Refused),
            Why::Timeout => self.count(Occurrence::WaitRanOut),
            Why::Cancelled => self.count(Occurrence::Cancelled),
            Why::Unavailable | Why::Lost | Why::Unexpected => {}
        }
    }

    fn is_told(&mut self, cause: Option<LossReason>, fixed: bool) {
        match cause {
            Some(LossReason::Revoked) => self.count(Occurrence::ToldRevoked),
            Some(LossReason::Session) => self.count(Occurrence::ToldSession),
            Some(LossReason::MaxHold) => self.count(Occurrence::MaxHoldReached),
            Some(LossReason::Expired) if fixed => self.count(Occurrence::FixedLeaseEnded),
            Some(LossReason::Expired) => self.count(Occurrence::ToldExpired),
            _ => {}
        }
    }

    fn lets_go(&mut self, parting: Parting) {
        match parting {
            Parting::Drop => self.count(Occurrence::GuardDropped),
            Parting::Gone => self.count(Occurrence::WorkCancelled),
            Parting::Release | Parting::HalfRelease | Parting::Run => {}
        }
    }

    fn begins(&mut self, kind: Kind, calls: &mut BTreeMap<CallId, Call>) {
        let held = calls.values().any(|call| call.holds);
        let here = |client, holds| calls.values().any(|call| call.client == client && call.holds == holds);
        match kind {
            Kind::Pause(client) if here(client, true) => self.count(Occurrence::StoppedHolding),
            Kind::ServerPause(_) if held => self.count(Occurrence::ServerStopped),
            Kind::Step(_, by) if held && by > 0 => self.count(Occurrence::SetForward),
            Kind::Step(..) if held => self.count(Occurrence::SetBack),
            Kind::Death(client) => {
                let (held, asked) = (here(client, true), here(client, false));
                calls.retain(|_, call| call.client != client);
                held.then(|| self.count(Occurrence::KilledHolding));
                asked.then(|| self.count(Occurrence::KilledAsking));
            }
            _ => {}
        }
    }
}
