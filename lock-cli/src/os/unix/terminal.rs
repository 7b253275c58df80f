//! Who reads from the terminal and gets its signals.

use std::io::{self, stdin};

use nix::sys::signal::{SigSet, Signal as NixSignal};
use rustix::process::{self, Pid};
use rustix::termios;

/// Makes `to` the group that reads from the terminal and gets its signals, if stdin is our terminal and `from` has it.
pub(super) fn hand_over(from: Pid, to: Pid) {
    if termios::tcgetpgrp(stdin()) != Ok(from) {
        return;
    }
    // A group that doesn't have the terminal is stopped for this, unless it blocks the signal (tcsetpgrp(3)).
    let stops = SigSet::from(NixSignal::SIGTTOU);
    if stops.thread_block().is_err() {
        return;
    }
    // A terminal that went away meanwhile is nobody's.
    let _: rustix::io::Result<()> = termios::tcsetpgrp(stdin(), to);
    // What could be blocked can be unblocked.
    let _: nix::Result<()> = stops.thread_unblock();
}

/// Stops our own group as the terminal would have done had the command been in it, so that the shell gets its prompt.
/// Returns when we are continued; at once where nobody could continue us (an orphaned group), and then the command's
/// stop means nothing either.
pub(super) fn stop_as_well(command: Pid) -> io::Result<()> {
    hand_over(command, process::getpgrp());
    Ok(process::kill_current_process_group(process::Signal::TSTP)?)
}
