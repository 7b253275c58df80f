//! What faults made servers end early: whose lease it was, and until when its holder may still rely on it.
//!
//! With several servers, an early end on one of them matters only to a holder that needs this server: one that has no
//! majority among the servers that were not touched.

use std::collections::BTreeSet;

use super::LONGEST_TTL;
use super::check::at_most;
use super::families::{Family, Holder, Part};
use super::log::{CallId, LockId, What};
use super::server::World;
use super::tally::micros;
use super::timeline::Micros;

/// What servers have ended early, or may end early.
#[derive(Debug, Default)]
pub(super) struct Cuts {
    cut: Vec<Claimed>,
    /// What servers have forgotten. Such a server must not grant the lock to another client for as long as the lease
    /// would have lasted.
    forgotten: Vec<Claimed>,
    /// Calls whose early end is in the log as `Shortened`, and not yet as `Restored`.
    shortened: BTreeSet<CallId>,
}

/// What a server had granted to a call, and until when its holder may rely on that.
#[derive(Clone, Copy, Debug)]
struct Claimed {
    lock: LockId,
    place: usize,
    call: CallId,
    grant: u64,
    token: u64,
    until: Micros,
}

impl<S: Family> World<S> {
    /// Records that a server may end this early. A holder relies on its lease for no longer than the longest ttl,
    /// however much the server has left.
    pub(super) fn is_cut(&self, lock: LockId, part: Part) {
        let mut claimed = self.claimed(lock, part);
        {
            let mut state = self.state();
            claimed.until = state.cuts.until(claimed);
            // What the log says about this call so far is about another grant, or ends sooner.
            state.cuts.shortened.remove(&part.call);
            state.cuts.cut.push(claimed);
        }
        self.judge_cuts();
    }

    pub(super) fn is_forgotten(&self, lock: LockId, part: Part) {
        let claimed = self.claimed(lock, part);
        self.state().cuts.forgotten.push(claimed);
    }

    fn claimed(&self, lock: LockId, Part { place, call, grant, token, left }: Part) -> Claimed {
        let until = self.timeline.now() + at_most(micros(left.min(LONGEST_TTL)));
        Claimed { lock, place, call, grant, token, until }
    }

    /// Logs which calls' holds may end early from now on, and which no longer may.
    pub(super) fn judge_cuts(&self) {
        if self.state().cuts.cut.is_empty() {
            return;
        }
        let parts: Vec<Vec<Part>> = self.locks().map(|lock| self.parts(lock)).collect();
        let (now, servers) = (self.timeline.now(), self.clocks.len());
        let mut changes = Vec::new();
        {
            let mut state = self.state();
            let cuts = &mut state.cuts;
            // The newest first: its end is the furthest away.
            let before: Vec<Claimed> = cuts.cut.iter().rev().copied().collect();
            cuts.drop_what_is_over(now, &parts);
            for claimed in before {
                let lost_majority = cuts.has_lost_majority(claimed, &parts, servers);
                if lost_majority && cuts.shortened.insert(claimed.call) {
                    changes.push((claimed, true));
                } else if !lost_majority && cuts.shortened.remove(&claimed.call) && now <= claimed.until {
                    changes.push((claimed, false));
                }
            }
        }
        for (Claimed { call, token, until, .. }, lost_majority) in changes {
            match lost_majority {
                true => self.is_shortened(Holder { call, token }, until),
                false => self.log.write(What::Restored { call }),
            }
        }
    }

    /// Logs that this call's grant may end early. If the call had revoked the lock from a holder, that holder's grant
    /// may end early, too, and so on.
    fn is_shortened(&self, holder: Holder, until: Micros) {
        let mut next = Some(holder);
        while let Some(Holder { call, token }) = next {
            self.log.write(What::Shortened { call, token, until });
            next = self.state().revoked_from.get(&call).copied();
        }
    }

    /// Returns what the servers have granted of a lock, and logs changes of its holders.
    pub(super) fn parts(&self, lock: LockId) -> Vec<Part> {
        self.look(lock);
        let now = self.now();
        self.state().server.parts(&now, self.keys[lock].clone())
    }
}

impl Cuts {
    /// Drops what is over, and what a server has prolonged since to at least the same end.
    fn drop_what_is_over(&mut self, now: Micros, parts: &[Vec<Part>]) {
        let lasts = |cut: &Claimed| {
            let same = |part: &&Part| (part.place, part.call, part.grant) == (cut.place, cut.call, cut.grant);
            let part = parts[cut.lock].iter().find(same);
            part.is_some_and(|part| now + at_most(micros(part.left)) >= cut.until)
        };
        self.cut.retain(|cut| now <= cut.until && !lasts(cut));
        self.forgotten.retain(|forgotten| now <= forgotten.until);
    }

    /// Returns until when a holder may rely on what is cut now, which may have been cut before.
    fn until(&self, claimed: Claimed) -> Micros {
        let same =
            |cut: &&Claimed| (cut.place, cut.call, cut.grant) == (claimed.place, claimed.call, claimed.grant);
        self.cut.iter().filter(same).map(|cut| cut.until).fold(claimed.until, Micros::max)
    }

    /// Returns whether the servers that have granted the lock to this call, and were not made to end it early, are no
    /// majority.
    fn has_lost_majority(&self, claimed: Claimed, parts: &[Vec<Part>], servers: usize) -> bool {
        let of = |claims: &[Claimed]| -> BTreeSet<usize> {
            let same = |other: &&Claimed| (other.call, other.grant) == (claimed.call, claimed.grant);
            claims.iter().filter(same).map(|other| other.place).collect()
        };
        let (cut, forgotten) = (of(&self.cut), of(&self.forgotten));
        let has = parts[claimed.lock].iter();
        let has = has.filter(|part| (part.call, part.grant) == (claimed.call, claimed.grant));
        let had: BTreeSet<usize> = has.map(|part| part.place).chain(forgotten).collect();
        !cut.is_empty() && had.difference(&cut).count() <= servers / 2
    }
}
