//! The user for servers that refuse to run as root.

use std::fmt;
use std::io;
use std::path::Path;
use std::process::Command;

/// Another user than that of this process.
#[derive(Clone, Debug)]
pub(super) struct User {
    user: u32,
    group: u32,
}

#[cfg(unix)]
impl User {
    /// Returns the system's user `nobody`, if this process runs as root.
    pub(super) fn unprivileged() -> io::Result<Option<User>> {
        if !is_root() {
            return Ok(None);
        }
        Ok(Some(User { user: id("-u")?, group: id("-g")? }))
    }

    /// Makes a command run as this user. The process is still our child.
    pub(super) fn runs(&self, command: &mut Command) {
        use std::os::unix::process::CommandExt;
        command.uid(self.user).gid(self.group);
    }

    /// Makes this user the owner of a file or a folder.
    pub(super) fn owns(&self, path: &Path) -> io::Result<()> {
        std::os::unix::fs::chown(path, Some(self.user), Some(self.group))
    }
}

impl fmt::Display for User {
    /// In the form that `chroot` takes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.user, self.group)
    }
}

/// Returns whether this process runs as root.
#[cfg(unix)]
pub(super) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[cfg(not(unix))]
pub(super) fn is_root() -> bool {
    false
}

/// Returns what `id` says of the user `nobody`.
#[cfg(unix)]
fn id(what: &str) -> io::Result<u32> {
    let output = Command::new("id").args([what, "nobody"]).output()?;
    let number = String::from_utf8_lossy(&output.stdout).trim().parse();
    number.map_err(|_| {
        io::Error::new(io::ErrorKind::Unsupported, "the tests run as root, and there is no user nobody")
    })
}

#[cfg(not(unix))]
impl User {
    pub(super) fn unprivileged() -> io::Result<Option<User>> {
        Ok(None)
    }

    pub(super) fn runs(&self, _: &mut Command) {}

    pub(super) fn owns(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }
}
