//! The inner call that becomes the command. It does what has to be done in the child process before.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use nix::sys::signal::{SigSet, Signal as NixSignal};
use rustix::process::{self, Pid};

use super::number;
use super::signals::{full_files_may_end, outlive_full_files};
use super::terminal::LockGroup;
use crate::exit::{About, Exit, Failure};

/// The first argument of this inner call.
pub(super) const BECOME: &str = "__exec";

/// Returns the arguments before those of the command. `before` is the process group of `lock`, which may have the
/// terminal.
pub(super) fn call(parent: Pid, before: LockGroup) -> [String; 3] {
    [BECOME.to_owned(), parent.to_string(), before.to_string()]
}

/// Makes this process die with its parent (on Linux), takes the terminal if `lock` had it, and becomes the command.
/// Returns the reason if that fails.
///
/// On Linux the command ends with its watcher even if the watcher gets SIGKILL. The processes that the command has
/// started go on. So does a set-user-ID command, for which the kernel resets the setting (prctl(2), PR_SET_PDEATHSIG).
pub(super) fn become_command(mut args: impl Iterator<Item = OsString>) -> Failure {
    let parent = args.next().and_then(number);
    let before = args.next().and_then(LockGroup::parse);
    let (Some(parent), Some(before), Some(program)) = (parent, before, args.next()) else {
        return Failure::new(
            Exit::Usage,
            format!("{BECOME} is an internal call of lock; see lock run --help"),
        );
    };
    if let Err(e) = die_with(parent) {
        return Failure::from(e);
    }
    before.lend_terminal(process::getpgrp());
    full_files_may_end();
    let error = Command::new(&program).args(args).exec();
    // SIGPIPE and SIGXFSZ are now as the command should find them. But they must not end this process before its status
    // does: its stderr may have no reader, or be full.
    let _: nix::Result<()> = SigSet::from(NixSignal::SIGPIPE).thread_block();
    outlive_full_files();
    Failure::of_exec(&program, &error)
}

fn die_with(parent: Pid) -> io::Result<()> {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    process::set_parent_process_death_signal(Some(process::Signal::KILL))
        .about("the end with the watcher (prctl)")?;
    // The parent may have died before the kernel knew the setting.
    match process::getppid() == Some(parent) {
        true => Ok(()),
        false => Err(io::Error::other("the lock process that started this command has ended")),
    }
}
