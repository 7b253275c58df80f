//! The path of the database, and whether SQLite may open it.
//!
//! Nothing here opens the file for reading or writing. If such a descriptor were closed, the locks that SQLite holds in
//! this process would be dropped.

use std::io;
use std::path::{Path, PathBuf};

use lock_core::{Effect, Error, Result};

use super::filesystem::{self, FileSystem};
use super::identity::{self, Identity, Parts, Seen};

/// A database file, with its real path.
#[derive(Clone, Debug)]
pub(crate) struct File {
    parts: Parts,
    folder: PathBuf,
}

impl File {
    /// Finds the file at `path`, which need not exist; its folder must exist. If `path` is a symbolic link, the file
    /// that it leads to counts, because SQLite's own files are beside that one.
    pub(crate) fn at(path: &Path) -> Result<File> {
        if path.is_dir() {
            return Err(Error::rejected(format!("{} is a folder; name a file in it", path.display())));
        }
        let path = match path.canonicalize() {
            Ok(path) => path,
            Err(_) => {
                must_be_no_link(path)?;
                let (folder, name) = split(path)?;
                let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
                folder.canonicalize().map_err(|e| no_folder(folder, e))?.join(name)
            }
        };
        let folder = split(&path)?.0.to_owned();
        Ok(File { parts: Parts::of(path), folder })
    }

    pub(crate) fn path(&self) -> &Path {
        self.parts.database()
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the path of its write-ahead log.
    pub(crate) fn log(&self) -> &Path {
        self.parts.log()
    }

    /// Returns the path of the log's index.
    pub(crate) fn index(&self) -> &Path {
        self.parts.index()
    }

    /// Returns the file system of the file if that is not a local one (the file may be a mount of its own), or else the
    /// file system of its folder.
    pub(crate) fn file_system(&self) -> Result<FileSystem> {
        let find = |path: &Path| {
            filesystem::find(path).map_err(|e| {
                let message = format!("the file system of {} can't be told: {e}", path.display());
                Error::rejected(message).with_source(e)
            })
        };
        if self.path().exists()
            && let foreign @ FileSystem::Foreign(_) = find(self.path())?
        {
            return Ok(foreign);
        }
        find(&self.folder)
    }

    /// Checks that the file is on a disk of this machine. `Unsupported` on a file system that other machines may reach.
    pub(crate) fn must_be_local(&self) -> Result<()> {
        let FileSystem::Foreign(kind) = self.file_system()? else { return Ok(()) };
        Err(Error::unsupported(format!(
            "{} is on {kind}, which is not known to be a disk of this machine alone: other machines would not see our \
             locks, nor we theirs. Use a file on a local disk or another backend, or, if only this machine uses the \
             file and its file system supports locks and shared memory, add fs=trust to the URL",
            self.folder.display()
        )))
    }

    /// Checks that every process reaches the file by the same path. `Rejected` if it is not a regular file, or if other
    /// processes may reach it by another path, because they would keep another log.
    pub(crate) fn must_have_one_path(&self) -> Result<()> {
        // If it does not exist, it is created later.
        let Ok(found) = std::fs::metadata(self.path()) else { return Ok(()) };
        if !found.is_file() {
            return Err(Error::rejected(format!(
                "{} is not a regular file; name another",
                self.path().display()
            )));
        }
        identity::must_have_one_name(self.path())?;
        let alone = filesystem::is_mounted_by_itself(self.path(), &self.folder).map_err(|e| {
            let message = format!("the mount of {} can't be told: {e}", self.path().display());
            Error::rejected(message).with_source(e)
        })?;
        match alone {
            false => Ok(()),
            true => Err(Error::rejected(format!(
                "{} is mounted by itself: SQLite keeps its log beside it, where processes outside don't see the log, \
                 and two clients would hold the same lock; mount the folder that the file is in",
                self.path().display()
            ))),
        }
    }

    /// Returns which database is there now, if there is one.
    pub(crate) fn seen(&self) -> Option<Seen> {
        self.parts.seen()
    }

    /// Says which of the files that are there now are not those that `used` names. `None` if all are the same.
    pub(crate) fn changes_since(&self, used: &str) -> Option<String> {
        self.parts.changes_since(used)
    }

    /// Returns which files are there now.
    pub(crate) fn identity(&self) -> Result<Identity> {
        self.parts.identity()
    }

    /// Returns whether these files are there now.
    pub(crate) fn has(&self, files: &Identity) -> bool {
        self.identity().is_ok_and(|there| there == *files)
    }

    /// Checks that SQLite will open the index that is there now. `Unavailable` while other connections of this process
    /// keep an index that was removed, because SQLite would share that one with our connection.
    pub(crate) fn must_share_the_index(&self) -> Result<()> {
        let index = self.index();
        if !filesystem::has_mapped_removed(index) {
            return Ok(());
        }
        Err(Error::unavailable(
            Effect::NotApplied,
            format!(
                "{} was removed, and another connection of this process has it open; close that connection",
                index.display()
            ),
        ))
    }

    /// Returns why the file can't be opened, as far as that can be found out without SQLite.
    pub(crate) fn obstacle(&self) -> Option<Error> {
        if let Err(e) = std::fs::metadata(&self.folder) {
            return Some(no_folder(&self.folder, e));
        }
        let forbidden =
            if self.path().exists() { is_forbidden(self.path()) } else { is_forbidden(&self.folder) };
        forbidden.then(|| {
            Error::rejected(format!(
                "this user may not write to {}; SQLite needs to write to the file and to its folder",
                self.path().display()
            ))
        })
    }
}

fn split(path: &Path) -> Result<(&Path, &std::ffi::OsStr)> {
    match (path.parent(), path.file_name()) {
        (Some(folder), Some(name)) => Ok((folder, name)),
        _ => Err(Error::invalid(format!("{} does not name a file", path.display()))),
    }
}

/// Refuses a symbolic link to a file that is not there. SQLite would create that file, but more often it is on a disk
/// that is not mounted yet.
fn must_be_no_link(path: &Path) -> Result<()> {
    let Ok(target) = path.read_link() else { return Ok(()) };
    Err(Error::rejected(format!(
        "{} is a link that leads to {}, which is not there; create that, or name the file itself",
        path.display(),
        target.display()
    )))
}

/// Returns the error for a folder that can't be used. A folder is not created: a missing one is more often misspelt, or
/// not mounted yet.
fn no_folder(folder: &Path, e: io::Error) -> Error {
    let message = match e.kind() {
        io::ErrorKind::NotFound => format!("the folder {} is not there; create it first", folder.display()),
        _ => format!("the folder {} can't be used: {e}", folder.display()),
    };
    Error::rejected(message).with_source(e)
}

/// Converts an error that an open client meets: a file that was there once may come back.
pub(crate) fn for_now(e: Error) -> Error {
    Error::unavailable(Effect::NotApplied, e.message()).with_source(e)
}

#[cfg(target_os = "linux")]
fn is_forbidden(path: &Path) -> bool {
    rustix::fs::access(path, rustix::fs::Access::WRITE_OK).is_err()
}

#[cfg(not(target_os = "linux"))]
fn is_forbidden(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|file| file.permissions().readonly())
}
