//! What depends on the operating system: the command's process, and the signals that this program gets.

#[cfg(unix)]
mod unix;
#[cfg(unix)]
pub(crate) use unix::{
    Deadline, Process, ServiceManager, Signal, Signals, close_stderr, detach, fail_instead_of_stopping,
    inner_call, outlive_full_files, own_program, stdin_is_ready,
};

#[cfg(not(unix))]
mod other;
#[cfg(not(unix))]
pub(crate) use other::{
    Deadline, Process, ServiceManager, Signal, Signals, fail_instead_of_stopping, inner_call,
    outlive_full_files, stdin_is_ready,
};

/// What happened to the command's process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// It has ended, and `reap` has to be called.
    Ended,
    /// It was killed at the last deadline that it was given, and `reap` has to be called.
    #[cfg_attr(not(unix), expect(dead_code, reason = "no watcher keeps deadlines there"))]
    Killed,
    /// It was stopped from the terminal. When this event is reported, this program was stopped too, and continued.
    #[cfg_attr(not(unix), expect(dead_code, reason = "commands are not stopped there"))]
    Stopped,
}
