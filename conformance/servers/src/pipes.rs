//! The input and the output of a process that was started here.

#[cfg(unix)]
use std::process::Child;
use std::process::{ChildStderr, ChildStdin, ChildStdout};

/// The ends of a process's pipes that are here.
#[derive(Debug)]
pub struct Pipes {
    /// The process's standard input.
    pub stdin: ChildStdin,
    /// The process's standard output.
    pub stdout: ChildStdout,
    /// Its standard error.
    pub stderr: ChildStderr,
}

impl Pipes {
    /// Takes the pipes of a child that was started with them.
    #[cfg(unix)]
    pub(super) fn of(child: &mut Child) -> Pipes {
        Pipes {
            stdin: child.stdin.take().expect("stdin was asked for as a pipe"),
            stdout: child.stdout.take().expect("stdout was asked for as a pipe"),
            stderr: child.stderr.take().expect("stderr was asked for as a pipe"),
        }
    }
}
