//! A system that was not taught to tell.

use std::io;
use std::path::Path;

use super::FileSystem;

/// The file system of what is at `path`.
pub(crate) fn find(_: &Path) -> io::Result<FileSystem> {
    Ok(FileSystem::NotKnown)
}

/// Single files are mounted on Linux.
pub(crate) fn is_mounted_by_itself(_: &Path, _: &Path) -> io::Result<bool> {
    Ok(false)
}

/// That can't be told.
pub(crate) fn has_mapped_removed(_: &Path) -> bool {
    false
}
