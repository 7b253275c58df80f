//! A server's program as it is installed here, and the user that runs it.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::catalogue::Found;
use super::source::Source;
use super::system::System;
use super::user::User;

/// The user that runs a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Account {
    /// The user that runs the tests.
    Ours,
    /// The same user, unless that is root: then the system's user `nobody`. For servers that refuse to run as root.
    Unprivileged,
}

/// A server's program, and the user that runs it.
#[derive(Clone, Debug)]
pub struct Executable {
    path: PathBuf,
    system: Option<System>,
    user: Option<User>,
}

impl Executable {
    pub(super) fn new(found: Found, account: Account) -> io::Result<Executable> {
        let user = match account {
            Account::Ours => None,
            Account::Unprivileged => User::unprivileged()?,
        };
        let Found { program, system: folder } = found;
        let system = folder.as_deref().map(System::new).transpose()?;
        let path = match (&system, &folder) {
            (Some(system), Some(folder)) => system.own(folder, &program),
            _ => program,
        };
        Ok(Executable { path, system, user })
    }

    /// Returns the program's file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns a command that runs it.
    pub fn command(&self) -> Command {
        if let Some(system) = &self.system {
            return system.command(self.user.as_ref(), &self.path);
        }
        let mut command = Command::new(&self.path);
        if let Some(user) = &self.user {
            user.runs(&mut command);
        }
        command
    }

    /// Returns where it comes from.
    pub(super) fn source(&self) -> Source {
        match self.system {
            None => Source::Program(self.path.clone()),
            Some(_) => Source::Chroot(self.path.clone()),
        }
    }

    /// Returns the folder in which it finds temporary folders.
    pub(super) fn temporary(&self) -> PathBuf {
        self.system.as_ref().map_or_else(std::env::temp_dir, System::temporary)
    }

    /// Returns another program of the same installation: `initdb` beside `postgres`, even if that is a link; or what is
    /// in `bin` for a server in `sbin`.
    ///
    /// # Errors
    ///
    /// If there is no such program.
    pub fn sibling(&self, name: &str) -> io::Result<Executable> {
        let path = self.path.canonicalize()?;
        let bin = path.parent().and_then(Path::parent).map(|prefix| prefix.join("bin").join(name));
        let mut places = [Some(path.with_file_name(name)), bin].into_iter().flatten();
        match places.find(|path| path.is_file()) {
            Some(path) => Ok(Executable { path, ..self.clone() }),
            None => {
                let why = format!("there is no {name} beside {}", self.path.display());
                Err(io::Error::new(io::ErrorKind::NotFound, why))
            }
        }
    }

    /// Gives a file or a folder of ours to the user that runs it.
    pub(super) fn give(&self, path: &Path) -> io::Result<()> {
        self.user.as_ref().map_or(Ok(()), |user| user.owns(path))
    }
}
