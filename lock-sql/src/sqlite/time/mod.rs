//! The machine's time. All processes that use a file must agree on it, because leases end by it.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(any(not(target_os = "linux"), test))]
mod wall;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lock_core::Result;

use super::settings::BootId;

#[cfg(target_os = "linux")]
use linux as machine;
#[cfg(not(target_os = "linux"))]
use wall as machine;

/// The clock that ends a lease, and what follows if it is set.
pub(crate) const CLOCK_DESCRIPTION: &str = machine::CLOCK_DESCRIPTION;

/// The origin of the boot id.
pub(crate) const BOOT_ID_ORIGIN: &str = machine::BOOT_ID_ORIGIN;

/// Checks that the boot id that this process reads is the machine's. `Unsupported` if it is not.
pub(crate) fn must_be_the_machines() -> Result<()> {
    machine::must_be_the_machines()
}

/// The id of one boot of the machine.
pub(crate) type Boot = [u8; 16];

/// The machine's clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Time {
    boot: Boot,
    /// The time by which this process's view of the clock is ahead of the machine's.
    ahead: i64,
}

/// A moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Now {
    /// Nanoseconds that all processes of this boot agree on. Leases end by them.
    pub(crate) shared: i64,
    /// Microseconds since 1970. Tokens rise by them.
    pub(crate) wall: i64,
}

impl Time {
    /// Reads the boot id and the clock's offset. `Unsupported` if the system has no boot id, or the offset can't be
    /// read.
    pub(crate) fn of_this_machine(boot: BootId) -> Result<Time> {
        if boot == BootId::OfTheMachine {
            must_be_the_machines()?;
        }
        Ok(Time { boot: machine::boot()?, ahead: machine::ahead()? })
    }

    pub(crate) fn boot(&self) -> Boot {
        self.boot
    }

    pub(crate) fn now(&self) -> Now {
        Now { shared: self.shared(), wall: whole(since_1970().as_micros()) }
    }

    pub(crate) fn shared(&self) -> i64 {
        machine::nanoseconds().saturating_sub(self.ahead)
    }
}

/// Converts `duration` to nanoseconds, as the shared clock counts.
pub(crate) fn nanoseconds(duration: Duration) -> i64 {
    whole(duration.as_nanos())
}

/// Returns what is left until `expires`, if anything is.
pub(crate) fn left(expires: i64, now: i64) -> Option<Duration> {
    let left = u64::try_from(expires.checked_sub(now)?).ok().filter(|left| *left > 0)?;
    Some(Duration::from_nanos(left))
}

#[allow(
    clippy::disallowed_methods,
    reason = "tokens rise by it, and leases end by it where there is no other clock"
)]
fn since_1970() -> Duration {
    // A clock before 1970 is useless: tokens then rise by one.
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::from_micros(1))
}

fn whole(n: u128) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}
