//! Another system in a folder. Its programs are run under chroot.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::user::{self, User};

/// A folder with a system.
///
/// Inside the system, the folder's own path leads to the system's root. So a path of one of its files means the same
/// file inside and outside, and paths need no translation for its programs.
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
        lead_to_itself(&root)?;
        Ok(System { root })
    }

    /// Returns a command that runs one of its programs. The process that `chroot` starts is still our child, with the
    /// same id.
    pub(super) fn command(&self, user: Option<&User>, program: &Path) -> Command {
        let mut command = Command::new("chroot");
        command.args(user.map(|user| format!("--userspec={user}")));
        command.arg(&self.root).arg(program);
        command
    }

    /// Returns the path inside of a program that was found below `folder`, which may be a link to the system.
    pub(super) fn own(&self, folder: &Path, program: &Path) -> PathBuf {
        program.strip_prefix(folder).map_or_else(|_| program.to_owned(), |below| self.root.join(below))
    }

    pub(super) fn temporary(&self) -> PathBuf {
        self.root.join("tmp")
    }
}

/// Makes the path of `root` lead to `root` inside the system, for every user. Outside, folders on that path may be
/// closed to other users, as a home is.
fn lead_to_itself(root: &Path) -> io::Result<()> {
    let inside = root.join(root.strip_prefix("/").unwrap_or(root));
    if !inside.exists() {
        inside.parent().map_or(Ok(()), fs::create_dir_all)?;
        link(Path::new("/"), &inside)?;
    }
    let way = inside.ancestors().skip(1).take_while(|folder| *folder != root);
    way.chain([root]).try_for_each(let_pass)
}

/// Lets every user pass through a folder.
#[cfg(unix)]
fn let_pass(folder: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let mut permissions = fs::metadata(folder)?.permissions();
    permissions.set_mode(permissions.mode() | 0o111);
    fs::set_permissions(folder, permissions)
}

#[cfg(not(unix))]
fn let_pass(_: &Path) -> io::Result<()> {
    Ok(())
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
