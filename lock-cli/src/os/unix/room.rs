//! The descriptors that this process may open.

use std::fs::File;
use std::io;

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
