//! The source of randomness, one per client, so that a simulation can own it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Where random bytes come from.
pub trait RandomSource: Send + Sync + 'static {
    /// Fills `bytes`. Owners come from here: two clients must not see the same bytes.
    fn fill(&self, bytes: &mut [u8]);
}

/// A client's source of randomness. Cheap to clone.
#[derive(Clone)]
pub struct Random(Arc<dyn RandomSource>);

impl Random {
    /// The operating system's.
    pub fn system() -> Random {
        Random(Arc::new(System))
    }

    /// Another one, for simulations.
    pub fn new(source: impl RandomSource) -> Random {
        Random(Arc::new(source))
    }

    /// Fills `bytes`.
    pub fn fill(&self, bytes: &mut [u8]) {
        self.0.fill(bytes);
    }

    /// Anything in `0..=most`, evenly.
    pub fn up_to(&self, most: Duration) -> Duration {
        let mut bytes = [0; 8];
        self.fill(&mut bytes);
        let part = u64::from_le_bytes(bytes) >> 11; // the 53 bits that an f64 holds exactly
        most.mul_f64(part as f64 / (1_u64 << 53) as f64)
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
