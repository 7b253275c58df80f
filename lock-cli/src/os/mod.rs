//! What is particular to an operating system: the command's process, and the signals that we get.

#[cfg(unix)]
mod unix;
#[cfg(unix)]
pub(crate) use unix::{Deadline, Process, Signals, inner_call, outlive_full_files};

#[cfg(not(unix))]
mod other;
#[cfg(not(unix))]
pub(crate) use other::{Deadline, Process, Signals, inner_call, outlive_full_files};

/// What a process does that we have to know of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// It has ended, and is to be buried.
    Ended,
    /// It was killed because the last deadline it was given has come, and is to be buried.
    #[cfg_attr(not(unix), expect(dead_code, reason = "deadlines are not watched there"))]
    Killed,
    /// It was stopped from the terminal; by the time that this is told we have been stopped like it, and continued.
    #[cfg_attr(not(unix), expect(dead_code, reason = "nothing is stopped there"))]
    Stopped,
}
