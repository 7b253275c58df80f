//! With which status the program ends, and what it says on the way out.

use std::fmt;

use onelock::{Error, ErrorKind};

/// How the program ends. The numbers of its own are those of `sysexits.h`, and of the shells (POSIX, XCU 2.8.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// As the command did.
    Status(i32),
    /// A signal ended the command, or the wait for the lock.
    Signal(i32),
    /// `EX_USAGE`: a bad call, name, ttl or URL.
    Usage,
    /// `EX_UNAVAILABLE`: the server can't be reached, or refuses.
    Unavailable,
    /// `EX_OSERR`: this machine would not give us what the program needs.
    System,
    /// `EX_CANTCREAT`: stdout can't be written. (`EX_IOERR` was taken.)
    NotWritten,
    /// `EX_IOERR`: the lock was lost while the command ran.
    Lost,
    /// The lock was held for as long as it may be, and the command ended: as timeout(1) does.
    HeldForLong,
    /// Somebody else holds the lock: `EX_TEMPFAIL`, unless the call says otherwise.
    NotAcquired(u8),
    /// The command is there but can't be executed.
    NotExecutable,
    /// The command is not there.
    NotFound,
}

impl Exit {
    /// The number that the system is told.
    pub(crate) fn code(self) -> i32 {
        match self {
            Exit::Status(status) => status,
            Exit::Signal(signal) => 128 + signal,
            Exit::Usage => 64,
            Exit::Unavailable => 69,
            Exit::System => 71,
            Exit::NotWritten => 73,
            Exit::Lost => 74,
            Exit::HeldForLong => 124,
            Exit::NotAcquired(status) => status.into(),
            Exit::NotExecutable => 126,
            Exit::NotFound => 127,
        }
    }
}

/// Try again later (`sysexits.h`).
const EX_TEMPFAIL: u8 = 75;

/// An end that people are told about.
#[derive(Debug)]
pub(crate) struct Failure {
    exit: Exit,
    message: String,
}

impl Failure {
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Failure {
        Failure { exit, message: message.into() }
    }

    /// The command could not be executed.
    pub(crate) fn of_exec(program: &std::ffi::OsStr, error: &std::io::Error) -> Failure {
        let program = program.to_string_lossy();
        match error.kind() {
            std::io::ErrorKind::NotFound => Failure::new(Exit::NotFound, format!("{program}: not found")),
            _ => Failure::new(Exit::NotExecutable, format!("{program}: can't be executed: {error}")),
        }
    }

    pub(crate) fn exit(&self) -> Exit {
        self.exit
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        let exit = match error.kind() {
            ErrorKind::Timeout => Exit::NotAcquired(EX_TEMPFAIL),
            ErrorKind::Lost => Exit::Lost,
            ErrorKind::Invalid | ErrorKind::Unsupported => Exit::Usage,
            // Unavailable, Rejected, and whatever kinds are to come.
            _ => Exit::Unavailable,
        };
        Failure::new(exit, error.to_string())
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Failure {
        Failure::new(Exit::System, format!("this system refused: {error}"))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}
