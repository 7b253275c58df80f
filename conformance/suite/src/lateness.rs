//! A test that was late, and nothing else, or that was void, is judged here.
//!
//! Other tests, and other programs, may have kept the machine from being in time. So a test that was late is run again,
//! up to three times and with the machine to itself, and passes if it is in time in two of these runs. A test that was
//! void is run again until it has shown something; if it is void three times, it has failed. `cargo xtask test` fails a
//! run with more than a few late tests, or with one that was late in the run before.

use std::sync::{PoisonError, RwLock};

use crate::failure::Failure;
use crate::record;

/// A test shares the machine with others, or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Load {
    Light,
    /// It waits most of the time, for bounds that many tests at a time would strain: only a few run side by side.
    Medium,
    /// It measures, or keeps the machine busy, so it runs alone.
    Heavy,
}

/// A test that was late has to be in time so often afterwards.
const IN_TIME: u32 = 2;
/// A test that is late so often, its first run included, has failed.
const LATE: u32 = 3;
/// A test that is void so often has failed.
const VOID: u32 = 3;

/// All tests of this program share it but heavy ones and those that are run again.
static MACHINE: RwLock<()> = RwLock::new(());

/// Returns what the test `what` answers in the end; `Err` says why it failed. Notes each reason for which it was run
/// again, if it passes after all: some tests are of drivers with known flaws, and are meant to fail.
pub(crate) fn judge<T>(load: Load, what: &str, test: impl Fn() -> Result<T, Failure>) -> Result<T, String> {
    let (outcome, reasons) = judged(load, test);
    for reason in outcome.iter().flat_map(|_| &reasons) {
        println!("run again: {what}: {reason}");
        record::run_again(what, reason);
    }
    outcome
}

/// Returns the outcome, and why the test was run again.
fn judged<T>(load: Load, test: impl Fn() -> Result<T, Failure>) -> (Result<T, String>, Vec<Failure>) {
    let mut outcome = first(load, &test);
    if matches!(outcome, Ok(_) | Err(Failure::Wrong(_))) {
        return (outcome.map_err(|wrong| wrong.to_string()), Vec::new());
    }
    let _alone = MACHINE.write().unwrap_or_else(PoisonError::into_inner);
    let _others = programs::keep_out();
    let (mut in_time, mut late, mut void, mut reasons) = (0, 0, 0, Vec::new());
    loop {
        match &outcome {
            Ok(_) => in_time += 1,
            Err(Failure::Late(_)) => late += 1,
            Err(Failure::Void(_)) => void += 1,
            Err(Failure::Wrong(_)) => {}
        }
        match outcome {
            Ok(passed) if late == 0 || in_time == IN_TIME => return (Ok(passed), reasons),
            Ok(_) => {}
            Err(again @ (Failure::Late(_) | Failure::Void(_))) if late < LATE && void < VOID => {
                reasons.push(again);
            }
            Err(failure) => return (Err(format!("{failure}; it had the machine to itself")), reasons),
        }
        outcome = test();
    }
}

/// Runs a test for the first time: beside others, if it can be.
fn first<T>(load: Load, test: impl Fn() -> Result<T, Failure>) -> Result<T, Failure> {
    let _heavy = (load == Load::Heavy).then(|| MACHINE.write().unwrap_or_else(PoisonError::into_inner));
    let _light = (load != Load::Heavy).then(|| MACHINE.read().unwrap_or_else(PoisonError::into_inner));
    // Waiting for other programs, which have servers of their own, before each heavy test would take longer than all
    // the rest.
    let _others = programs::join();
    test()
}

/// The test programs that run at the same time (`cargo xtask test`). They lock two files, and pass the gate one after
/// the other. So a test that must be alone waits for the tests that run already, and not for those that come later.
#[cfg(unix)]
mod programs {
    use std::fs::File;
    use std::path::Path;

    use rustix::fs::{FlockOperation, flock};

    /// Waits until no program keeps the others out.
    pub(super) fn join() -> Option<Locked> {
        let path = path()?;
        let _gate = Locked::new(&path.with_extension("gate"), FlockOperation::LockExclusive)?;
        Locked::new(&path.with_extension("room"), FlockOperation::LockShared)
    }

    /// Waits until no other program runs a test, and keeps them from it.
    pub(super) fn keep_out() -> Option<[Locked; 2]> {
        let path = path()?;
        let lock = |file| Locked::new(&path.with_extension(file), FlockOperation::LockExclusive);
        Some([lock("gate")?, lock("room")?])
    }

    fn path() -> Option<std::path::PathBuf> {
        std::env::var_os(crate::environment::MACHINE).filter(|path| !path.is_empty()).map(Into::into)
    }

    /// A file that is locked. The lock ends with this program.
    #[derive(Debug)]
    pub(super) struct Locked(File);

    impl Locked {
        /// Returns none if the file can't be locked. Then tests are judged as strictly, on a machine that other
        /// programs use too.
        fn new(path: &Path, how: FlockOperation) -> Option<Locked> {
            let file = File::options().create(true).append(true).open(path).ok()?;
            loop {
                match flock(&file, how) {
                    Ok(()) => return Some(Locked(file)),
                    Err(rustix::io::Errno::INTR) => {}
                    Err(_) => return None,
                }
            }
        }
    }

    impl Drop for Locked {
        /// Unlocks the file also for a process that was forked meanwhile and has the same file open.
        fn drop(&mut self) {
            // A file that is open can be unlocked.
            let _ = flock(&self.0, FlockOperation::Unlock);
        }
    }
}

#[cfg(not(unix))]
mod programs {
    pub(super) fn join() {}
    pub(super) fn keep_out() {}
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    const TARDY: fn() -> Result<(), Failure> = || Err(Failure::Late("after 3 s".to_owned()));
    const EMPTY: fn() -> Result<(), Failure> = || Err(Failure::Void("nothing was refused".to_owned()));
    const WRONG: fn() -> Result<(), Failure> = || Err(Failure::wrong("two at a time"));
    const WELL: fn() -> Result<(), Failure> = || Ok(());

    /// Runs a test that gives these answers one after the other. Returns whether it passed, and how often it ran.
    fn ran(answers: &[fn() -> Result<(), Failure>]) -> (bool, usize) {
        let turn = Cell::new(0);
        let (outcome, _) = judged(Load::Light, || {
            turn.set(turn.get() + 1);
            answers[turn.get() - 1]()
        });
        (outcome.is_ok(), turn.get())
    }

    #[test]
    fn a_late_test_must_be_in_time_twice() {
        assert_eq!(ran(&[WELL]), (true, 1));
        assert_eq!(ran(&[TARDY, WELL, WELL]), (true, 3));
        assert_eq!(ran(&[TARDY, WELL, TARDY, WELL]), (true, 4));
        assert_eq!(ran(&[TARDY, WELL, TARDY, TARDY]), (false, 4));
        assert_eq!(ran(&[TARDY, TARDY, TARDY, WELL]), (false, 3));
        // A void run is neither in time nor late.
        assert_eq!(ran(&[TARDY, WELL, EMPTY, TARDY, WELL]), (true, 5));
        assert_eq!(ran(&[EMPTY, TARDY, WELL, WELL]), (true, 4));
        assert_eq!(ran(&[EMPTY, TARDY, TARDY, TARDY]), (false, 4));
    }

    #[test]
    fn a_wrong_test_is_not_run_again() {
        assert_eq!(ran(&[WRONG]), (false, 1));
        assert_eq!(ran(&[TARDY, WRONG]), (false, 2));
        assert_eq!(ran(&[EMPTY, WRONG]), (false, 2));
    }

    #[test]
    fn a_test_that_stays_void_fails() {
        assert_eq!(ran(&[EMPTY, EMPTY, WELL]), (true, 3));
        assert_eq!(ran(&[EMPTY, EMPTY, EMPTY]), (false, 3));
    }
}
