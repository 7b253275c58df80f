//! The source of randomness, one per client, so that a simulation can own it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Where random bytes come from.
pub trait RandomSource: Send + Sync + 'static {
    /// Fills `bytes`. Owners come from here: two clients must not see the same bytes.
    fn fill(&self, bytes: &mut [u8]);
}

/// A client's source of randomness. Cheap to clone.
#[derive(Clone)]
pub struct Random(Arc<Inner>);

struct Inner {
    source: Box<dyn RandomSource>,
    /// Where the dice for pauses stand; thrown from the source once. Nothing depends on their being secret.
    dice: AtomicU64,
}

impl Random {
    /// The operating system's.
    pub fn system() -> Random {
        Random::new(System)
    }

    /// Another one, for simulations.
    pub fn new(source: impl RandomSource) -> Random {
        let mut seed = [0; 8];
        source.fill(&mut seed);
        let dice = AtomicU64::new(u64::from_le_bytes(seed));
        Random(Arc::new(Inner { source: Box::new(source), dice }))
    }

    /// Fills `bytes` from the source.
    pub fn fill(&self, bytes: &mut [u8]) {
        self.0.source.fill(bytes);
    }

    /// Anything in `0..=most`, evenly: for pauses, which need not cost a call of the operating system.
    pub fn up_to(&self, most: Duration) -> Duration {
        let part = self.dice() >> 11; // the 53 bits that an f64 holds exactly
        most.mul_f64(part as f64 / (1_u64 << 53) as f64)
    }

    /// The next 64 bits of splitmix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014).
    fn dice(&self) -> u64 {
        let x = self.0.dice.fetch_add(0x9E37_79B9_7F4A_7C15, Ordering::Relaxed);
        let x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        x ^ (x >> 31)
    }
}

impl fmt::Debug for Random {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Random")
    }
}

#[derive(Debug)]
struct System;

impl RandomSource for System {
    #[allow(
        clippy::disallowed_methods,
        reason = "this is the source that the rule asks everybody else to use"
    )]
    fn fill(&self, bytes: &mut [u8]) {
        // A machine without randomness can mint no owners: there is nothing sensible to go on with.
        getrandom::fill(bytes).expect("the operating system provides randomness");
    }
}
