//! The output of the program: only this module writes to stdout and stderr.
//!
//! Stdout gets the answer of a call: if it can't be written, the call has failed. Stderr gets messages for users: if
//! stderr is full or closed, nothing changes.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};

use crate::exit::{Exit, Failure};

/// Prints one or more lines of an answer.
pub(crate) fn line(text: impl Display) -> Result<(), Failure> {
    all(format!("{text}\n").as_bytes())
}

/// Prints an answer as it is.
pub(crate) fn all(answer: &[u8]) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    written(stdout.write_all(answer).and_then(|()| stdout.flush()))
}

/// Converts the outcome of writing an answer.
pub(crate) fn written(outcome: io::Result<()>) -> Result<(), Failure> {
    match outcome {
        // A reader that has closed its end needs no more of the answer.
        Err(e) if e.kind() == ErrorKind::BrokenPipe => Ok(()),
        outcome => outcome.map_err(|e| {
            Failure::new(Exit::NotWritten, format!("the answer can't be written to stdout: {e}"))
        }),
    }
}

/// Prints a line of the program itself to stderr.
pub(crate) fn note(text: impl Display) {
    to_stderr(&format!("lock: {text}\n"));
}

/// Prints text to stderr as it is. One write, so that the lines of several processes don't mix.
pub(crate) fn to_stderr(text: &str) {
    let mut stderr = io::stderr().lock();
    // The terminal may be gone or the disk full: there is no other place for the message.
    let _: io::Result<()> = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
}
