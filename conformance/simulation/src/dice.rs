//! A client's source of randomness, which the history's seed determines.

use std::sync::{Mutex, PoisonError};

pub(super) use lock_conformance::dice::Dice;
use lock_core::toolkit::RandomSource;

/// The source of randomness of one client.
pub(super) struct Seeded(Mutex<Dice>);

impl Seeded {
    pub(super) fn new(dice: Dice) -> Seeded {
        Seeded(Mutex::new(dice))
    }
}

impl RandomSource for Seeded {
    fn fill(&self, bytes: &mut [u8]) {
        let mut dice = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&dice.throw().to_le_bytes()[..chunk.len()]);
        }
    }
}
