//! Whether a folder lies on a disk of this machine.
//!
//! Another boot id means that a lease is over. Where other machines reach the same file they have other boot ids, and
//! would take the lock from a living holder; SQLite's own locks and its shared memory are not sound there either.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(not(target_os = "linux"))]
mod other;

#[cfg(target_os = "linux")]
pub(crate) use linux::{find, has_mapped_removed, is_mounted_by_itself};
#[cfg(not(target_os = "linux"))]
pub(crate) use other::{find, has_mapped_removed, is_mounted_by_itself};

/// What is known of a file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FileSystem {
    /// Of this machine alone.
    #[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "it can't be told there"))]
    Local(&'static str),
    /// Of the network, of a host, of somebody's program, or not known to be anything else.
    #[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "it can't be told there"))]
    Foreign(String),
    /// This system was not asked.
    #[cfg_attr(target_os = "linux", expect(dead_code, reason = "Linux tells"))]
    NotKnown,
}
