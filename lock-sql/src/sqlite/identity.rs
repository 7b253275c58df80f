//! Checks whether a path still leads to the files that were opened: the database, and the two files that SQLite keeps
//! beside it.
//!
//! A process that has a deleted or replaced file open can still write to it, but no other process sees these writes.
//! Rows that were committed recently are in the log alone, so the log counts as much as the database.

use std::fmt;
use std::path::{Path, PathBuf};

use lock_core::{Effect, Error, Result};

use super::filesystem::{self, Status};
use super::time::Boot;

/// The paths of the database, of its log, and of the log's index, which all its processes map.
#[derive(Clone, Debug)]
pub(crate) struct Parts {
    database: PathBuf,
    log: PathBuf,
    index: PathBuf,
}

/// The identities of the files that were at these paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    database: Id,
    log: Id,
    index: Id,
}

/// The identity of a database file that was at its path.
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

    /// Returns which database is there now, if there is one.
    pub(crate) fn seen(&self) -> Option<Seen> {
        filesystem::status(&self.database).ok().map(|file| Seen(file.id))
    }

    /// Says which of the files that are there now are not those that `used` names, as an [`Identity`] is displayed. `None`
    /// if all are the same.
    pub(crate) fn changes_since(&self, used: &str) -> Option<String> {
        let mut used = used.split(' ');
        let change = |path: &PathBuf| {
            let before = used.next().unwrap_or_default();
            match filesystem::status(path) {
                Ok(file) if name(file.id) == before => None,
                Ok(_) => Some(format!("{} was replaced", path.display())),
                Err(_) => Some(format!("{} was removed", path.display())),
            }
        };
        let changes: Vec<String> =
            [&self.database, &self.log, &self.index].into_iter().filter_map(change).collect();
        (!changes.is_empty()).then(|| changes.join(", "))
    }

    /// Returns which files are there now. `Rejected` if the database is a file with more names than this one.
    pub(crate) fn identity(&self) -> Result<Identity> {
        let database = stat(&self.database)?;
        has_one_name(&self.database, database)?;
        Ok(Identity { database: database.id, log: stat(&self.log)?.id, index: stat(&self.index)?.id })
    }
}

impl Identity {
    /// Returns whether this is the database that was there before. If it is, a descriptor that was opened in
    /// between leads to no other file.
    pub(crate) fn is_of(&self, before: Option<Seen>) -> bool {
        before == Some(Seen(self.database))
    }

    /// Returns an identity of the database among the files of all machines; `None` where the system has none. It
    /// contains the boot id, because two machines may have the same device and file numbers.
    pub(crate) fn of_all(&self, boot: Boot) -> Option<String> {
        let (device, inode) = cfg!(unix).then_some(self.database)?;
        Some(format!("{:032x} {device:x}:{inode:x}", u128::from_be_bytes(boot)))
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [database, log, index] = [self.database, self.log, self.index].map(name);
        write!(f, "{database} {log} {index}")
    }
}

fn name((device, inode): Id) -> String {
    format!("{device:x}:{inode:x}")
}

fn stat(path: &Path) -> Result<Status> {
    filesystem::status(path).map_err(|e| {
        let message = format!("{} can't be found any more: {e}", path.display());
        Error::unavailable(Effect::NotApplied, message).with_source(e)
    })
}

/// Refuses a file with several names (hard links). SQLite keeps the log beside the name by which a file was opened, so
/// processes that use one name would not see what processes with another name write.
pub(crate) fn must_have_one_name(path: &Path) -> Result<()> {
    has_one_name(path, stat(path)?)
}

fn has_one_name(path: &Path, file: Status) -> Result<()> {
    match file.names {
        0 | 1 => Ok(()),
        names => Err(Error::rejected(format!(
            "{} is a file with {names} names (hard links): processes that use another name would not see our locks, nor \
             we theirs. Remove the other names; a symbolic link, or a mount of the whole folder, can be used instead",
            path.display()
        ))),
    }
}
