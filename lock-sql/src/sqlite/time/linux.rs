//! Linux: the clock that starts with the kernel and continues during suspend. No process can set it.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use lock_core::{Error, Result};
use rustix::time::{ClockId, clock_gettime};

use super::Boot;
use crate::sqlite::mounts::Mount;

pub(super) const CLOCK_DESCRIPTION: &str = "the kernel's clock since boot, which continues during suspend and can't be \
    set; a reboot ends every lease";

pub(super) const BOOT_ID_ORIGIN: &str = "the kernel's";

const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// The path of the same file within procfs.
const WITHIN: &str = "/sys/kernel/random/boot_id";

/// Reads the boot id. The kernel generates a new one at each boot, and shows the same one to every container that may
/// read it.
pub(super) fn boot() -> Result<Boot> {
    let text = fs::read_to_string(BOOT_ID).map_err(unreadable)?;
    parse_boot(&text).ok_or_else(|| Error::unsupported(format!("{BOOT_ID} holds no boot id: {text:?}")))
}

/// Checks that the boot id is the kernel's. systemd-nspawn and LXC mount a file of their own over it: leases of
/// processes outside would then seem to be of another boot, and over. A running kernel has no other identity that a
/// container's manager can't replace.
pub(super) fn must_be_the_machines() -> Result<()> {
    let file = File::open(BOOT_ID).map_err(unreadable)?;
    let mount = Mount::of(file).map_err(of_unknown_mount)?;
    if mount.kind == "proc" && mount.within(Path::new(BOOT_ID)).as_deref() == Some(Path::new(WITHIN)) {
        return Ok(());
    }
    Err(Error::unsupported(format!(
        "another file is mounted over {BOOT_ID}, as systemd-nspawn and LXC do: processes outside this container would \
         take our leases for those of another boot, and over, and we theirs, so that two clients would hold the same \
         lock. Use a lock server, or, if all processes that use the file are in this container, add boot=trust to the \
         URL"
    )))
}

fn unreadable(e: io::Error) -> Error {
    let why = "without it a lease would seem to last beyond a reboot";
    Error::unsupported(format!("the boot id can't be read at {BOOT_ID}, and {why}: {e}")).with_source(e)
}

/// The error if the mount of the boot id can't be found out: in a sandbox that lacks a part of procfs, or before Linux
/// 5.8 in a process that leaves no dumps.
fn of_unknown_mount(e: io::Error) -> Error {
    Error::unsupported(format!(
        "it is not known whether {BOOT_ID} is the kernel's own, because its mount can't be found out ({e}). Use a lock \
         server, or, if all processes that use the file read the same boot id there, add boot=trust to the URL"
    ))
    .with_source(e)
}

fn parse_boot(text: &str) -> Option<Boot> {
    let digits: String = text.trim().chars().filter(|c| *c != '-').collect();
    let id = (digits.len() == 32).then(|| u128::from_str_radix(&digits, 16).ok())??;
    Some(id.to_be_bytes())
}

/// Returns how far this process's clock is ahead of the kernel's. A time namespace shows its processes a clock with an
/// offset, under the same boot id. Without this correction, the leases of all other processes would seem to be over
/// there, or to last for years.
///
/// The kernel shows only the offset for future children. It is the process's own offset as long as the process and its
/// children are in one namespace, and not after `unshare`.
pub(super) fn ahead() -> Result<i64> {
    let own = match fs::read_link("/proc/self/ns/time") {
        Ok(own) => own,
        // This kernel has no time namespaces.
        Err(e) if e.kind() == io::ErrorKind::NotFound && Path::new("/proc/self/ns").exists() => return Ok(0),
        Err(e) => return Err(no_namespace(e)),
    };
    if own == Path::new(FIRST_NAMESPACE) {
        return Ok(0);
    }
    // The offset is read first: a process may leave the namespace of its children at any moment, and does not come back
    // to it.
    let offsets = fs::read_to_string("/proc/self/timens_offsets").map_err(no_namespace)?;
    if fs::read_link("/proc/self/ns/time_for_children").map_err(no_namespace)? != own {
        return Err(Error::unsupported(
            "this process has created a time namespace for its children, and the offset of its own can't be read any \
             more; open the file before that, or in a child",
        ));
    }
    parse_ahead(&offsets).ok_or_else(|| {
        Error::unsupported(format!("the time namespace's offsets are not understood: {offsets:?}"))
    })
}

/// The time namespace that the kernel starts with, which has no offset (`TIME_NS_INIT_INO` in `linux/nsfs.h`).
const FIRST_NAMESPACE: &str = "time:[4026531834]";

fn no_namespace(e: io::Error) -> Error {
    Error::unsupported(format!("the time namespace of this process can't be found out: {e}")).with_source(e)
}

fn parse_ahead(text: &str) -> Option<i64> {
    let line = text.lines().find_map(|line| line.trim_start().strip_prefix("boottime"))?;
    let mut numbers = line.split_whitespace().map(|n| n.parse::<i64>().ok());
    let (seconds, nanoseconds) = (numbers.next()??, numbers.next()??);
    seconds.checked_mul(1_000_000_000)?.checked_add(nanoseconds)
}

pub(super) fn nanoseconds() -> i64 {
    let t = clock_gettime(ClockId::Boottime);
    t.tv_sec.saturating_mul(1_000_000_000).saturating_add(t.tv_nsec)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_boot_has_an_id() {
        let id = parse_boot("978ebfb6-32e7-470c-9bf9-eb78e6b76c5e\n").expect("a boot id");
        assert_eq!(id[..4], [0x97, 0x8e, 0xbf, 0xb6]);
        assert_eq!(boot().unwrap(), boot().unwrap());
        for bad in ["", "978ebfb6", "x78ebfb6-32e7-470c-9bf9-eb78e6b76c5e"] {
            assert_eq!(parse_boot(bad), None);
        }
    }

    #[test]
    fn an_unknown_mount_is_no_unreadable_boot_id() {
        let error = of_unknown_mount(io::ErrorKind::PermissionDenied.into());
        assert!(
            error.message().contains("boot=trust") && !error.message().contains("can't be read"),
            "{error}"
        );
    }

    #[test]
    fn a_time_namespaces_offset_is_read() {
        let of = |boottime: &str| parse_ahead(&format!("monotonic  7 0\nboottime  {boottime}\n"));
        assert_eq!(of("100000         5"), Some(100_000_000_000_005));
        assert_eq!(of("-3 500000000"), Some(-2_500_000_000));
        assert_eq!((of("x 1"), of("1"), parse_ahead("monotonic 0 0")), (None, None, None));
    }
}
