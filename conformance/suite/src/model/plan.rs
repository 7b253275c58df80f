//! The steps that are taken on both servers. A plan is made from a seed. Any part of a plan is a plan too: a step names
//! the place of a claim, and does nothing if that place is empty.

use std::time::Duration;

use lock_core::driver::{Queueing, When};

use crate::dice::Dice;

pub(super) const NAMES: usize = 2;
/// The number of claimants that may claim a name at the same time.
const CLAIMANTS: usize = 3;

/// The place of a claim: one of the claimants of one of the names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ClaimSlot {
    pub(super) name: usize,
    pub(super) claimant: usize,
}

/// The holder that a revoke names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holder {
    /// The present holder.
    Present,
    /// An earlier holder, which was shown at that time.
    Earlier,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    /// Attempts the lock: with a new owner if the slot is empty or its owner has released, otherwise with the same
    /// owner again.
    Attempt(ClaimSlot, Duration, Queueing),
    Listen(ClaimSlot),
    Renew(ClaimSlot, Duration),
    Release(ClaimSlot),
    Inspect(usize),
    Revoke(usize, Holder, When),
    /// Waits until the lease of this name has ended, if it is a short one.
    Outlive(usize),
}

impl Step {
    pub(super) fn name(self) -> usize {
        match self {
            Step::Attempt(slot, ..) | Step::Listen(slot) | Step::Renew(slot, _) | Step::Release(slot) => {
                slot.name
            }
            Step::Inspect(name) | Step::Revoke(name, ..) | Step::Outlive(name) => name,
        }
    }
}

/// Returns the plan of this seed. A play may wait for the end of a `short` lease; a `long` one doesn't end meanwhile.
pub(super) fn plan(seed: u64, steps: usize, [short, long]: [Duration; 2]) -> Vec<Step> {
    let mut dice = Dice::new(seed);
    (0..steps).map(|_| step(&mut dice, short, long)).collect()
}

fn step(dice: &mut Dice, short: Duration, long: Duration) -> Step {
    let name = dice.below(NAMES);
    let slot = ClaimSlot { name, claimant: dice.below(CLAIMANTS) };
    let ttl = if dice.chance(600) { short } else { long };
    let waits = if dice.chance(500) { Queueing::Queued } else { Queueing::No };
    let when = if dice.chance(500) { When::Now } else { When::HoldersDeadline };
    let which_holder = if dice.chance(700) { Holder::Present } else { Holder::Earlier };
    match dice.below(100) {
        0..35 => Step::Attempt(slot, ttl, waits),
        35..50 => Step::Renew(slot, ttl),
        50..70 => Step::Release(slot),
        70..78 => Step::Listen(slot),
        78..88 => Step::Inspect(name),
        88..95 => Step::Revoke(name, which_holder, when),
        _ => Step::Outlive(name),
    }
}
