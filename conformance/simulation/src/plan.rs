//! The plan of a section, drawn before it begins.

use std::time::Duration;

use lock_core::driver::When;

use super::dice::Dice;
use super::history::Script;
use super::ids::LockId;
use super::log::{Parting, Terms};
use super::setting::{LONGEST_TTL, TTL, TTL_MICROS};

/// The plan of one section: which lock, on what terms, and how the caller behaves.
#[derive(Clone, Copy)]
pub(super) struct Plan {
    pub(super) lock: LockId,
    pub(super) terms: Terms,
    pub(super) operation: Operation,
    /// The longest time that it waits for the lock.
    pub(super) wait: Option<Duration>,
    /// After how long the caller goes away without waiting for the answer.
    pub(super) leaves_after: Option<Duration>,
    pub(super) holds: Duration,
    pub(super) renews: Option<ByHand>,
    /// If a fault hits the caller at the worst moment, as soon as it has the lock: the throw that decides which.
    pub(super) fault_at_grant: Option<u64>,
    pub(super) parting: Parting,
    /// True if the caller goes on writing after it was told that the lock is lost.
    pub(super) ignores_loss: bool,
}

#[derive(Clone, Copy)]
pub(super) enum Operation {
    Try,
    Acquire,
    Run,
    /// Revokes the lock from its holder, without asking for it.
    Revoke(When),
}

/// A renewal that the holder asks for.
#[derive(Clone, Copy)]
pub(super) struct ByHand {
    pub(super) after: Duration,
    pub(super) ttl: Duration,
}

impl Plan {
    pub(super) fn throw(dice: &mut Dice, locks: usize, script: Script) -> Plan {
        match script {
            Script::Chance => Plan::wild(dice, locks),
            Script::Told(_) => Plan::plain(dice, locks),
        }
    }

    fn plain(dice: &mut Dice, locks: usize) -> Plan {
        Plan {
            lock: dice.below(locks),
            terms: Terms { ttl: TTL, fixed: false, max_hold: None, min_hold: None },
            operation: Operation::Acquire,
            wait: None,
            leaves_after: None,
            holds: micros(dice, 20_000, 400_000),
            renews: None,
            fault_at_grant: None,
            parting: Parting::Release,
            ignores_loss: true,
        }
    }

    fn wild(dice: &mut Dice, locks: usize) -> Plan {
        let operation = match dice.within(0, 100) {
            0..20 => Operation::Try,
            20..40 => Operation::Run,
            40 => Operation::Revoke(When::Now),
            41..44 => Operation::Revoke(When::HoldersDeadline),
            _ => Operation::Acquire,
        };
        let parting = match dice.within(0, 4) {
            0 => Parting::Drop,
            1 => Parting::HalfRelease,
            _ => Parting::Release,
        };
        let terms = throw_terms(dice);
        let fault_at_grant = dice.chance(60).then(|| dice.within(0, 10));
        let holds = match (fault_at_grant, dice.chance(60)) {
            (Some(_), _) => micros(dice, TTL_MICROS, 1_800_000),
            (None, true) => micros(dice, 100_000, 1_500_000),
            (None, false) => micros(dice, 0, 8_000),
        };
        let (wait, leaves, renews) = (dice.chance(300), dice.chance(100), dice.chance(80));
        Plan {
            lock: dice.below(locks),
            terms,
            operation,
            wait: wait.then(|| micros(dice, 1_000, 800_000)),
            leaves_after: leaves.then(|| micros(dice, 1, 30_000)),
            holds,
            renews: renews.then(|| ByHand { after: micros(dice, 0, 5_000), ttl: throw_ttl(dice) }),
            fault_at_grant,
            parting,
            ignores_loss: dice.chance(300),
        }
    }
}

fn throw_terms(dice: &mut Dice) -> Terms {
    let (fixed, capped, least) = (dice.chance(80), dice.chance(60), dice.chance(60));
    Terms {
        ttl: throw_ttl(dice),
        fixed,
        max_hold: capped.then(|| micros(dice, 60_000, 900_000)),
        min_hold: least.then(|| micros(dice, 1_000, 60_000)),
    }
}

fn throw_ttl(dice: &mut Dice) -> Duration {
    match dice.within(0, 10) {
        0 => TTL * 2 / 3,
        1 => LONGEST_TTL,
        _ => TTL,
    }
}

fn micros(dice: &mut Dice, least: u64, most: u64) -> Duration {
    Duration::from_micros(dice.within(least, most))
}
