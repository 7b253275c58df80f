//! The files that the connections of all processes lead to.
//!
//! A process that has a removed or replaced file open can't be seen by SQLite: a process that comes then makes new files,
//! in which every lock is free. So each connection has a shared lock of the operating system on a file beside the
//! database, which names the database, the log and the index that are in use. While there is such a lock, no connection is
//! opened to other files. The first connection writes the names, under an exclusive lock.
//!
//! SQLite's own locks on the database and the index can't serve for this. A process that opens one of these files to ask
//! for them, and closes it again, drops all locks that its own connections have on it.

use std::fs::{self, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};

use lock_core::toolkit::Process;
use lock_core::{Effect, Error, Result};

use super::beside;
use super::file::File;
use super::identity::Identity;

/// A connection's lock. It ends when it is dropped.
#[derive(Debug)]
pub(crate) struct InUse {
    path: PathBuf,
    file: fs::File,
    entered: Entered,
    process: Process,
}

#[derive(Debug)]
enum Entered {
    /// No connection is open, and none can be opened until [`InUse::agrees_on`].
    Alone,
    /// Connections are open to the files that are there.
    Beside,
}

impl InUse {
    /// Takes the lock of a connection that is to be opened to the files that are there now. The inner error says why this
    /// can't be done yet: connections are open to other files, or another one is being opened.
    pub(crate) fn enter(database: &File) -> Result<Result<InUse>> {
        // The name does not begin with the database's: a command that removes all files whose names do leaves it alone.
        let path = beside::path(database.path(), ".", "-in-use");
        let failed = |e| database.obstacle().unwrap_or_else(|| unusable(&path, e));
        let file = beside::open(&path).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {
                shares_the_rights(&file, database.path()).map_err(failed)?;
                return Ok(Ok(InUse { path, file, entered: Entered::Alone, process: Process::this() }));
            }
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(e)) => return Err(failed(e)),
        }
        if file.try_lock_shared().is_err() {
            return Ok(Err(being_opened(database)));
        }
        let changes = database.changes_since(&names(&file).map_err(failed)?);
        Ok(match changes {
            None => Ok(InUse { path, file, entered: Entered::Beside, process: Process::this() }),
            Some(changes) => Err(others_use_what_was_there(&changes)),
        })
    }

    /// Returns whether these files, to which the connection leads, are the ones that all connections use. From then on
    /// none is opened to other files.
    pub(crate) fn agrees_on(&self, files: &Identity) -> Result<bool> {
        let agrees = || -> io::Result<bool> {
            if let Entered::Alone = self.entered {
                write(&self.file, files)?;
                self.file.unlock()?;
                // Another connection may have come in between, and may lead to other files.
                if self.file.try_lock_shared().is_err() {
                    return Ok(false);
                }
            }
            Ok(names(&self.file)? == files.to_string())
        };
        agrees().map_err(|e| unusable(&self.path, e))
    }
}

impl Drop for InUse {
    /// A fork has the file open, too, and would keep the lock. It must not end it either.
    fn drop(&mut self) {
        if !self.process.is_another() {
            self.file.unlock().ok();
        }
    }
}

/// The length of the text in the file. It is always the same, so that a disk that has become full has room for another.
const LENGTH: usize = 120;

fn names(mut file: &fs::File) -> io::Result<String> {
    let mut names = Vec::new();
    file.rewind()?;
    file.take(LENGTH as u64).read_to_end(&mut names)?;
    Ok(String::from_utf8_lossy(&names).trim_end().to_owned())
}

fn write(mut file: &fs::File, files: &Identity) -> io::Result<()> {
    file.rewind()?;
    file.write_all(format!("{:LENGTH$}", files.to_string()).as_bytes())
}

/// Gives the file the owner and the rights of the database, as SQLite does with the log: a user that may use the one has to
/// be able to use the other. A user that may not do this has no need to.
#[cfg(unix)]
fn shares_the_rights(file: &fs::File, database: &Path) -> io::Result<()> {
    use std::os::unix::fs::{MetadataExt, fchown};
    if file.metadata()?.nlink() > 1 {
        return Err(io::Error::other("it has several names (hard links)"));
    }
    if let Ok(database) = fs::metadata(database) {
        fchown(file, Some(database.uid()), Some(database.gid())).ok();
        file.set_permissions(database.permissions()).ok();
    }
    Ok(())
}

#[cfg(not(unix))]
fn shares_the_rights(_: &fs::File, _: &Path) -> io::Result<()> {
    Ok(())
}

fn others_use_what_was_there(changes: &str) -> Error {
    let message = format!(
        "{changes}, and other processes have open what was there before: the locks that they hold are still held. They \
         notice it with their next request; end those that send none"
    );
    Error::unavailable(Effect::NotApplied, message)
}

fn being_opened(database: &File) -> Error {
    let message = format!("other processes were opening {} all the time", database.path().display());
    Error::unavailable(Effect::NotApplied, message)
}

fn unusable(path: &Path, e: io::Error) -> Error {
    let message = format!("{}, which tells which files are in use, can't be used: {e}", path.display());
    let error = match e.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::NotFound => {
            Error::unavailable(Effect::NotApplied, message)
        }
        _ => Error::rejected(message),
    };
    error.with_source(e)
}
