//! How much CPU time the processes of a server have used.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::Duration;

/// How often a second the system counts CPU time: the unit of `/proc`, which is the same on every Linux.
const TICKS: u64 = 100;

/// Returns the CPU time that these processes, their descendants, and the children that have ended have used, on all
/// cores; none on a system where this program can't read it.
pub(crate) fn used_by(processes: &[u32]) -> Option<Duration> {
    let all = all()?;
    let mut counted: BTreeSet<u32> = processes.iter().copied().collect();
    // A descendant may be listed before its parent.
    loop {
        let children = all.iter().filter(|(_, stat)| counted.contains(&stat.parent)).map(|(id, _)| *id);
        let before = counted.len();
        counted.extend(children.collect::<Vec<_>>());
        if counted.len() == before {
            break;
        }
    }
    let found: Vec<u64> = counted.iter().filter_map(|id| all.get(id)).map(|stat| stat.ticks).collect();
    // A server that has just been started may have used less than a tick.
    (!found.is_empty()).then(|| Duration::from_millis(found.iter().sum::<u64>() * (1000 / TICKS)))
}

/// One process, as `/proc/PID/stat` shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stat {
    parent: u32,
    /// Its own CPU time, and that of its children that have ended.
    ticks: u64,
}

fn all() -> Option<BTreeMap<u32, Stat>> {
    let entries = fs::read_dir("/proc").ok()?;
    let ids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let stats =
        ids.filter_map(|id: u32| Some((id, parse(&fs::read_to_string(format!("/proc/{id}/stat")).ok()?)?)));
    Some(stats.collect())
}

/// Reads `PID (NAME) STATE PARENT …`. The name may have spaces and brackets in it.
fn parse(stat: &str) -> Option<Stat> {
    let (_, fields) = stat.rsplit_once(") ")?;
    let fields: Vec<&str> = fields.split(' ').collect();
    // The 14th to the 17th of proc(5): utime, stime, cutime, cstime. Two fields are left out here.
    let times = fields.get(11..15)?.iter().map(|time| time.parse::<u64>().ok());
    Some(Stat { parent: fields.get(1)?.parse().ok()?, ticks: times.sum::<Option<u64>>()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stat_is_read_behind_the_name() {
        let stat = "42 (a (b) c) S 7 42 42 0 -1 4194560 100 0 0 0 250 50 3 2 20 0 1 0 100 1 1 1";
        assert_eq!(parse(stat), Some(Stat { parent: 7, ticks: 305 }));
        assert_eq!((parse("42 (a) S 7"), parse("")), (None, None));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_process_that_works_uses_cpu_time() {
        let began = std::time::Instant::now();
        while began.elapsed() < Duration::from_millis(50) {}
        let own = std::process::id();
        let used = used_by(&[own]);
        assert!(used.is_some_and(|used| !used.is_zero()), "{used:?}");
    }
}
