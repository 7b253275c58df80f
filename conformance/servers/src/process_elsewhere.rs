//! Replaces processes where there is no Unix. No process is started: servers come from URLs, and cases with holders are
//! not run.

use std::io;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use lock_conformance::harness::Ended;

use super::pipes::Pipes;

/// The methods of a value that cannot exist.
macro_rules! never {
    ($($name:ident($($argument:ty)?) -> $result:ty;)+) => {$(
        pub fn $name(&self $(, _: $argument)?) -> $result {
            match *self {}
        }
    )+};
}

/// A child process, which cannot exist here.
#[derive(Debug)]
pub enum Process {}

#[allow(missing_docs, reason = "they are documented where there is such a process")]
impl Process {
    pub fn spawn(_: &mut Command) -> io::Result<Process> {
        Err(unsupported())
    }

    pub fn spawn_with_pipes(_: &mut Command) -> io::Result<(Process, Pipes)> {
        Err(unsupported())
    }

    #[cfg(feature = "sql")]
    pub(super) fn output(_: &mut Command) -> io::Result<std::process::Output> {
        Err(unsupported())
    }

    never! {
        id() -> u32;
        kill() -> io::Result<()>;
        terminate(Duration) -> io::Result<Ended>;
        pause() -> io::Result<()>;
        resume() -> io::Result<()>;
        ended() -> io::Result<Option<Ended>>;
        wait(Duration) -> io::Result<Option<Ended>>;
    }
}

#[derive(Debug)]
pub(super) enum CleanupOnExit {}

impl CleanupOnExit {
    pub(super) fn remove(_: &Path) -> io::Result<CleanupOnExit> {
        Err(unsupported())
    }
}

fn unsupported() -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, "processes are started on Unix only")
}
