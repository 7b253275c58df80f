//! The call that becomes the command: it does in the child what has to be done there.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::{self, Pid};

use super::{number, terminal};
use crate::exit::{Exit, Failure};

/// Its first argument.
pub(super) const BECOME: &str = "__exec";

/// The arguments before those of the command. The group `before` may have the terminal.
pub(super) fn call(parent: Pid, before: Pid) -> [String; 3] {
    [BECOME.to_owned(), parent.to_string(), before.to_string()]
}

/// Dies with its parent from now on (on Linux), takes the terminal if `lock` had it, and becomes the command. Answers why
/// it could not.
///
/// On Linux the command ends with its watcher even if that gets SIGKILL. What it has started goes on, and so does a
/// set-user-ID command, for which the kernel forgets the wish (prctl(2), PR_SET_PDEATHSIG).
pub(super) fn become_command(mut args: impl Iterator<Item = OsString>) -> Failure {
    let (Some(parent), Some(before), Some(program)) = (number(args.next()), number(args.next()), args.next())
    else {
        return Failure::new(Exit::Usage, format!("{BECOME} is for lock itself; see lock run --help"));
    };
    if let Err(e) = die_with(parent) {
        return Failure::from(e);
    }
    terminal::hand_over(before, process::getpgrp());
    let error = Command::new(&program).args(args).exec();
    Failure::of_exec(&program, &error)
}

fn die_with(parent: Pid) -> io::Result<()> {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    process::set_parent_process_death_signal(Some(process::Signal::KILL))?;
    // It may have died before the wish was known to the kernel.
    match process::getppid() == Some(parent) {
        true => Ok(()),
        false => Err(io::Error::other("the lock that started this has ended")),
    }
}
