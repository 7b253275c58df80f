//! Who reads from the terminal and gets its signals.

use std::ffi::OsString;
use std::fmt;
use std::io::{self, stdin};

use nix::sys::signal::{SigSet, Signal as NixSignal};
use rustix::process::{self, Pid};
use rustix::termios::{self, OptionalActions, Termios};

/// The group that `lock` is in. It has no number where it is outside of our PID namespace, as after `unshare --pid
/// --fork` and `nsenter --pid` (pid_namespaces(7)): what goes to it would not come back, so the terminal stays with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LockGroup(Option<Pid>);

impl LockGroup {
    /// In `lock` itself.
    pub(super) fn own() -> LockGroup {
        // Not by rustix, for which there is no group without a number.
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

    /// The other way round.
    pub(super) fn take_terminal(self, from: Pid) {
        if let LockGroup(Some(own)) = self {
            hand_over(from, own);
        }
    }

    /// Stops the group as the terminal would have done had the command been in it, so that the shell gets its prompt.
    /// Returns when it is continued; at once where nothing could continue it (an orphaned group), and then the command's
    /// stop means nothing either.
    pub(super) fn stop_like(self, command: Pid) -> io::Result<Stop> {
        if self.0.is_none() {
            return Ok(Stop::OutOfReach);
        }
        self.take_terminal(command);
        process::kill_current_process_group(process::Signal::TSTP)?;
        Ok(Stop::Continued)
    }
}

/// What became of a stop.
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
        // A terminal that went away meanwhile has no reader.
        unstopped(|| termios::tcsetpgrp(stdin(), to).ok());
    }
}

/// How the terminal was set: whether it echoes, what it makes signals of.
#[derive(Debug)]
pub(super) struct Modes(Termios);

impl Modes {
    /// Those of stdin, if it is a terminal.
    pub(super) fn of_stdin() -> Option<Modes> {
        termios::tcgetattr(stdin()).ok().map(Modes)
    }

    /// Sets it like that again. A command that was killed, an editor for one, had no time to.
    pub(super) fn restore(&self) {
        unstopped(|| termios::tcsetattr(stdin(), OptionalActions::Drain, &self.0).ok());
    }
}

/// Does what stops a group that doesn't have the terminal, unless it blocks the signal (tcsetpgrp(3), tcsetattr(3)).
fn unstopped(work: impl FnOnce() -> Option<()>) {
    let stops = SigSet::from(NixSignal::SIGTTOU);
    if stops.thread_block().is_ok() {
        let _: Option<()> = work();
        // What could be blocked can be unblocked.
        let _: nix::Result<()> = stops.thread_unblock();
    }
}
