//! The argument about Redlock in the documents (docs/redlock.md): a few faults that break a lock with a lease. Each
//! story is one such fault, and the servers on which it is played.

use super::dice::Dice;
use super::faults::{Fault, FaultProfile, Guard, Kind, Loss};
use super::rules::FamilyName;
use super::setting::{CLIENTS, TTL_MICROS};
use super::timeline::Micros;

/// One way to break a lock.
#[derive(Debug)]
pub struct Story {
    /// The fault, in words.
    pub name: &'static str,
    /// On which servers it is played.
    pub on: &'static str,
    pub(super) family: FamilyName,
    pub(super) servers: usize,
    pub(super) guard: Guard,
    pub(super) profile: FaultProfile,
    pub(super) faults: fn(&mut Dice) -> Vec<Fault>,
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

// ---- the faults -----------------------------------------------------------------------------------------------------

/// Single faults begin before this time: no history is shorter.
const EARLY: Micros = 400_000;

fn pauses(dice: &mut Dice) -> Vec<Fault> {
    let pause = |client| {
        let (begins, lasts) = (dice.within(0, EARLY), dice.within(TTL_MICROS * 11 / 10, TTL_MICROS * 3));
        Fault::at(begins, Kind::Pause(client), lasts)
    };
    (0..CLIENTS).map(pause).collect()
}

/// Sets clocks forward by more than a lease.
fn set_forward(dice: &mut Dice, servers: usize) -> Vec<Fault> {
    let (begins, by) = (dice.within(0, EARLY), dice.within(TTL_MICROS, TTL_MICROS * 3) as i64);
    (0..servers).map(|server| Fault::at(begins, Kind::Step(server, by), 0)).collect()
}

fn restart(dice: &mut Dice) -> Vec<Fault> {
    vec![Fault::at(dice.within(0, EARLY), Kind::Wipe(0, Loss::Everything), 0)]
}

/// First the last two servers can't be reached. Then the middle one loses data, and the first two can't be reached.
fn change_of_majority(dice: &mut Dice) -> Vec<Fault> {
    let (then, lasts) = (dice.within(50_000, EARLY), TTL_MICROS * 5);
    let loss = if dice.chance(500) { Loss::Everything } else { Loss::Latest };
    vec![
        Fault::at(0, Kind::ServerCut(3), then),
        Fault::at(0, Kind::ServerCut(4), then),
        Fault::at(then, Kind::Wipe(2, loss), 0),
        Fault::at(then, Kind::ServerCut(0), lasts),
        Fault::at(then, Kind::ServerCut(1), lasts),
    ]
}

/// Restarts each server long enough after the one before it, so that the earlier one has its vote again.
fn rolling_restart(dice: &mut Dice) -> Vec<Fault> {
    let restart = |server| {
        let begins = dice.within(0, EARLY) + server as Micros * TTL_MICROS * 2;
        Fault::at(begins, Kind::Wipe(server, Loss::Everything), 0)
    };
    (0..5).map(restart).collect()
}
