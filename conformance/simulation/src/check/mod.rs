//! The checker: reads the log of a history and reports which promises were broken, and how often each could have been.
//!
//! Each file checks one promise or two: [`tokens`] (I1, I2), [`exclusion`] (I3, I4), [`losses`] (I4), [`waiting`] (I5,
//! I9), [`remains`] (I6), [`refusals`] (I7), [`order`] (I8), [`releases`] (I10) and [`terms`]. [`disturbances`] tracks
//! faults and messages that were lost, late or doubled. This file has what is known of calls and locks.

mod disturbances;
mod exclusion;
mod losses;
mod order;
mod refusals;
mod releases;
mod remains;
mod terms;
mod tokens;
mod violation;
mod waiting;

use std::collections::{BTreeMap, BTreeSet};

use lock_core::LossReason;

use disturbances::Disturbances;
use exclusion::Shortened;
use order::Line;
use releases::Found;
use waiting::Waiting;

pub use violation::{Invariant, Violation};

use super::clocks::at_least;
use super::faults::{Fault, Kind};
use super::ids::{CallId, LockId};
use super::log::{Entry, Terms, Wait, What};
use super::setting::NAMES;
use super::timeline::micros;

/// The number of invariants.
const INVARIANTS: usize = Invariant::ALL.len();

/// The checker's findings in a history.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// The number of times that each invariant could have been broken, in the order of [`Invariant::ALL`].
    pub opportunities: [u64; INVARIANTS],
    /// All violations.
    pub violations: Vec<Violation>,
    /// Calls that were granted a lock.
    pub grants: u64,
    /// The number of excuses of each, in the same order: it seemed broken, and the promise excludes what went wrong.
    pub excused: [u64; INVARIANTS],
}

/// Checks the log of a history from its beginning to its end.
pub fn check(log: &[Entry]) -> Verdict {
    let mut checker = Checker::default();
    for (index, entry) in log.iter().enumerate() {
        checker.index = index;
        checker.waits_until(entry.at);
        checker.is_told_by(entry.at);
        checker.at = entry.at;
        checker.see(&entry.what);
    }
    checker.verdict
}

#[derive(Default)]
struct Checker {
    calls: Vec<Call>,
    locks: [Lock; NAMES.len()],
    /// Clients whose process was killed. What they seem to say after that is ignored.
    killed: BTreeSet<usize>,
    disturbances: Disturbances,
    index: usize,
    at: u64,
    verdict: Verdict,
}

/// The checker's knowledge of a call.
#[derive(Clone, Debug, Default)]
struct Call {
    client: usize,
    lock: LockId,
    terms: Option<Terms>,
    /// Until when it waits for the lock; none if it doesn't wait.
    waits_until: Option<u64>,
    asked: u64,
    granted: Option<u64>,
    token: u64,
    /// The highest token that had been granted when this call began, and to which call.
    after: Option<(u64, CallId)>,
    /// The call that was granted the lock after this one, while this one had not been told or let go.
    succeeded_by: Option<CallId>,
    /// Another call held the lock, or may have held it, at some time since this one asked.
    saw_another: bool,
    /// Its holder has asked for a renewal.
    by_hand: bool,
    /// Its grant may have ended early.
    shortened: Option<Shortened>,
    /// Until when its guard was certain to be held when it was last looked at, in simulated time.
    certain_until: Option<u64>,
    /// The server had another holder after this one.
    was_anothers: bool,
    /// When its guard was let go, and how long the guard was certain to be held then.
    let_go: Option<(u64, u64)>,
    /// The lock as the first release after that found it at the server.
    found: Option<Found>,
    /// Its process may have lost the lock.
    lost: bool,
    /// If it was told of a loss: until when its work may go on, which is until its deadline.
    works_until: Option<u64>,
    released: bool,
    /// By grant, of several servers: those that ended their part of it when the first release came there.
    parts_released: BTreeMap<u64, BTreeSet<usize>>,
}

/// The checker's knowledge of a lock.
#[derive(Debug, Default)]
struct Lock {
    /// Calls that were granted the lock, and have neither been told of its loss nor let it go.
    open: Vec<CallId>,
    /// Calls that have asked for the lock, and have no answer yet.
    asking: Vec<CallId>,
    holder: Option<CallId>,
    /// The last holder that the server had.
    last_holder: Option<CallId>,
    /// Calls that have it on any of several servers.
    parts: Vec<CallId>,
    /// Calls that have a place in its queue.
    places: Vec<CallId>,
    line: Line,
    waiting: Waiting,
    /// When a caller last asked to revoke it.
    revoked: u64,
    /// The clients that have the lock as far as they know, once for each claim.
    claims: Vec<usize>,
    /// By client: when the call at the front of its local queue was last answered.
    turns: BTreeMap<usize, u64>,
    /// By client: when the last of its claims ended.
    ended: BTreeMap<usize, u64>,
    /// The highest token that was granted, and to which call.
    highest_token: Option<(u64, CallId)>,
    highest_write: Option<(u64, CallId)>,
}

impl Checker {
    fn see(&mut self, what: &What) {
        if self.is_dead(what) {
            return;
        }
        match *what {
            What::Opens(rules) => self.disturbances.rules = Some(rules),
            What::Missed { client, server, fate } => {
                self.disturbances.misses(self.at, (client, server), fate);
            }
            What::Parts { lock, ref calls } => self.parts_are(lock, calls),
            What::Places { lock, ref calls } => self.places_are(lock, calls),
            What::Remains { lock, ref calls } => self.remains(lock, calls),
            What::Asked { call, client, lock, terms, waits } => self.asked(call, client, lock, terms, waits),
            What::Granted { call, token, late } => self.granted(call, token, late),
            What::NotGranted { call, why } => self.not_granted(call, why),
            What::Held { call, left } => {
                self.is_certain(call, left);
                self.holds_alone(call);
                self.holds_on_its_terms(call);
            }
            What::Renews(call) => self.calls[call].by_hand = true,
            What::Told { call, cause, late, left } => {
                self.told(call, late);
                self.loses(call, cause, left);
            }
            What::LetGo { call, left, .. } => self.let_go(call, left),
            What::GivenBack(call) => self.given_back(call),
            What::Ended { call, ending } => self.ended(call, ending),
            What::Wrote { call, token, accepted } => self.wrote(call, token, accepted),
            What::ClaimBegins(claim) => self.claim_begins(claim),
            What::ClaimLost(claim) => self.claim_lost(claim),
            What::ClaimEnds(claim) => self.claim_ends(claim),
            What::Revokes { call, client, lock, .. } => {
                self.locks[lock].revoked = self.at;
                *self.call(call) = Call { client, lock, asked: self.at, ..Call::default() };
            }
            What::Holder { lock, call } => self.holder_is(lock, call),
            What::Shortened { call, token, until } => self.shortened(call, token, until),
            What::Restored(call) => self.call(call).shortened = None,
            What::PartReleased { call, grant, server } => self.part_released(call, grant, server),
            What::ReleaseArrived { of, before, after } => self.release_arrived(of, before, after),
            What::Begins(fault) => self.begins(fault),
            What::ShutDown { client, left } => self.shut_down(client, left),
            What::Renewed(_) | What::Left(_) | What::Over(_) => {}
        }
    }

    fn asked(&mut self, call: CallId, client: usize, lock: LockId, terms: Terms, waits: Wait) {
        let saw_another = self.may_be_held(lock, client, call);
        let after = self.locks[lock].highest_token;
        let asked = self.at;
        let waits_until = match waits {
            Wait::Not => None,
            Wait::For(wait) => Some(asked + at_least(micros(wait))),
            Wait::Ever => Some(u64::MAX),
        };
        let terms = Some(terms);
        *self.call(call) =
            Call { client, lock, terms, waits_until, asked, after, saw_another, ..Call::default() };
        self.locks[lock].asking.push(call);
    }

    fn granted(&mut self, call: CallId, token: u64, late: bool) {
        self.verdict.grants += 1;
        let lock = self.calls[call].lock;
        self.locks[lock].asking.retain(|asking| *asking != call);
        self.has_its_own_token(call, token);
        self.is_granted_in_time(call, late);
        self.calls[call].token = token;
        self.calls[call].granted = Some(self.at);
        self.calls[call].was_anothers |= self.locks[lock].parts.iter().any(|part| *part != call);
        self.succeeds(call);
        self.is_served(call, lock);
        self.gives_way(call);
        self.has_a_higher_token(call, token);
        self.locks[lock].open.push(call);
    }

    /// The holder knows that it has lost the lock.
    fn loses(&mut self, call: CallId, cause: Option<LossReason>, left: u64) {
        self.calls[call].lost = true;
        cause.into_iter().for_each(|cause| self.has_a_reason(call, cause, left));
        // A caller whose work was dropped with the lock is told no cause. A lock that the server no longer had (`Gone`,
        // `Taken`) is not given back: a message that comes twice may bring it back to the server, and a revoke may take
        // it.
        let may_be_given_back = |cause: &LossReason| !matches!(cause, LossReason::Gone | LossReason::Taken);
        self.calls[call].works_until = cause.filter(may_be_given_back).map(|_| self.at + left - left / 100);
    }

    fn let_go(&mut self, call: CallId, left: u64) {
        self.closes(call);
        self.calls[call].let_go = Some((self.at, left));
        self.calls[call].works_until = None;
    }

    /// The server may have ended this grant early: without that, its holder could rely on it until `until`.
    fn shortened(&mut self, call: CallId, token: u64, until: u64) {
        let at = self.at;
        let shortened = &mut self.call(call).shortened;
        // If it had been ended before: its holder may still rely on what it was granted before the first time.
        let before = shortened.filter(|before| before.token == token).map_or(0, |before| before.until);
        *shortened = Some(Shortened { token, at, until: until.max(before) });
    }

    /// The call's hold is over: its caller was told of the loss or let the guard go.
    fn closes(&mut self, call: CallId) {
        let lock = self.calls[call].lock;
        self.locks[lock].open.retain(|open| *open != call);
        if let Some(holder) = self.locks[lock].holder {
            self.has_it_again(holder);
        }
    }

    fn begins(&mut self, fault: Fault) {
        self.disturbances.begins(self.at, fault);
        if let Kind::Death(client) = fault.kind {
            self.killed.insert(client);
            let calls = &self.calls;
            for lock in &mut self.locks {
                lock.open.retain(|call| calls[*call].client != client);
                lock.asking.retain(|call| calls[*call].client != client);
            }
        }
    }

    fn shut_down(&mut self, client: usize, left: usize) {
        self.could(Invariant::Ends);
        if left > 0 {
            self.broken(
                Invariant::Ends,
                [],
                format!("client {client} has {left} claims left after its shutdown"),
            );
        } else {
            self.leaves_nothing(client);
        }
    }

    /// Returns whether this entry seems to come from a process that was killed.
    fn is_dead(&self, what: &What) -> bool {
        match *what {
            What::Granted { call, .. }
            | What::NotGranted { call, .. }
            | What::Held { call, .. }
            | What::Told { call, .. }
            | What::LetGo { call, .. }
            | What::Ended { call, .. } => {
                self.calls.get(call).is_some_and(|call| self.killed.contains(&call.client))
            }
            _ => false,
        }
    }

    /// Returns what is known of this call. That may be nothing yet: some calls reach the server before the log shows
    /// that they were asked.
    fn call(&mut self, call: CallId) -> &mut Call {
        if self.calls.len() <= call {
            self.calls.resize(call + 1, Call::default());
        }
        &mut self.calls[call]
    }

    fn could(&mut self, invariant: Invariant) {
        self.verdict.opportunities[invariant as usize] += 1;
    }

    fn excused(&mut self, invariant: Invariant) {
        self.verdict.excused[invariant as usize] += 1;
    }

    fn broken(&mut self, invariant: Invariant, calls: impl Into<Vec<CallId>>, message: impl Into<String>) {
        let (calls, message) = (calls.into(), message.into());
        self.verdict.violations.push(Violation { invariant, calls, message, index: self.index });
    }
}
