//! A process that goes on in the background when the call that has started it has ended.

use std::fs::{self, File};
use std::io;
use std::os::fd::RawFd;

use crate::exit::About;

/// Leaves the session of the caller, so that its terminal sends no signal to this process, and closes every descriptor
/// that was inherited except stdin, stdout and stderr: a program that waits for the end of a pipe must not wait for
/// this process. Must be called before this process has opened anything.
pub(crate) fn detach() {
    // Fails if this process leads its group already, and so has no need of it.
    let _: rustix::io::Result<_> = rustix::process::setsid();
    let Ok(entries) = fs::read_dir("/dev/fd") else { return };
    let inherited: Vec<RawFd> =
        entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    for descriptor in inherited.into_iter().filter(|descriptor| *descriptor > 2) {
        // Fails for the descriptor by which the folder was read: it is closed already.
        let _: nix::Result<()> = nix::unistd::close(descriptor);
    }
}

/// Gives up stderr. What is written there from now on is lost.
pub(crate) fn close_stderr() -> io::Result<()> {
    let nowhere = File::options().write(true).open("/dev/null").about("/dev/null")?;
    rustix::stdio::dup2_stderr(nowhere).about("stderr")
}

/// Gives up stdout and stderr, so that no reader waits for this process.
pub(super) fn close_outputs() {
    // Fails where there is no /dev/null. Then a reader waits.
    if let Ok(nowhere) = File::options().write(true).open("/dev/null") {
        let _: rustix::io::Result<()> = rustix::stdio::dup2_stdout(&nowhere);
        let _: rustix::io::Result<()> = rustix::stdio::dup2_stderr(&nowhere);
    }
}
