//! Who reads from the terminal and gets its signals.

use std::io::{self, stdin};

use nix::sys::signal::{SigSet, Signal as NixSignal};
use rustix::process::{self, Pid};
use rustix::termios::{self, OptionalActions, Termios};

/// Makes `to` the group that reads from the terminal and gets its signals, if stdin is our terminal and `from` has it.
pub(super) fn hand_over(from: Pid, to: Pid) {
    if termios::tcgetpgrp(stdin()) == Ok(from) {
        // A terminal that went away meanwhile is nobody's.
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

/// Stops our own group as the terminal would have done had the command been in it, so that the shell gets its prompt.
/// Returns when we are continued; at once where nobody could continue us (an orphaned group), and then the command's
/// stop means nothing either.
pub(super) fn stop_as_well(command: Pid) -> io::Result<()> {
    hand_over(command, process::getpgrp());
    Ok(process::kill_current_process_group(process::Signal::TSTP)?)
}
