//! The argument about Redlock in the documents (docs/redlock.md): a few faults that break a lock with a lease. Each
//! story plays many histories with one such fault and no other, and counts how often it does harm.
//!
//! Callers here never look at their guards: they write for as long as planned. A resource that checks tokens refuses
//! stale writes, and one that doesn't takes them; the same histories show both.

use std::collections::BTreeMap;

use super::check::Invariant;
use super::dice::Dice;
use super::faults::{Fault, FaultProfile, Guard, Kind, Loss};
use super::history::{FamilyName, History, Script, play_by};
use super::log::What;
use super::timeline::Micros;
use super::{CLIENTS, NAMES, TTL};

/// One way to break a lock.
#[derive(Debug)]
pub struct Story {
    /// What goes wrong.
    pub name: &'static str,
    /// On which servers it is played.
    pub on: &'static str,
    family: FamilyName,
    pub(super) servers: usize,
    pub(super) guard: Guard,
    pub(super) profile: FaultProfile,
    pub(super) faults: fn(&mut Dice) -> Vec<Fault>,
}

/// The results of the histories of a story.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoryResults {
    /// How many histories there were.
    pub histories: u64,
    /// Calls that were granted a lock.
    pub grants: u64,
    /// Histories in which two guards of one lock said at the same time that they hold it.
    pub with_two_holders: u64,
    /// Histories in which a promise was broken that the story's fault does not excuse.
    pub with_broken_promises: u64,
    /// Histories in which a write arrived after one of a newer holder. A resource without tokens takes such a write.
    pub with_stale_writes: u64,
    /// How many such writes there were.
    pub stale_writes: u64,
    /// How many of them a resource with tokens took.
    pub stale_writes_taken: u64,
}

/// All stories.
pub static STORIES: [Story; 11] = [
    Story { name: "nothing", ..one(|_| Vec::new()) },
    Story { name: "nothing", ..five(|_| Vec::new()) },
    Story { name: "a client stands still for longer than its lease", ..one(pauses) },
    Story { name: "a client stands still for longer than its lease", ..five(pauses) },
    Story {
        name: "the clock is set forward",
        profile: FaultProfile::Steps,
        ..one(|dice| set_forward(dice, 1))
    },
    Story {
        name: "one of the clocks is set forward",
        profile: FaultProfile::Steps,
        ..five(|dice| set_forward(dice, 1))
    },
    Story {
        name: "three of the clocks are set forward",
        profile: FaultProfile::Steps,
        ..five(|dice| set_forward(dice, 3))
    },
    Story { name: "a restart without the data", profile: FaultProfile::Wipes, ..one(restart) },
    Story {
        name: "a restart between A, B, C and C, D, E",
        on: "five, no guard",
        guard: Guard::None,
        profile: FaultProfile::Wipes,
        ..five(change_of_majority)
    },
    Story {
        name: "a restart between A, B, C and C, D, E",
        profile: FaultProfile::Wipes,
        ..five(change_of_majority)
    },
    Story { name: "all restart, one after the other", profile: FaultProfile::Wipes, ..five(rolling_restart) },
];

const fn one(faults: fn(&mut Dice) -> Vec<Fault>) -> Story {
    Story {
        name: "",
        on: "one server",
        family: FamilyName::Lease,
        servers: 1,
        guard: Guard::SitsOut,
        profile: FaultProfile::Mild,
        faults,
    }
}

const fn five(faults: fn(&mut Dice) -> Vec<Fault>) -> Story {
    Story { on: "five", family: FamilyName::Redlock, servers: 5, ..one(faults) }
}

/// Plays `histories` histories of a story, with the seeds from `seed` on.
pub fn play_story(story: &'static Story, histories: u64, seed: u64) -> StoryResults {
    let mut results = StoryResults::default();
    for seed in (0..histories).map(|n| seed.wrapping_add(n)) {
        results.add(&play_by(story.family, seed, Script::Told(story)));
    }
    results
}

impl StoryResults {
    fn add(&mut self, history: &History) {
        self.histories += 1;
        self.grants += history.verdict.grants;
        let violations = &history.verdict.violations;
        let two_hold = |violation: &super::Violation| violation.invariant == Invariant::Exclusion;
        let excused =
            [Invariant::Exclusion, Invariant::LossInTime].map(|i| history.verdict.excused[i as usize]);
        let overlap = excused != [0, 0] || violations.iter().any(two_hold);
        self.with_two_holders += u64::from(overlap);
        self.with_broken_promises += u64::from(!violations.is_empty());
        let (stale, taken) = stale_writes(history);
        self.with_stale_writes += u64::from(stale > 0);
        self.stale_writes += stale;
        self.stale_writes_taken += taken;
    }
}

/// Returns how many writes arrived after one of a newer holder, and how many of those a resource with tokens took.
/// Which holder is newer follows from the order in which the servers had their holders. Tokens can't decide that here:
/// by their order, no stale write would ever be taken.
fn stale_writes(history: &History) -> (u64, u64) {
    let (mut locks, mut had, mut holds) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    let mut newest = [0; NAMES.len()];
    let (mut stale, mut taken) = (0, 0);
    for (nth, entry) in history.log.iter().enumerate() {
        match entry.what {
            What::Asked { call, lock, .. } => _ = locks.insert(call, lock),
            What::Holder { call: Some(call), .. } => _ = had.insert(call, nth),
            // If clocks are set during a grant, the grant may have ended on one server before the last server of a
            // majority granted it.
            What::Granted { call, .. } => _ = holds.insert(call, had.get(&call).copied().unwrap_or(nth)),
            What::Wrote { call, accepted, .. } => {
                let (since, newest) = (holds[&call], &mut newest[locks[&call]]);
                stale += u64::from(since < *newest);
                taken += u64::from(since < *newest && accepted);
                *newest = since.max(*newest);
            }
            _ => {}
        }
    }
    (stale, taken)
}

// ---- the faults -----------------------------------------------------------------------------------------------------

/// Single faults begin before this time: no history is shorter.
const EARLY: Micros = 400_000;

fn at(kind: Kind, begins: Micros, lasts: Micros) -> Fault {
    Fault { kind, begins, ends: begins + lasts }
}

fn ttls(count: f64) -> Micros {
    (TTL.as_secs_f64() * 1e6 * count) as Micros
}

fn pauses(dice: &mut Dice) -> Vec<Fault> {
    (0..CLIENTS)
        .map(|client| at(Kind::Pause(client), dice.within(0, EARLY), dice.within(ttls(1.1), ttls(3.0))))
        .collect()
}

/// Sets clocks forward by more than a lease.
fn set_forward(dice: &mut Dice, servers: usize) -> Vec<Fault> {
    let (begins, by) = (dice.within(0, EARLY), dice.within(ttls(1.0), ttls(3.0)) as i64);
    (0..servers).map(|server| at(Kind::Step(server, by), begins, 0)).collect()
}

fn restart(dice: &mut Dice) -> Vec<Fault> {
    vec![at(Kind::Wipe(0, Loss::Everything), dice.within(0, EARLY), 0)]
}

/// First the last two servers can't be reached. Then the middle one loses data, and the first two can't be reached.
fn change_of_majority(dice: &mut Dice) -> Vec<Fault> {
    let (then, lasts) = (dice.within(50_000, EARLY), ttls(5.0));
    let loss = if dice.chance(500) { Loss::Everything } else { Loss::Latest };
    vec![
        at(Kind::ServerCut(3), 0, then),
        at(Kind::ServerCut(4), 0, then),
        at(Kind::Wipe(2, loss), then, 0),
        at(Kind::ServerCut(0), then, lasts),
        at(Kind::ServerCut(1), then, lasts),
    ]
}

/// Restarts each server long enough after the one before it, so that the earlier one has its vote again.
fn rolling_restart(dice: &mut Dice) -> Vec<Fault> {
    let pause = ttls(2.0);
    (0..5)
        .map(|server| {
            at(Kind::Wipe(server, Loss::Everything), dice.within(0, EARLY) + server as Micros * pause, 0)
        })
        .collect()
}
