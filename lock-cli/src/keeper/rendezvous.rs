//! Where a keeper is found: a socket in a folder of this user's own.
//!
//! Its name says which lock it is, by a hash of the server's URL and the lock's name, and for which parent it holds. So
//! `lock release` never asks the keeper of another job, even if this job has lost the lock and that one has it now.

use std::ffi::OsStr;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::net::UnixStream as Socket;
use std::path::{Path, PathBuf};
use std::{env, fs};

use onelock::{Name, Owner};
use tokio::net::UnixListener;

use crate::args::Parent;
use crate::exit::{Exit, Failure};

/// The keepers of one lock.
#[derive(Debug)]
pub(super) struct Rendezvous {
    folder: PathBuf,
    /// The beginning of their names.
    lock: String,
}

impl Rendezvous {
    /// Creates the folder if necessary.
    pub(super) fn of(url: &str, name: &Name) -> Result<Rendezvous, Failure> {
        let folder = own_folder()?;
        let hash = fnv_1a(url.as_bytes().iter().chain(&[0]).chain(name.as_str().as_bytes()));
        Ok(Rendezvous { folder, lock: format!("{hash:016x}.") })
    }

    /// Listens for the calls of `lock release`.
    pub(super) fn listen(&self, parent: Parent, owner: Owner) -> io::Result<Listening> {
        let path = self.folder.join(format!("{}{}", self.prefix(parent), owner));
        let listener = UnixListener::bind(&path)?;
        Ok(Listening { listener, path })
    }

    /// Returns the sockets of keepers for this parent. Their keepers may have been killed.
    pub(super) fn of_parent(&self, parent: Parent) -> io::Result<Vec<PathBuf>> {
        let prefix = self.prefix(parent);
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let path = entry?.path();
            if file_name(&path).starts_with(&prefix) {
                found.push(path);
            }
        }
        Ok(found)
    }

    /// Whether this is a socket of a keeper of this lock, whether there is one or not.
    pub(super) fn is_of_this_lock(&self, path: &Path) -> bool {
        file_name(path).starts_with(&self.lock)
    }

    fn prefix(&self, parent: Parent) -> String {
        let parent = match parent {
            Parent::Process(pid) => pid,
            Parent::None => 0,
        };
        format!("{}{parent}.", self.lock)
    }
}

/// A keeper's socket. Its file is removed when this is dropped.
#[derive(Debug)]
pub(super) struct Listening {
    pub(super) listener: UnixListener,
    pub(super) path: PathBuf,
}

impl Drop for Listening {
    fn drop(&mut self) {
        // Fails if someone has cleared the folder.
        let _: io::Result<()> = fs::remove_file(&self.path);
    }
}

/// Connects to a keeper. Returns `None` if it has ended; then also removes what it has left.
pub(super) fn connect(path: &Path) -> io::Result<Option<Socket>> {
    match Socket::connect(path) {
        Ok(socket) => Ok(Some(socket)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => {
            let _: io::Result<()> = fs::remove_file(path);
            Ok(None)
        }
        Err(e) => Err(e),
    }
}

fn file_name(path: &Path) -> String {
    path.file_name().map(OsStr::to_string_lossy).unwrap_or_default().into_owned()
}

/// Returns the folder for this user's sockets (XDG Base Directory Specification), or one in the folder for temporary
/// files. Other users must not be able to write there.
fn own_folder() -> Result<PathBuf, Failure> {
    let uid = rustix::process::geteuid().as_raw();
    let runtime = env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let folder = match runtime.filter(|path| path.is_absolute() && path.is_dir()) {
        Some(runtime) => runtime.join("onelock"),
        None => env::temp_dir().join(format!("onelock-{uid}")),
    };
    let refused = |why: String| {
        let what = format!("the folder {} for the keepers' sockets can't be used: {why}", folder.display());
        Failure::new(Exit::System, what)
    };
    match fs::DirBuilder::new().mode(0o700).create(&folder) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(refused(e.to_string())),
        _ => {}
    }
    // Not followed: a symbolic link may be another user's.
    let found = fs::symlink_metadata(&folder).map_err(|e| refused(e.to_string()))?;
    match found.is_dir() && found.uid() == uid && found.mode() & 0o077 == 0 {
        true => Ok(folder),
        false => Err(refused("it must be a folder of this user, with the mode 0700".to_owned())),
    }
}

/// The hash FNV-1a, which is the same in every version of this program.
fn fnv_1a<'a>(bytes: impl Iterator<Item = &'a u8>) -> u64 {
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_is_of_one_lock_on_one_server_for_one_parent() {
        let of = |url: &str, name: &str| {
            let hash = fnv_1a(url.as_bytes().iter().chain(&[0]).chain(name.as_bytes()));
            Rendezvous { folder: PathBuf::new(), lock: format!("{hash:016x}.") }
        };
        let ours = of("redis://h", "a");
        let socket = PathBuf::from(format!("/run/{}x", ours.prefix(Parent::Process(17))));
        assert!(ours.is_of_this_lock(&socket));
        for other in [of("redis://g", "a"), of("redis://h", "b"), of("redis://ha", "")] {
            assert!(!other.is_of_this_lock(&socket));
        }
        assert_ne!(ours.prefix(Parent::Process(1)), ours.prefix(Parent::None));
        // Test vectors of the hash's authors.
        assert_eq!(fnv_1a([].iter()), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv_1a(b"foobar".iter()), 0x8594_4171_f739_67e8);
    }
}
