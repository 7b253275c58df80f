//! Systems without a clock since boot that can be read together with the boot's id. They use the wall clock, which is
//! the same for all processes and goes on over reboots.

use lock_core::Result;

use super::{Boot, since_1970, whole};

#[cfg_attr(target_os = "linux", expect(dead_code, reason = "Linux has a better clock"))]
pub(super) const CLOCK_DESCRIPTION: &str = "the machine's wall clock: set forward, it ends leases early, and two clients \
    may hold a lock; set back, it lengthens leases";

#[cfg_attr(target_os = "linux", expect(dead_code, reason = "Linux has an id for each boot"))]
pub(super) const BOOT_ID_ORIGIN: &str = "one for all boots: leases end by the wall clock";

#[cfg_attr(target_os = "linux", expect(dead_code, reason = "Linux has an id for each boot"))]
pub(super) fn must_be_the_machines() -> Result<()> {
    Ok(())
}

/// Returns one id for all boots, which is unlike any id on Linux. So a file that comes from a Linux machine has no live
/// leases.
pub(super) fn boot() -> Result<Boot> {
    Ok(*b"by the wallclock")
}

pub(super) fn ahead() -> Result<i64> {
    Ok(0)
}

pub(super) fn nanoseconds() -> i64 {
    whole(since_1970().as_nanos())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wall_clock_needs_no_boot() {
        assert_eq!(boot().unwrap(), boot().unwrap());
        assert_eq!(ahead().unwrap(), 0);
        let before = nanoseconds();
        assert!(before > 0 && nanoseconds() >= before);
    }
}
