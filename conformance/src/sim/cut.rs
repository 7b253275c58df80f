//! What servers were made to end before its time: whose it was, and for how long its holder may go on believing in it.
//!
//! Of several servers one that was made to end a lease hurts only a holder that needs it: one to which the others that have
//! not been touched are no majority.

use std::collections::BTreeSet;

use super::LONGEST_TTL;
use super::check::at_most;
use super::families::{Family, Holder, Part};
use super::log::{CallId, LockId, What};
use super::server::World;
use super::tally::micros;
use super::timeline::Micros;

/// What servers have ended, or may end, before its time.
#[derive(Debug, Default)]
pub(super) struct Cuts {
    cut: Vec<Claimed>,
    /// What servers have lost that must not give it to others for as long as it would have lasted.
    forgotten: Vec<Claimed>,
    /// Calls of which it is written down.
    shortened: BTreeSet<CallId>,
}

/// What a server had of a call, and until when its holder may count on that.
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
    /// A server may end this early. A holder believes in no more than it asked for, whatever the server has.
    pub(super) fn is_cut(&self, lock: LockId, part: Part) {
        let mut claimed = self.claimed(lock, part);
        {
            let mut state = self.state();
            claimed.until = state.cuts.until(claimed);
            // What was written down of it before is of another grant, or ends sooner.
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

    /// Writes down whose holds may end early from now on, and whose do no longer.
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
            // The newest first: it reaches furthest.
            let before: Vec<Claimed> = cuts.cut.iter().rev().copied().collect();
            cuts.drop_what_is_over(now, &parts);
            for claimed in before {
                let hurt = cuts.is_hurt(claimed, &parts, servers);
                if hurt && cuts.shortened.insert(claimed.call) {
                    changes.push((claimed, true));
                } else if !hurt && cuts.shortened.remove(&claimed.call) && now <= claimed.until {
                    changes.push((claimed, false));
                }
            }
        }
        for (Claimed { call, token, until, .. }, hurt) in changes {
            match hurt {
                true => self.is_shortened(Holder { call, token }, until),
                false => self.log.write(What::Restored { call }),
            }
        }
    }

    /// What this call was granted may end early; and so may what it was granted who was deprived of it.
    fn is_shortened(&self, holder: Holder, until: Micros) {
        let mut next = Some(holder);
        while let Some(Holder { call, token }) = next {
            self.log.write(What::Shortened { call, token, until });
            next = self.state().deprived.get(&call).copied();
        }
    }

    /// What the servers have of a lock. Whom they have is written down.
    pub(super) fn parts(&self, lock: LockId) -> Vec<Part> {
        self.look(lock);
        let now = self.now();
        self.state().server.parts(&now, self.keys[lock].clone())
    }
}

impl Cuts {
    /// What a server has prolonged since is as good as before.
    fn drop_what_is_over(&mut self, now: Micros, parts: &[Vec<Part>]) {
        let lasts = |cut: &Claimed| {
            let same = |part: &&Part| (part.place, part.call, part.grant) == (cut.place, cut.call, cut.grant);
            let part = parts[cut.lock].iter().find(same);
            part.is_some_and(|part| now + at_most(micros(part.left)) >= cut.until)
        };
        self.cut.retain(|cut| now <= cut.until && !lasts(cut));
        self.forgotten.retain(|forgotten| now <= forgotten.until);
    }

    /// Until when a holder may count on what is cut now, and may have been before.
    fn until(&self, claimed: Claimed) -> Micros {
        let same =
            |cut: &&Claimed| (cut.place, cut.call, cut.grant) == (claimed.place, claimed.call, claimed.grant);
        self.cut.iter().filter(same).map(|cut| cut.until).fold(claimed.until, Micros::max)
    }

    /// Whether the servers that have this call's lock, and were not made to end it, are no majority.
    fn is_hurt(&self, claimed: Claimed, parts: &[Vec<Part>], servers: usize) -> bool {
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
