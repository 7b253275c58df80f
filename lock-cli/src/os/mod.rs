//! What is particular to an operating system: the command's process, and the signals that we get.

#[cfg(unix)]
mod unix;
#[cfg(unix)]
pub(crate) use unix::{Process, Signals, become_command};

#[cfg(not(unix))]
mod other;
#[cfg(not(unix))]
pub(crate) use other::{Process, Signals, become_command};

/// What a process does that we have to know of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// It has ended, and is to be buried.
    Ended,
    /// It was stopped from the terminal; by the time that this is told we have been stopped like it, and continued.
    #[cfg_attr(not(unix), expect(dead_code, reason = "nothing is stopped there"))]
    Stopped,
}
