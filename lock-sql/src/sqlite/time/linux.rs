//! Linux: the clock that starts with the kernel, goes on in suspend, and that nobody can set.

use lock_core::{Error, Result};
use rustix::time::{ClockId, clock_gettime};

use super::Boot;

pub(super) const PROMISE: &str =
    "the kernel's since boot, which goes on in suspend and which nobody can set; a reboot ends every lease";

/// The kernel makes up a new one at each boot, and shows the same to every container.
pub(super) fn boot() -> Result<Boot> {
    let path = "/proc/sys/kernel/random/boot_id";
    let text = std::fs::read_to_string(path).map_err(|e| {
        let why = "after a reboot a lease would seem to last on";
        Error::unsupported(format!("the boot id can't be read at {path}, and {why}: {e}")).with_source(e)
    })?;
    parse_boot(&text).ok_or_else(|| Error::unsupported(format!("{path} holds no boot id: {text:?}")))
}

fn parse_boot(text: &str) -> Option<Boot> {
    let digits: String = text.trim().chars().filter(|c| *c != '-').collect();
    let id = (digits.len() == 32).then(|| u128::from_str_radix(&digits, 16).ok())??;
    Some(id.to_be_bytes())
}

/// A time namespace shows its processes a clock that is off, under the same boot id: without this correction, the
/// leases of all others would seem to be over there, or to last for years.
pub(super) fn ahead() -> Result<i64> {
    match std::fs::read_to_string("/proc/self/timens_offsets") {
        Ok(text) => parse_ahead(&text).ok_or_else(|| {
            Error::unsupported(format!("the time namespace's offsets are not understood: {text:?}"))
        }),
        // A kernel without time namespaces (before 5.6).
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(0),
        Err(e) => {
            Err(Error::unsupported(format!("the time namespace's offset can't be read: {e}")).with_source(e))
        }
    }
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
    fn a_time_namespaces_offset_is_read() {
        let of = |boottime: &str| parse_ahead(&format!("monotonic  7 0\nboottime  {boottime}\n"));
        assert_eq!(of("100000         5"), Some(100_000_000_000_005));
        assert_eq!(of("-3 500000000"), Some(-2_500_000_000));
        assert_eq!((of("x 1"), of("1"), parse_ahead("monotonic 0 0")), (None, None, None));
    }
}
