//! Helpers of the tests of both servers.

use std::time::Duration;

use lock_core::toolkit::RandomSource;
use lock_core::{Owner, OwnerBytes, Random};
use lock_memory::ServerTime;
use lock_memory::server::ClientId;

pub(crate) const TTL: Duration = Duration::from_secs(30);
pub(crate) const SECOND: Duration = Duration::from_secs(1);
pub(crate) const NOW: ServerTime = ServerTime::from_micros(1_700_000_000_000_000);
pub(crate) const A: ClientId = ClientId(1);
pub(crate) const B: ClientId = ClientId(2);

/// Returns the n-th owner.
pub(crate) fn owner(n: u64) -> Owner {
    Owner::mint(&Random::new(Fixed(n)))
}

/// Returns the n-th owner as `Inspect` shows it.
pub(crate) fn shown(n: u64) -> OwnerBytes {
    OwnerBytes::new(owner(n).to_string().into_bytes())
}

struct Fixed(u64);

impl RandomSource for Fixed {
    fn fill(&self, bytes: &mut [u8]) {
        bytes[..8].copy_from_slice(&self.0.to_be_bytes());
    }
}

/// Steele, Lea, Flood: Fast splittable pseudorandom number generators (OOPSLA 2014).
pub(crate) struct SplitMix(pub(crate) u64);

impl SplitMix {
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n
    }
}
