//! The checker: reads a history and says which promises it broke, and how often it could have.
//!
//! One file per promise, or two: [`exclusion`] (I3, I4), [`tokens`] (I1, I2), [`refusals`] (I7), [`releases`] (I10) and
//! [`terms`]. What is known of a call and of a lock stands here.

mod exclusion;
mod refusals;
mod releases;
mod terms;
mod tokens;
mod violation;

use std::collections::{BTreeMap, BTreeSet};

pub use violation::{Invariant, Violation};

use super::NAMES;
use super::faults::{Fault, Kind};
use super::log::{CallId, Entry, LockId, Terms, What};

/// How many invariants there are.
const INVARIANTS: usize = Invariant::ALL.len();

/// What a history shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// How often each invariant could have been broken, in the order of [`Invariant::ALL`].
    pub opportunities: [u64; INVARIANTS],
    /// How often one was.
    pub violations: Vec<Violation>,
    /// Calls that were granted a lock.
    pub grants: u64,
    /// How often two guards were held at once because the server had been made to end a lease early.
    pub excused: u64,
}

/// Checks a history from its beginning to its end.
pub fn check(log: &[Entry]) -> Verdict {
    let mut checker = Checker::default();
    for (index, entry) in log.iter().enumerate() {
        checker.index = index;
        checker.at = entry.at;
        checker.see(&entry.what);
    }
    checker.verdict
}

#[derive(Default)]
struct Checker {
    calls: Vec<Call>,
    locks: [Lock; NAMES.len()],
    /// Clients whose process was killed: what they say was said by nobody.
    killed: BTreeSet<usize>,
    /// Until when each client stands still.
    stopped: Vec<(usize, u64)>,
    /// By how much the server's clock was set back in all: leases last longer by that.
    set_back: u64,
    index: usize,
    at: u64,
    verdict: Verdict,
}

/// What is known of a call.
#[derive(Clone, Debug, Default)]
struct Call {
    client: usize,
    lock: LockId,
    terms: Option<Terms>,
    asked: u64,
    granted: Option<u64>,
    token: u64,
    /// The highest token that had been granted when this call began.
    after: Option<(u64, CallId)>,
    /// Granted to another one meanwhile.
    succeeded_by: Option<CallId>,
    /// Somebody else held the lock, or may have, at some time since it asked.
    saw_another: bool,
    /// Its holder has asked for a renewal.
    by_hand: bool,
    /// What was granted with this token may have ended before its time, and when.
    shortened: Option<(u64, u64)>,
    /// Its process may have lost the lock.
    lost: bool,
    /// Told of a loss, it goes on working; its deadline would have come then.
    works_until: Option<u64>,
    released: bool,
}

/// What is known of a lock.
#[derive(Debug, Default)]
struct Lock {
    /// Granted, and neither told nor let go.
    open: Vec<CallId>,
    /// Asked, and not answered.
    asking: Vec<CallId>,
    holder: Option<CallId>,
    /// Whose it is on any of several servers.
    parts: Vec<CallId>,
    /// The clients that have claims, as far as they know, once for each.
    claims: Vec<usize>,
    /// By client, when the last of its claims ended.
    ended: BTreeMap<usize, u64>,
    /// The highest one that was granted, and to whom.
    highest_token: Option<(u64, CallId)>,
    highest_write: Option<(u64, CallId)>,
}

impl Checker {
    fn see(&mut self, what: &What) {
        if self.is_dead(what) {
            return;
        }
        match *what {
            What::Parts { lock, ref calls } => self.parts_are(lock, calls),
            What::Asked { call, client, lock, terms } => self.asked(call, client, lock, terms),
            What::Granted { call, token, late } => self.granted(call, token, late),
            What::NotGranted { call, why } => self.not_granted(call, why),
            What::Held { call } => {
                self.holds_alone(call);
                self.holds_on_its_terms(call);
            }
            What::Renews { call } => self.calls[call].by_hand = true,
            What::Told { call, cause, late, left } => {
                self.told(call, late);
                // Whose work was dropped with the lock is told nothing.
                self.calls[call].works_until = cause.map(|_| self.at + left - left / 100);
            }
            What::LetGo { call, .. } => {
                self.closes(call);
                self.calls[call].works_until = None;
            }
            What::GivenBack { call } => self.given_back(call),
            What::Ended { call, ending } => self.ended(call, ending),
            What::Wrote { call, token, accepted } => self.wrote(call, token, accepted),
            What::ClaimBegins { client, lock } => self.claim_begins(client, lock),
            What::ClaimLost { client, lock } => self.claim_lost(client, lock),
            What::ClaimEnds { client, lock } => self.claim_ends(client, lock),
            What::Revokes { call, client, lock, .. } => {
                *self.call(call) = Call { client, lock, asked: self.at, ..Call::default() };
            }
            What::Holder { lock, call } => self.holder_is(lock, call),
            What::Shortened { call, token } => {
                let at = self.at;
                let shortened = &mut self.call(call).shortened;
                *shortened = (*shortened).max(Some((token, at)));
            }
            What::ReleaseArrived { of, before, after } => {
                self.release_arrived(of, before, after);
                self.is_held_long_enough(of, before, after);
            }
            What::Begins(fault) => self.begins(fault),
            What::ShutDown { client, left } => self.shut_down(client, left),
            What::Renewed { .. } | What::Left { .. } | What::Over(_) => {}
        }
    }

    fn asked(&mut self, call: CallId, client: usize, lock: LockId, terms: Terms) {
        let saw_another = self.may_be_held(lock, client, call);
        let after = self.locks[lock].highest_token;
        let asked = self.at;
        *self.call(call) =
            Call { client, lock, terms: Some(terms), asked, after, saw_another, ..Call::default() };
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
        self.succeeds(call);
        self.has_a_higher_token(call, token);
        self.locks[lock].open.push(call);
    }

    /// Told, let go, or no more.
    fn closes(&mut self, call: CallId) {
        let lock = self.calls[call].lock;
        self.locks[lock].open.retain(|open| *open != call);
    }

    fn begins(&mut self, fault: Fault) {
        match fault.kind {
            Kind::Pause(client) => self.stopped.push((client, fault.ends)),
            Kind::Step(_, by) if by < 0 => self.set_back += by.unsigned_abs(),
            Kind::Death(client) => {
                self.killed.insert(client);
                let calls = &self.calls;
                for lock in &mut self.locks {
                    lock.open.retain(|call| calls[*call].client != client);
                    lock.asking.retain(|call| calls[*call].client != client);
                }
            }
            _ => {}
        }
    }

    fn shut_down(&mut self, client: usize, left: usize) {
        self.could(Invariant::Ends);
        if left > 0 {
            let why = format!("client {client} has {left} claims left after its shutdown");
            self.broken(Invariant::Ends, Vec::new(), why);
        }
    }

    /// Whether a process that was killed seems to say this.
    fn is_dead(&self, what: &What) -> bool {
        match *what {
            What::Granted { call, .. }
            | What::NotGranted { call, .. }
            | What::Held { call }
            | What::Told { call, .. }
            | What::LetGo { call, .. }
            | What::Ended { call, .. } => {
                self.calls.get(call).is_some_and(|call| self.killed.contains(&call.client))
            }
            _ => false,
        }
    }

    /// What is known of this call, which may be nothing yet: the server hears of some before they are heard of.
    fn call(&mut self, call: CallId) -> &mut Call {
        if self.calls.len() <= call {
            self.calls.resize(call + 1, Call::default());
        }
        &mut self.calls[call]
    }

    fn could(&mut self, invariant: Invariant) {
        self.verdict.opportunities[invariant as usize] += 1;
    }

    fn broken(&mut self, invariant: Invariant, calls: Vec<CallId>, message: String) {
        self.verdict.violations.push(Violation { invariant, calls, message, index: self.index });
    }
}
