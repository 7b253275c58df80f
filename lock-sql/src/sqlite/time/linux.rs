//! Linux: the clock that starts with the kernel, goes on in suspend, and that nobody can set.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use lock_core::{Error, Result};
use rustix::time::{ClockId, clock_gettime};

use super::Boot;
use crate::sqlite::mounts::Mount;

pub(super) const PROMISE: &str =
    "the kernel's since boot, which goes on in suspend and which nobody can set; a reboot ends every lease";

pub(super) const BOOT: &str = "the kernel's";

const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// The same within procfs itself.
const WITHIN: &str = "/sys/kernel/random/boot_id";

/// The kernel makes up a new one at each boot, and shows the same to every container that is let see it.
pub(super) fn boot() -> Result<Boot> {
    let text = fs::read_to_string(BOOT_ID).map_err(unreadable)?;
    parse_boot(&text).ok_or_else(|| Error::unsupported(format!("{BOOT_ID} holds no boot id: {text:?}")))
}

/// systemd-nspawn and LXC mount a file of their own over the kernel's: by that, all leases of the others would be of
/// another boot, and over. There is no other name of a running kernel that a container can't be given another of.
pub(super) fn must_be_the_machines() -> Result<()> {
    let file = File::open(BOOT_ID).map_err(unreadable)?;
    let mount = Mount::of(file).map_err(of_unknown_mount)?;
    if mount.kind == "proc" && mount.within(Path::new(BOOT_ID)).as_deref() == Some(Path::new(WITHIN)) {
        return Ok(());
    }
    Err(Error::unsupported(format!(
        "another file is mounted over {BOOT_ID}, as systemd-nspawn and LXC do: to processes outside this container our \
         leases would be of another boot, and over, as theirs would be to us, and both would hold the same lock. Use a \
         lock server, or, if all processes that use the file are in this container, say boot=trust"
    )))
}

fn unreadable(e: io::Error) -> Error {
    let why = "after a reboot a lease would seem to last on";
    Error::unsupported(format!("the boot id can't be read at {BOOT_ID}, and {why}: {e}")).with_source(e)
}

/// As in a sandbox without a part of procfs; before Linux 5.8 also in a process that leaves no dumps.
fn of_unknown_mount(e: io::Error) -> Error {
    Error::unsupported(format!(
        "whether {BOOT_ID} is the kernel's own can't be told, because its mount can't ({e}). Use a lock server, or, if all \
         processes that use the file read the same boot id there, say boot=trust"
    ))
    .with_source(e)
}

fn parse_boot(text: &str) -> Option<Boot> {
    let digits: String = text.trim().chars().filter(|c| *c != '-').collect();
    let id = (digits.len() == 32).then(|| u128::from_str_radix(&digits, 16).ok())??;
    Some(id.to_be_bytes())
}

/// A time namespace shows its processes a clock that is off, under the same boot id: without this correction, the
/// leases of all others would seem to be over there, or to last for years.
///
/// What the kernel shows is the offset of the children to come. It is the process's own as long as both are in one
/// namespace; after `unshare` they are not.
pub(super) fn ahead() -> Result<i64> {
    let own = match fs::read_link("/proc/self/ns/time") {
        Ok(own) => own,
        // A kernel without time namespaces.
        Err(e) if e.kind() == io::ErrorKind::NotFound && Path::new("/proc/self/ns").exists() => return Ok(0),
        Err(e) => return Err(no_namespace(e)),
    };
    if own == Path::new(FIRST_NAMESPACE) {
        return Ok(0);
    }
    // The offset first: a process may leave its children's namespace at any moment, and doesn't come back to it.
    let offsets = fs::read_to_string("/proc/self/timens_offsets").map_err(no_namespace)?;
    if fs::read_link("/proc/self/ns/time_for_children").map_err(no_namespace)? != own {
        return Err(Error::unsupported(
            "this process has made a time namespace for its children, and the offset of its own can't be read any more; \
             open the file before that, or in a child",
        ));
    }
    parse_ahead(&offsets).ok_or_else(|| {
        Error::unsupported(format!("the time namespace's offsets are not understood: {offsets:?}"))
    })
}

/// The one that the kernel starts with, which has no offset (`TIME_NS_INIT_INO` in `linux/nsfs.h`).
const FIRST_NAMESPACE: &str = "time:[4026531834]";

fn no_namespace(e: io::Error) -> Error {
    Error::unsupported(format!("the time namespace of this process can't be told: {e}")).with_source(e)
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
    fn a_mount_that_cannot_be_told_is_no_boot_id_that_cannot_be_read() {
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
