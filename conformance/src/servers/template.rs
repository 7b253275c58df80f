//! Data folders that take long to make: made once by this process, then copied.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use super::executable::Executable;
use super::folder::Folder;
use super::process::Process;

/// The folders that were made, by the server's program. They are never dropped: last wills remove them.
static MADE: Mutex<BTreeMap<PathBuf, Folder>> = Mutex::new(BTreeMap::new());

/// Makes `data`, which is not there yet, what `make` makes of such a path.
pub(super) fn copy(
    program: &Executable,
    data: &Path,
    make: impl FnOnce(&Path) -> io::Result<()>,
) -> io::Result<()> {
    // Locked while it is made: others wait for it.
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    if !made.contains_key(program.path()) {
        let folder = Folder::new_in(&program.temporary())?;
        program.give(folder.path())?;
        make(&original(&folder))?;
        made.insert(program.path().to_owned(), folder);
    }
    let folder = made.get(program.path()).expect("it is there, or was put there just now");
    // With owners, modes and times, as servers are particular about them.
    run(Command::new("cp").arg("-a").arg(original(folder)).arg(data))
}

/// Runs a command that prepares a server, to its end; the error ends with what it said.
pub(super) fn run(command: &mut Command) -> io::Result<()> {
    // One that outlived a killed test would compute for ever over a folder that is gone.
    let output = Process::output(command)?;
    if output.status.success() {
        return Ok(());
    }
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    let program = command.get_program().to_string_lossy();
    Err(io::Error::other(format!("{program}: {}: {}", output.status, super::owned::last_lines(&said))))
}

fn original(folder: &Folder) -> PathBuf {
    folder.path().join("data")
}
