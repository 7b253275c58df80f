//! The source of randomness of a client. It is passed in, so that a simulation can control it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A source of random bytes.
pub trait RandomSource: Send + Sync + 'static {
    /// Fills `bytes`. Owners are made of these bytes: two clients must not get the same ones.
    fn fill(&self, bytes: &mut [u8]);
}

/// A client's source of randomness. Cheap to clone.
///
/// ```
/// # use lock_core as onelock;
/// use onelock::{Options, Random};
///
/// let options = Options::default().random(Random::system()); // as it is without this call
/// ```
#[derive(Clone)]
pub struct Random(Arc<Inner>);

struct Inner {
    source: Box<dyn RandomSource>,
    /// The state of the generator for pauses, seeded from the source once. It need not be secret.
    state: AtomicU64,
}

impl Random {
    /// Returns the operating system's source.
    ///
    /// # Panics
    ///
    /// If the operating system provides no randomness.
    pub fn system() -> Random {
        Random::new(System)
    }

    /// Makes a source of randomness of `source`, for simulations.
    pub fn new(source: impl RandomSource) -> Random {
        let mut seed = [0; 8];
        source.fill(&mut seed);
        let state = AtomicU64::new(u64::from_le_bytes(seed));
        Random(Arc::new(Inner { source: Box::new(source), state }))
    }

    /// Fills `bytes` from the source.
    pub fn fill(&self, bytes: &mut [u8]) {
        self.0.source.fill(bytes);
    }

    /// Returns a duration in `0..=most`, evenly distributed. Meant for pauses: it costs no call of the operating
    /// system.
    pub fn up_to(&self, most: Duration) -> Duration {
        let part = self.next_u64() >> 11; // the 53 bits that an f64 holds exactly
        most.mul_f64(part as f64 / (1_u64 << 53) as f64)
    }

    /// Returns the next 64 bits of splitmix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators,
    /// 2014).
    fn next_u64(&self) -> u64 {
        let x = self.0.state.fetch_add(0x9E37_79B9_7F4A_7C15, Ordering::Relaxed);
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
    #[allow(clippy::disallowed_methods, reason = "this is the source that all other code has to use")]
    fn fill(&self, bytes: &mut [u8]) {
        // Without randomness no owner can be made, and there is no sensible way to go on.
        getrandom::fill(bytes).expect("the operating system provides randomness");
    }
}
