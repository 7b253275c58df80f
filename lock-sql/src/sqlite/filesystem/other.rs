//! Systems other than Linux, for which nothing is found out.

use std::io;
use std::path::Path;

use super::{FileSystem, Status};

/// Returns that the file system is not known.
pub(crate) fn find(_: &Path) -> io::Result<FileSystem> {
    Ok(FileSystem::NotKnown)
}

/// Returns `false`: only Linux mounts single files.
pub(crate) fn is_mounted_by_itself(_: &Path, _: &Path) -> io::Result<bool> {
    Ok(false)
}

/// Returns `false`: this is not known here.
pub(crate) fn has_mapped_removed(_: &Path) -> bool {
    false
}

/// Returns what tells the file at `path` from another one.
pub(crate) fn status(path: &Path) -> io::Result<Status> {
    super::status_with_times(path)
}
