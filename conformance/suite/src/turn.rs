//! Turns on a machine that several test programs use at a time (`cargo xtask test`). Cases of all of them run beside
//! one another; a case that is run again has the machine alone.
//!
//! A turn is made of locks on two files, which end with their program. Programs pass the gate one after the other. So a
//! case that must be alone waits for the cases that run already, and not for those that come later.

use std::fs::File;
use std::path::{Path, PathBuf};

use crate::environment::MACHINE;

/// Whether other programs' cases may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Company {
    Others,
    None,
}

/// A turn. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Turn {
    _room: Locked,
    _gate: Option<Locked>,
}

/// Waits for a turn; returns at once where no other program runs.
pub(crate) fn take(company: Company) -> Option<Turn> {
    let path = path()?;
    let gate = Locked::new(&path.with_extension("gate"), Company::None)?;
    let room = Locked::new(&path.with_extension("room"), company)?;
    Some(Turn { _room: room, _gate: (company == Company::None).then_some(gate) })
}

fn path() -> Option<PathBuf> {
    std::env::var_os(MACHINE).filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// A file that is locked.
#[derive(Debug)]
struct Locked(#[cfg_attr(not(unix), expect(dead_code, reason = "no file is locked there"))] File);

#[cfg(unix)]
impl Locked {
    /// Returns none if the file can't be locked. Then cases are judged as strictly, on a machine that other programs
    /// use too.
    fn new(path: &Path, company: Company) -> Option<Locked> {
        use rustix::fs::{FlockOperation, flock};

        let file = File::options().create(true).append(true).open(path).ok()?;
        let how = match company {
            Company::Others => FlockOperation::LockShared,
            Company::None => FlockOperation::LockExclusive,
        };
        loop {
            match flock(&file, how) {
                Ok(()) => return Some(Locked(file)),
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return None,
            }
        }
    }
}

#[cfg(unix)]
impl Drop for Locked {
    /// Unlocks the file also for a process that was forked meanwhile and has the same file open.
    fn drop(&mut self) {
        // A file that is open can be unlocked.
        let _ = rustix::fs::flock(&self.0, rustix::fs::FlockOperation::Unlock);
    }
}

#[cfg(not(unix))]
impl Locked {
    fn new(_: &Path, _: Company) -> Option<Locked> {
        None
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::sync::mpsc::{RecvTimeoutError, channel};
    use std::thread;
    use std::time::Duration;

    use super::{Company, Locked};

    /// Each lock has an open file of its own, as two programs have.
    #[test]
    fn one_that_is_alone_waits_for_the_others_and_keeps_them_out() {
        let folder = tempfile::tempdir().unwrap();
        let room = folder.path().join("room");
        let [one, other] = [Company::Others; 2].map(|company| Locked::new(&room, company).unwrap());
        let (told, alone) = channel();
        thread::spawn(move || {
            let locked = Locked::new(&room, Company::None).unwrap();
            told.send(locked).unwrap();
        });
        let soon = Duration::from_millis(50);
        assert_eq!(alone.recv_timeout(soon).err(), Some(RecvTimeoutError::Timeout), "two are in");
        drop(one);
        assert_eq!(alone.recv_timeout(soon).err(), Some(RecvTimeoutError::Timeout), "one is in");
        drop(other);
        alone.recv_timeout(Duration::from_secs(20)).unwrap();
    }
}
