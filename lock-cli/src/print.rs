//! The output of the program: only this module writes to stdout and stderr.
//!
//! A thread of its own writes to each of them, because a write may never return: nothing reads the pipe, or Ctrl-S has
//! stopped the terminal. Meanwhile the lock is renewed, and signals are heard.
//!
//! Stdout gets the answer of a call: if it can't be written, the call has failed. Stderr gets messages for users: if
//! stderr is full or closed, nothing changes.

mod stream;

use std::backtrace::{Backtrace, BacktraceStatus};
use std::fmt::Display;
use std::io::{self, ErrorKind};
use std::panic;
use std::sync::{Arc, OnceLock, mpsc};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use tokio::time;

use self::stream::Stream;
use crate::exit::{Exit, Failure};
use crate::os;

/// The time that an answer may take to be written. A caller that has not read by then is not told any more.
const ANSWER: Duration = Duration::from_secs(5);
/// The time that messages may take before the command starts.
const FIRST: Duration = Duration::from_secs(1);
/// The time that the last texts may take when the program ends.
const LAST: Duration = Duration::from_secs(2);

/// Prints one or more lines of an answer.
///
/// # Errors
///
/// `NotWritten` if stdout can't be written, or was not read for [`ANSWER`].
pub(crate) fn line(text: impl Display) -> Result<(), Failure> {
    in_time(added(&text).recv_timeout(ANSWER).ok())
}

/// Prints one or more lines of an answer that people read page by page: waits for its reader without a limit.
///
/// # Errors
///
/// `NotWritten` if stdout can't be written.
pub(crate) fn page(text: impl Display) -> Result<(), Failure> {
    in_time(added(&text).recv().ok())
}

/// Prints a line of an answer, and waits for its reader without a limit.
///
/// # Errors
///
/// `NotWritten` if stdout can't be written.
///
/// # Cancel safety
///
/// If this future is dropped, the line may still be written.
pub(crate) async fn change(text: impl Display) -> Result<(), Failure> {
    in_time(Lines::of_stdout().add(&text).await.ok())
}

/// Prints one or more lines of an answer without which the call is of no use.
///
/// # Errors
///
/// `NotWritten` if stdout can't be written, has no reader, or was not read for [`ANSWER`].
///
/// # Cancel safety
///
/// If this future is dropped, the text may still be written.
pub(crate) async fn answer(text: impl Display) -> Result<(), Failure> {
    Lines::of_stdout().tell(text).await
}

/// Prints the last line of an answer. Only [`finish`] waits for it: if stdout can't be written, the exit status alone tells.
pub(crate) fn last(text: impl Display) {
    drop(added(&text));
}

/// Adds an answer. The receiver gets the outcome of writing it, or an error if too many texts wait before it.
fn added(text: &impl Display) -> mpsc::Receiver<io::Result<()>> {
    let (sender, written) = mpsc::channel();
    // Fails if the caller has given up.
    stdout().add(format!("{text}\n"), move |outcome| drop(sender.send(outcome)));
    written
}

fn in_time(outcome: Option<io::Result<()>>) -> Result<(), Failure> {
    outcome.map_or_else(|| Err(unread()), written)
}

fn unread() -> Failure {
    Failure::new(Exit::NotWritten, "the answer can't be written to stdout: its reader does not read")
}

/// Converts the outcome of writing an answer.
pub(crate) fn written(outcome: io::Result<()>) -> Result<(), Failure> {
    match outcome {
        // A reader that has closed its end needs no more of the answer.
        Err(e) if e.kind() == ErrorKind::BrokenPipe => Ok(()),
        outcome => outcome.map_err(|e| unwritten(&e)),
    }
}

fn unwritten(error: &io::Error) -> Failure {
    Failure::new(Exit::NotWritten, format!("the answer can't be written to stdout: {error}"))
}

/// Returns whether nothing reads stdout any more: the pipe or socket has lost its other end.
pub(crate) fn reader_has_gone() -> bool {
    os::has_no_reader(&io::stdout())
}

/// Prints a line of the program itself to stderr. Never waits.
pub(crate) fn note(text: impl Display) {
    to_stderr(format!("lock: {text}\n"));
}

/// Prints text to stderr as it is. Never waits.
pub(crate) fn to_stderr(text: String) {
    stderr().add(text, drop);
}

/// Prints text to stderr if all before it is written: text that is soon replaced by newer text. Never waits.
pub(crate) fn to_stderr_if_idle(text: String) {
    if stderr().is_idle() {
        to_stderr(text);
    }
}

/// Waits until all messages so far are written, for [`FIRST`] at most: then another process writes to the same stderr.
pub(crate) async fn messages_written() {
    let Some(stream) = STDERR.get() else { return };
    let (sender, written) = oneshot::channel();
    // Fails if it comes too late.
    stream.when_written(move || sender.send(()).unwrap_or_default());
    let _: Result<_, time::error::Elapsed> = time::timeout(FIRST, written).await;
}

/// Waits until everything is written, for [`LAST`] at most. To be called at the end of the program.
pub(crate) fn finish() {
    let (sender, written) = mpsc::channel();
    for stream in [STDOUT.get(), STDERR.get()].into_iter().flatten() {
        let sender = sender.clone();
        // Fails if it comes too late.
        stream.when_written(move || sender.send(()).unwrap_or_default());
    }
    drop(sender);
    // Until each of them has told, and its sender is gone; or until the time is over.
    let over = Instant::now() + LAST;
    while written.recv_timeout(over.saturating_duration_since(Instant::now())).is_ok() {}
}

/// From now on, the message of a panic goes the way of all other messages.
pub(crate) fn note_panics() {
    panic::set_hook(Box::new(|panic| {
        let trace = Backtrace::capture();
        note(panic);
        if trace.status() == BacktraceStatus::Captured {
            to_stderr(format!("{trace}\n"));
        }
        // The panic may end the program.
        finish();
    }));
}

static STDOUT: OnceLock<Arc<Stream>> = OnceLock::new();
static STDERR: OnceLock<Arc<Stream>> = OnceLock::new();

fn stdout() -> &'static Arc<Stream> {
    STDOUT.get_or_init(|| Arc::new(Stream::start(|text| stream::write(io::stdout().lock(), text))))
}

fn stderr() -> &'static Arc<Stream> {
    STDERR.get_or_init(|| Arc::new(Stream::start(|text| stream::write(io::stderr().lock(), text))))
}

/// Lines for a program that reads them. A clone adds to the same lines.
#[derive(Clone, Debug)]
pub(crate) struct Lines(Arc<Stream>);

impl Lines {
    pub(crate) fn of_stdout() -> Lines {
        Lines(stdout().clone())
    }

    pub(crate) fn of_stderr() -> Lines {
        Lines(stderr().clone())
    }

    /// Returns lines that a test receives.
    #[cfg(test)]
    pub(crate) fn collected() -> (Lines, mpsc::Receiver<String>) {
        let (sender, lines) = mpsc::channel();
        let collect = move |text: &str| {
            sender.send(text.trim_end().to_owned()).unwrap_or_default();
            Ok(())
        };
        (Lines(Arc::new(Stream::start(collect))), lines)
    }

    /// Adds a line. Never waits. If it can't be written, it is lost.
    pub(crate) fn say(&self, line: impl Display) {
        self.0.add(format!("{line}\n"), drop);
    }

    /// Adds a line that must be told.
    ///
    /// # Errors
    ///
    /// `NotWritten` if it can't be written, has no reader, or was not read for [`ANSWER`].
    ///
    /// # Cancel safety
    ///
    /// If this future is dropped, the line may still be written.
    pub(crate) async fn tell(&self, line: impl Display) -> Result<(), Failure> {
        let told = time::timeout(ANSWER, self.add(&line)).await;
        told.ok().and_then(Result::ok).ok_or_else(unread)?.map_err(|e| unwritten(&e))
    }

    /// Adds a line. The receiver gets the outcome of writing it, or an error if too many wait before it.
    fn add(&self, line: &impl Display) -> oneshot::Receiver<io::Result<()>> {
        let (sender, written) = oneshot::channel();
        // Fails if the caller has given up.
        self.0.add(format!("{line}\n"), move |outcome| drop(sender.send(outcome)));
        written
    }

    /// Waits until all lines are written.
    #[cfg(test)]
    pub(crate) fn finish(&self) {
        let (sender, written) = mpsc::channel();
        self.0.when_written(move || sender.send(()).unwrap_or_default());
        written.recv().unwrap();
    }
}
