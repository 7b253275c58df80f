//! The part that depends on the operating system: the command's process, and the signals to this program.

mod found;
#[cfg(unix)]
mod unix;

pub(crate) use found::{Found, Survivor, Why};
#[cfg(unix)]
pub(crate) use unix::{
    Deadline, Descriptor, Process, ServiceManager, Signal, Signals, close_stderr, detach,
    fail_instead_of_stopping, has_no_reader, inner_call, outlive_full_files, own_program, room_for_a_runtime,
    room_for_threads, stdin_is_ready, wait_for_room, write_instead_of_stopping,
};

#[cfg(not(unix))]
mod other;
#[cfg(not(unix))]
pub(crate) use other::{
    Deadline, Descriptor, Process, ServiceManager, Signal, Signals, fail_instead_of_stopping, has_no_reader,
    inner_call, outlive_full_files, room_for_a_runtime, room_for_threads, stdin_is_ready, wait_for_room,
    write_instead_of_stopping,
};

/// The fate of the daemons that the command leaves behind when it ends by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Daemons {
    /// Daemons are killed before the lock is released.
    Killed,
    /// Daemons go on without the lock.
    Kept,
}

/// An event of the command's process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// The command has ended, and `reap` has to be called. Nothing of the command is left.
    Ended,
    /// The command has ended by itself, and `reap` has to be called. The daemons that it has left behind go
    /// on: until `release` sets them free, `kill` ends them.
    #[cfg_attr(not(unix), expect(dead_code, reason = "no process but the command's own is known there"))]
    LeaderEnded,
    /// The command was killed at the last deadline that it was given, and `reap` has to be called.
    #[cfg_attr(not(unix), expect(dead_code, reason = "no watcher keeps deadlines there"))]
    Killed,
    /// The command was stopped from the terminal. When this event is reported, this program was stopped too,
    /// and continued.
    #[cfg_attr(not(unix), expect(dead_code, reason = "commands are not stopped there"))]
    Stopped,
    /// The command has ended by itself and left so many processes running, of which one is named. They are
    /// being killed.
    #[cfg_attr(not(unix), expect(dead_code, reason = "no process but the command's own is known there"))]
    LeftBehind(u32, Found),
    /// A process of the command should have ended, and goes on.
    #[cfg_attr(not(unix), expect(dead_code, reason = "no process but the command's own is known there"))]
    GoesOn(Survivor),
}
