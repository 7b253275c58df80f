//! What the program says: the one place that writes to stdout and stderr.
//!
//! On stdout stands what was asked for: a call whose answer can't be written there has failed. On stderr stands what a
//! person may want to know: a stderr that is full or closed changes nothing.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};

use crate::exit::{Exit, Failure};

/// One line of an answer, or several.
pub(crate) fn line(text: impl Display) -> Result<(), Failure> {
    all(format!("{text}\n").as_bytes())
}

/// An answer as it is.
pub(crate) fn all(answer: &[u8]) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    written(stdout.write_all(answer).and_then(|()| stdout.flush()))
}

/// Judges what became of an answer.
pub(crate) fn written(outcome: io::Result<()>) -> Result<(), Failure> {
    match outcome {
        // A reader that has closed its end wants no more of it.
        Err(e) if e.kind() == ErrorKind::BrokenPipe => Ok(()),
        outcome => outcome.map_err(|e| {
            Failure::new(Exit::NotWritten, format!("the answer can't be written to stdout: {e}"))
        }),
    }
}

/// A line of the program's own, for people.
pub(crate) fn note(text: impl Display) {
    for_people(&format!("lock: {text}\n"));
}

/// What stands on stderr as it is. In one piece, so that lines of several processes don't mix.
pub(crate) fn for_people(text: &str) {
    let mut stderr = io::stderr().lock();
    // A terminal that went away, or a full disk: there is no other place to say so.
    let _: io::Result<()> = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
}
