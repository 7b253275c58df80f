//! The exit status of the program, and its last message.

use std::fmt;
use std::io;

use onelock::{Error, ErrorKind};

use crate::args::Voice;

/// The end of the program. Its own statuses are those of `sysexits.h` and of shells (POSIX, XCU 2.8.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// The status of the command.
    Status(i32),
    /// A signal ended the command, or the wait for the lock.
    Signal(i32),
    /// `EX_USAGE`: a bad call, name, ttl or URL.
    Usage,
    /// `EX_UNAVAILABLE`: the server can't be reached, or refuses the request.
    Unavailable,
    /// `EX_OSERR`: the operating system refused something that the program needs.
    System,
    /// `EX_CANTCREAT`: stdout can't be written. (`EX_IOERR` is used for a lost lock.)
    NotWritten,
    /// `EX_IOERR`: the lock was lost while the command ran.
    Lost,
    /// `EX_NOPERM`: the lock is held no longer, and a process of the command that can't be ended goes on.
    GoesOn,
    /// The lock was held for as long as `--max-hold` allows. The status of timeout(1), unless the call sets another.
    HeldForLong(u8),
    /// Another client holds the lock: `EX_TEMPFAIL`, unless the call sets another status.
    NotAcquired(u8),
    /// The command exists but can't be executed.
    NotExecutable,
    /// The command does not exist.
    NotFound,
}

impl Exit {
    /// Returns the status that the operating system gets.
    pub(crate) fn code(self) -> i32 {
        match self {
            Exit::Status(status) => status,
            Exit::Signal(signal) => 128 + signal,
            Exit::Usage => 64,
            Exit::Unavailable => 69,
            Exit::System => 71,
            Exit::NotWritten => 73,
            Exit::Lost => 74,
            Exit::GoesOn => 77,
            Exit::HeldForLong(status) | Exit::NotAcquired(status) => status.into(),
            Exit::NotExecutable => 126,
            Exit::NotFound => 127,
        }
    }
}

/// "Try again later" (`sysexits.h`).
const EX_TEMPFAIL: u8 = 75;

/// The status of a command that had its time (timeout(1)).
pub(crate) const TIMED_OUT: u8 = 124;

/// An end with a message for the user.
#[derive(Debug)]
pub(crate) struct Failure {
    exit: Exit,
    message: String,
}

impl Failure {
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Failure {
        Failure { exit, message: message.into() }
    }

    /// The failure of a command that could not be executed.
    pub(crate) fn of_exec(program: &std::ffi::OsStr, error: &io::Error) -> Failure {
        let program = program.to_string_lossy();
        match error.kind() {
            io::ErrorKind::NotFound => Failure::new(Exit::NotFound, format!("{program}: not found")),
            _ => Failure::new(Exit::NotExecutable, format!("{program}: can't be executed: {error}")),
        }
    }

    /// The failure of something that the operating system has refused: `what` says what it was.
    pub(crate) fn of_system(what: &str, error: &io::Error) -> Failure {
        Failure::new(Exit::System, format!("{what}: {error}"))
    }

    pub(crate) fn exit(&self) -> Exit {
        self.exit
    }

    /// Leaves only the status of a failure that a quiet call does not speak of: another client had the lock.
    pub(crate) fn unless_quiet(self, voice: Voice) -> Result<Exit, Failure> {
        match (voice, self.exit) {
            (Voice::Quiet, Exit::NotAcquired(_)) => Ok(self.exit),
            _ => Err(self),
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        let exit = match error.kind() {
            ErrorKind::Timeout => Exit::NotAcquired(EX_TEMPFAIL),
            ErrorKind::Lost => Exit::Lost,
            ErrorKind::Invalid | ErrorKind::Unsupported => Exit::Usage,
            // Unavailable, Rejected, and kinds that later versions may add.
            _ => Exit::Unavailable,
        };
        Failure::new(exit, error.to_string())
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure::new(Exit::System, format!("the operating system refused: {error}"))
    }
}

/// Adds to an error of the operating system what it is about.
pub(crate) trait About<T> {
    /// `object` is a file, a program, a process or a signal.
    fn about(self, object: impl fmt::Display) -> io::Result<T>;
}

impl<T, E: Into<io::Error>> About<T> for Result<T, E> {
    fn about(self, object: impl fmt::Display) -> io::Result<T> {
        self.map_err(|e| {
            let e = e.into();
            io::Error::new(e.kind(), format!("{object}: {e}"))
        })
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}
