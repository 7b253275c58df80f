//! Checks whether a folder is on a disk of this machine.
//!
//! A lease with another boot id counts as over. Where several machines reach the same file, they have different boot
//! ids, and would take the lock from a live holder. SQLite's own locks and its shared memory are not reliable there
//! either.

use std::fs;
use std::io;
use std::path::Path;

#[cfg(target_os = "linux")]
mod linux;
#[cfg(not(target_os = "linux"))]
mod other;

#[cfg(target_os = "linux")]
pub(crate) use linux::{find, has_mapped_removed, is_mounted_by_itself, status};
#[cfg(not(target_os = "linux"))]
pub(crate) use other::{find, has_mapped_removed, is_mounted_by_itself, status};

/// The identity of a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Status {
    /// The numbers of its device and of the file there. Zeros where the system has none: it is enough that the file
    /// exists there, because such a system doesn't let an open file be replaced.
    pub(crate) id: (u64, u64),
    /// The number of names (hard links) that it has.
    pub(crate) names: u64,
}

/// The known properties of a file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FileSystem {
    /// A disk of this machine alone.
    #[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "other systems can't tell"))]
    Local(&'static str),
    /// A file system of the network, of a virtual machine's host, of a user's program, or of an unknown type.
    #[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "other systems can't tell"))]
    Foreign(String),
    /// The system was not asked, because it is not Linux.
    #[cfg_attr(target_os = "linux", expect(dead_code, reason = "Linux tells"))]
    NotKnown,
}

#[cfg(unix)]
fn status_with_times(path: &Path) -> io::Result<Status> {
    use std::os::unix::fs::MetadataExt;
    let found = fs::metadata(path)?;
    Ok(Status { id: (found.dev(), found.ino()), names: found.nlink() })
}

#[cfg(not(unix))]
fn status_with_times(path: &Path) -> io::Result<Status> {
    fs::metadata(path).map(|_| Status { id: (0, 0), names: 1 })
}
