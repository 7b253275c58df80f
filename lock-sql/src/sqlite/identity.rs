//! Whether a path still leads to the files that were opened: the database, and the two that SQLite keeps beside it.
//!
//! A file that was deleted or replaced takes writes as before from those who have it open, and no other process sees
//! them. Rows that were committed of late stand in the log alone, so that it counts as much as the database.

use std::fs::{self, Metadata};
use std::path::{Path, PathBuf};

use lock_core::{Done, Error, Result};

use super::time::Boot;

/// The database, its log, and the log's index, which all its processes map.
#[derive(Clone, Debug)]
pub(crate) struct Parts {
    database: PathBuf,
    log: PathBuf,
    index: PathBuf,
}

/// Which files they were.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    database: Id,
    log: Id,
    index: Id,
}

/// A file that stood at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen(Id);

type Id = (u64, u64);

impl Parts {
    pub(crate) fn of(database: PathBuf) -> Parts {
        let beside = |suffix: &str| {
            let mut path = database.as_os_str().to_owned();
            path.push(suffix);
            PathBuf::from(path)
        };
        Parts { log: beside("-wal"), index: beside("-shm"), database }
    }

    pub(crate) fn database(&self) -> &Path {
        &self.database
    }

    pub(crate) fn log(&self) -> &Path {
        &self.log
    }

    pub(crate) fn index(&self) -> &Path {
        &self.index
    }

    /// Which database is there, if one is.
    pub(crate) fn seen(&self) -> Option<Seen> {
        fs::metadata(&self.database).ok().map(|file| Seen(id(&file)))
    }

    /// The files that are there now. `Rejected` if the database is a file with more names than this one.
    pub(crate) fn identity(&self) -> Result<Identity> {
        let database = stat(&self.database)?;
        must_have_one_name(&self.database, &database)?;
        Ok(Identity { database: id(&database), log: id(&stat(&self.log)?), index: id(&stat(&self.index)?) })
    }
}

impl Identity {
    /// Whether the database was there before. A descriptor that was opened in between is to no other file then.
    pub(crate) fn is_of(&self, before: Option<Seen>) -> bool {
        before == Some(Seen(self.database))
    }

    /// Which file the database is, of those on all machines; `None` where the system doesn't say. Two machines may have
    /// the same numbers, and no two have booted the same.
    pub(crate) fn of_all(&self, boot: Boot) -> Option<String> {
        let (device, inode) = cfg!(unix).then_some(self.database)?;
        Some(format!("{:032x} {device:x}:{inode:x}", u128::from_be_bytes(boot)))
    }
}

fn stat(path: &Path) -> Result<Metadata> {
    fs::metadata(path).map_err(|e| {
        let message = format!("{} can't be found any more: {e}", path.display());
        Error::unavailable(Done::No, message).with_source(e)
    })
}

#[cfg(unix)]
fn id(file: &Metadata) -> Id {
    use std::os::unix::fs::MetadataExt;
    (file.dev(), file.ino())
}

/// That there is one has to do: the system doesn't let an open file be replaced.
#[cfg(not(unix))]
fn id(_: &Metadata) -> Id {
    (0, 0)
}

/// SQLite keeps the log beside the name by which a file was opened: under two names, the processes of one would not see
/// what those of the other write.
#[cfg(unix)]
pub(crate) fn must_have_one_name(path: &Path, file: &Metadata) -> Result<()> {
    use std::os::unix::fs::MetadataExt;
    match file.nlink() {
        0 | 1 => Ok(()),
        names => Err(Error::rejected(format!(
            "{} is a file with {names} names (hard links): processes that use another name would not see our locks, nor \
             we theirs. Remove the other names; a symbolic link, or the folder mounted elsewhere, is fine",
            path.display()
        ))),
    }
}

#[cfg(not(unix))]
pub(crate) fn must_have_one_name(_: &Path, _: &Metadata) -> Result<()> {
    Ok(())
}
