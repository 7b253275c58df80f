//! The terminal: which process group reads from it and gets its signals.

use std::ffi::OsString;
use std::fmt;
use std::io::{self, stdin};

use nix::sys::signal::{SigSet, Signal as NixSignal};
use rustix::process::{self, Pid};
use rustix::termios::{self, OptionalActions, Termios};

use crate::exit::About;

/// The process group of `lock`. It has no number if it is outside of our PID namespace, as after `unshare --pid --fork`
/// and `nsenter --pid` (pid_namespaces(7)). Then `lock` keeps the terminal: it could not be given back to a group
/// without a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LockGroup(Option<Pid>);

impl LockGroup {
    /// Returns the group of this process. To be called in `lock` itself.
    pub(super) fn own() -> LockGroup {
        // Not with rustix, which does not accept a group without a number.
        LockGroup(Pid::from_raw(nix::unistd::getpgrp().as_raw()))
    }

    /// Reads what [`Display`](fmt::Display) writes.
    pub(super) fn parse(arg: OsString) -> Option<LockGroup> {
        let number: i32 = arg.to_str()?.parse().ok()?;
        (number >= 0).then(|| LockGroup(Pid::from_raw(number)))
    }

    /// Makes the group `to` the one that reads from the terminal and gets its signals, if stdin is our terminal and
    /// `lock` has it.
    pub(super) fn lend_terminal(self, to: Pid) {
        if let LockGroup(Some(own)) = self {
            hand_over(own, to);
        }
    }

    /// Makes the group of `lock` the terminal's again, if the group `from` has it.
    pub(super) fn take_terminal(self, from: Pid) {
        if let LockGroup(Some(own)) = self {
            hand_over(from, own);
        }
    }

    /// Stops the group of `lock`, as the terminal would have done if the command were in it, so that the shell shows
    /// its prompt. Returns when the group is continued. Returns at once if nothing could continue it (an orphaned
    /// group); then the command's stop has no meaning either.
    pub(super) fn stop_like(self, command: Pid) -> io::Result<Stop> {
        if self.0.is_none() {
            return Ok(Stop::OutOfReach);
        }
        self.take_terminal(command);
        process::kill_current_process_group(process::Signal::TSTP).about("the process group of lock")?;
        Ok(Stop::Continued)
    }
}

/// The outcome of a stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    Continued,
    /// The group has no number, and goes on.
    OutOfReach,
}

impl fmt::Display for LockGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.map_or(0, |group| group.as_raw_nonzero().get()))
    }
}

fn hand_over(from: Pid, to: Pid) {
    if termios::tcgetpgrp(stdin()) == Ok(from) {
        // Fails if the terminal is gone, which does no harm.
        unstopped(|| termios::tcsetpgrp(stdin(), to).ok());
    }
}

/// The settings of the terminal: whether it echoes, which keys send signals.
#[derive(Debug)]
pub(super) struct Modes(Termios);

impl Modes {
    /// Reads the settings of stdin, if it is a terminal.
    pub(super) fn of_stdin() -> Option<Modes> {
        termios::tcgetattr(stdin()).ok().map(Modes)
    }

    /// Restores the settings. A command that was killed, for example an editor, could not do so itself.
    pub(super) fn restore(&self) {
        unstopped(|| termios::tcsetattr(stdin(), OptionalActions::Drain, &self.0).ok());
    }
}

/// Runs `work`, which stops a group that doesn't have the terminal unless it blocks the signal (tcsetpgrp(3),
/// tcsetattr(3)).
fn unstopped(work: impl FnOnce() -> Option<()>) {
    let stops = SigSet::from(NixSignal::SIGTTOU);
    if stops.thread_block().is_ok() {
        let _: Option<()> = work();
        // A signal that could be blocked can be unblocked.
        let _: nix::Result<()> = stops.thread_unblock();
    }
}
