//! Another system in a folder, whose programs are run under chroot.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::user::{self, User};

/// A folder with a system.
///
/// Inside, its own path leads to its root: a path of one of its files is the same file inside and outside, so that
/// whatever is told to its programs needs no translation.
#[derive(Clone, Debug)]
pub(super) struct System {
    root: PathBuf,
}

impl System {
    pub(super) fn new(folder: &Path) -> io::Result<System> {
        if !user::is_root() {
            let why = format!("{} is run under chroot, which takes root", folder.display());
            return Err(io::Error::new(io::ErrorKind::Unsupported, why));
        }
        let root = folder.canonicalize()?;
        let inside = root.join(root.strip_prefix("/").unwrap_or(&root));
        if !inside.exists() {
            inside.parent().map_or(Ok(()), fs::create_dir_all)?;
            link(Path::new("/"), &inside)?;
        }
        Ok(System { root })
    }

    /// A command that runs one of its programs. What a `chroot` starts is still our child, by the same id.
    pub(super) fn command(&self, user: Option<&User>, program: &Path) -> Command {
        let mut command = Command::new("chroot");
        command.args(user.map(|user| format!("--userspec={user}")));
        command.arg(&self.root).arg(program);
        command
    }

    pub(super) fn temporary(&self) -> PathBuf {
        self.root.join("tmp")
    }
}

#[cfg(unix)]
fn link(to: &Path, from: &Path) -> io::Result<()> {
    match std::os::unix::fs::symlink(to, from) {
        // Another test program was faster.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        linked => linked,
    }
}

#[cfg(not(unix))]
fn link(_: &Path, _: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
