//! The output of the program: only this module writes to stdout and stderr.
//!
//! Stdout gets the answer of a call: if it can't be written, the call has failed. Stderr gets messages for users: if
//! stderr is full or closed, nothing changes.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

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

/// Lines that a thread of their own writes: a reader that stops reading stops nothing else. A clone adds to the same
/// lines.
#[derive(Clone, Debug)]
pub(crate) struct Lines(mpsc::Sender<Message>);

#[derive(Debug)]
enum Message {
    Line(String),
    /// Everything before is written.
    Done(mpsc::Sender<()>),
}

impl Lines {
    /// How long the last lines may take.
    const LAST: Duration = Duration::from_secs(1);

    /// Returns lines that go to stdout. If stdout can't be written any more, the rest of them is lost.
    pub(crate) fn of_stdout() -> Lines {
        Lines::written_by(|line| drop(self::line(line)))
    }

    /// Returns lines that go to stderr.
    pub(crate) fn of_stderr() -> Lines {
        Lines::written_by(|line| to_stderr(&format!("{line}\n")))
    }

    fn written_by(write: impl Fn(&str) + Send + 'static) -> Lines {
        let (sender, messages) = mpsc::channel();
        thread::spawn(move || {
            for message in messages {
                match message {
                    Message::Line(line) => write(&line),
                    // Fails if the program does not wait any longer.
                    Message::Done(done) => drop(done.send(())),
                }
            }
        });
        Lines(sender)
    }

    /// Returns lines that a test receives.
    #[cfg(test)]
    pub(crate) fn collected() -> (Lines, mpsc::Receiver<String>) {
        let (sender, lines) = mpsc::channel();
        (Lines::written_by(move |line| sender.send(line.to_owned()).unwrap_or_default()), lines)
    }

    /// Adds a line. Never waits.
    pub(crate) fn say(&self, line: String) {
        // The thread ends only with the last sender.
        let _: Result<(), _> = self.0.send(Message::Line(line));
    }

    /// Waits until all lines are written, for a second at most.
    pub(crate) fn finish(&self) {
        let (done, written) = mpsc::channel();
        let _: Result<(), _> = self.0.send(Message::Done(done));
        let _: Result<(), _> = written.recv_timeout(Self::LAST);
    }
}
