//! The call that becomes the command: it does in the child what has to be done there.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use nix::sys::signal::{SigSet, Signal as NixSignal};
use rustix::process::{self, Pid};

use super::number;
use super::signals::{full_files_may_end, outlive_full_files};
use super::terminal::LockGroup;
use crate::exit::{Exit, Failure};

/// Its first argument.
pub(super) const BECOME: &str = "__exec";

/// The arguments before those of the command. `before` is the group of `lock`, which may have the terminal.
pub(super) fn call(parent: Pid, before: LockGroup) -> [String; 3] {
    [BECOME.to_owned(), parent.to_string(), before.to_string()]
}

/// Dies with its parent from now on (on Linux), takes the terminal if `lock` had it, and becomes the command. Answers why
/// it could not.
///
/// On Linux the command ends with its watcher even if that gets SIGKILL. What it has started goes on, and so does a
/// set-user-ID command, for which the kernel forgets the wish (prctl(2), PR_SET_PDEATHSIG).
pub(super) fn become_command(mut args: impl Iterator<Item = OsString>) -> Failure {
    let parent = args.next().and_then(number);
    let before = args.next().and_then(LockGroup::parse);
    let (Some(parent), Some(before), Some(program)) = (parent, before, args.next()) else {
        return Failure::new(Exit::Usage, format!("{BECOME} is for lock itself; see lock run --help"));
    };
    if let Err(e) = die_with(parent) {
        return Failure::from(e);
    }
    before.lend_terminal(process::getpgrp());
    full_files_may_end();
    let error = Command::new(&program).args(args).exec();
    // These two are now as the command was to find them, and a stderr without a reader, or a full one, would end us before
    // our status does.
    let _: nix::Result<()> = SigSet::from(NixSignal::SIGPIPE).thread_block();
    outlive_full_files();
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
