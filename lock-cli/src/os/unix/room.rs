//! The descriptors and threads that this process may have.

use std::fs::File;
use std::{io, thread};

use crate::exit::About;

/// Checks that descriptors are left for a runtime, which needs them all: without this check it would panic.
pub(crate) fn room_for_a_runtime() -> io::Result<()> {
    /// An epoll and its copy, an eventfd, a pair of sockets for signals and a copy of one, and two to read a file.
    const NEEDED: usize = 8;
    let nowhere = File::open("/dev/null").about("/dev/null")?;
    let room: io::Result<Vec<File>> = (1..NEEDED).map(|_| nowhere.try_clone()).collect();
    drop(room.about(format_args!("a limit (ulimit -n) leaves fewer than {NEEDED} files to open"))?);
    Ok(())
}

/// Checks that threads are left for a call that asks a server: without this check a runtime would panic.
pub(crate) fn room_for_threads() -> io::Result<()> {
    /// One that writes messages, and one that looks up a host's name.
    const NEEDED: usize = 2;
    match start(NEEDED) {
        Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
            Err(e).about(format_args!("a limit (ulimit -u) leaves fewer than {NEEDED} threads to start"))
        }
        // After `unshare --pid` no thread can be started, and most calls need none.
        _ => Ok(()),
    }
}

/// Starts so many threads, each by the one before, and waits for their end.
fn start(threads: usize) -> io::Result<()> {
    let Some(others) = threads.checked_sub(1) else { return Ok(()) };
    let outcome = thread::Builder::new().spawn(move || start(others))?.join();
    outcome.unwrap_or_else(|_| Err(io::Error::other("a thread has panicked")))
}
