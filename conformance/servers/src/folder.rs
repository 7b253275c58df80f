//! A temporary folder that is removed when its owner ends, however it ends.

use std::fs;
use std::io;
use std::path::Path;

use tempfile::TempDir;

use super::process::CleanupOnExit;

/// A temporary folder.
#[derive(Debug)]
pub(super) struct Folder {
    dir: TempDir,
    _cleanup: CleanupOnExit,
}

impl Folder {
    /// Makes a new one.
    pub(super) fn new() -> io::Result<Folder> {
        Folder::new_in(&std::env::temp_dir())
    }

    /// Makes a new one in `parent`. Its path is short, because Unix sockets have room for about a hundred bytes.
    pub(super) fn new_in(parent: &Path) -> io::Result<Folder> {
        let dir = tempfile::Builder::new().prefix("lock-").tempdir_in(parent)?;
        let cleanup = CleanupOnExit::remove(dir.path())?;
        Ok(Folder { dir, _cleanup: cleanup })
    }

    /// Removes everything in it.
    pub(super) fn clear(&self) -> io::Result<()> {
        for entry in fs::read_dir(self.path())? {
            let entry = entry?;
            match entry.file_type()?.is_dir() {
                true => fs::remove_dir_all(entry.path())?,
                false => fs::remove_file(entry.path())?,
            }
        }
        Ok(())
    }

    pub(super) fn path(&self) -> &Path {
        self.dir.path()
    }
}
