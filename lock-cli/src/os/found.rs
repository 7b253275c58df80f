//! Processes of the command that are found running when it should have ended.

use std::fmt;

/// A process, as messages show it.
#[cfg_attr(not(unix), allow(dead_code, reason = "no process but the command's own is known there"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// The number of the process; 0 if the system doesn't show it.
    pub(crate) pid: u32,
    /// The name of its program, which the system cuts at 15 bytes, and zeros.
    pub(crate) name: [u8; 16],
}

impl Found {
    /// A process that exists, but that the system doesn't show.
    #[cfg(unix)]
    pub(crate) const HIDDEN: Found = Found { pid: 0, name: [0; 16] };

    #[cfg(unix)]
    pub(crate) fn new(pid: u32, name: &[u8]) -> Found {
        let mut kept = [0; 16];
        let length = name.len().min(kept.len());
        kept[..length].copy_from_slice(&name[..length]);
        Found { pid, name: kept }
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.name.split(|byte| *byte == 0).next().unwrap_or_default();
        match self.pid {
            0 => f.write_str("a process that the system does not show"),
            pid if name.is_empty() => write!(f, "process {pid}"),
            pid => write!(f, "process {pid} ({})", String::from_utf8_lossy(name).escape_debug()),
        }
    }
}

/// A process that goes on although it was to be ended.
#[cfg_attr(not(unix), allow(dead_code, reason = "no process but the command's own is known there"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Survivor {
    pub(crate) found: Found,
    pub(crate) why: Why,
}

/// Why a process goes on.
#[cfg_attr(not(unix), allow(dead_code, reason = "no process but the command's own is known there"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// The system did not let it be signalled: it belongs to another user.
    NotAllowed,
    /// The process was killed, and has not ended: it waits for a disk or a network file system, or is frozen.
    NotEndedYet,
}

impl Why {
    /// Returns a word for programs.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Why::NotAllowed => "not_allowed",
            Why::NotEndedYet => "not_ended_yet",
        }
    }
}

impl fmt::Display for Survivor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = self.found;
        match self.why {
            Why::NotAllowed => write!(f, "{found} of the command goes on: lock may not signal it"),
            Why::NotEndedYet => write!(f, "{found} of the command was killed and has not ended yet"),
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_process_name_has_no_terminal_controls() {
        assert_eq!(Found::new(7, b"sleep").to_string(), "process 7 (sleep)");
        assert_eq!(Found::new(7, b"a\x1b[2J").to_string(), "process 7 (a\\u{1b}[2J)");
        assert_eq!(Found::new(7, b"").to_string(), "process 7");
        assert_eq!(Found::HIDDEN.to_string(), "a process that the system does not show");
        let survivor = Survivor { found: Found::new(7, b"sh"), why: Why::NotAllowed };
        assert_eq!(survivor.to_string(), "process 7 (sh) of the command goes on: lock may not signal it");
    }
}
