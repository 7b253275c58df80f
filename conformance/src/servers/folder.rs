//! A temporary folder that is gone when its owner is, however that ends.

use std::fs;
use std::io;
use std::path::Path;

use tempfile::TempDir;

use super::process::LastWill;

/// A temporary folder.
#[derive(Debug)]
pub(super) struct Folder {
    dir: TempDir,
    _last_will: LastWill,
}

impl Folder {
    /// A fresh one.
    pub(super) fn new() -> io::Result<Folder> {
        Folder::new_in(&std::env::temp_dir())
    }

    /// A fresh one there. Its path is short: Unix sockets have room for about a hundred bytes.
    pub(super) fn new_in(parent: &Path) -> io::Result<Folder> {
        let dir = tempfile::Builder::new().prefix("lock-").tempdir_in(parent)?;
        let last_will = LastWill::remove(dir.path())?;
        Ok(Folder { dir, _last_will: last_will })
    }

    /// Removes all that is in it.
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
