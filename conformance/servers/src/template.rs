//! Data folders that take long to make. This process makes each once, and then copies it.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use super::executable::Executable;
use super::folder::Folder;
use super::process::Process;
use super::waiting::last_lines;

/// The folders that were made, by the server's program. They are never dropped; their cleanup on exit removes them.
static MADE: Mutex<BTreeMap<PathBuf, Folder>> = Mutex::new(BTreeMap::new());

/// Makes `data`, which does not exist yet, as a copy of what `make` makes at such a path.
pub(super) fn copy(
    program: &Executable,
    data: &Path,
    make: impl FnOnce(&Path) -> io::Result<()>,
) -> io::Result<()> {
    // Locked while the folder is made, so that other threads wait for it.
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    if !made.contains_key(program.path()) {
        let folder = Folder::new_in(&program.temporary())?;
        program.give(folder.path())?;
        make(&original(&folder))?;
        made.insert(program.path().to_owned(), folder);
    }
    let folder = made.get(program.path()).expect("it is there, or was put there just now");
    // Copies owners, modes and times, because servers check them.
    run(Command::new("cp").arg("-a").arg(original(folder)).arg(data))
}

/// Runs a command that prepares a server, to its end. The error ends with the command's output.
pub(super) fn run(command: &mut Command) -> io::Result<()> {
    // A command that outlived a killed test would run on without end over a folder that is gone.
    let output = Process::output(command)?;
    if output.status.success() {
        return Ok(());
    }
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    let program = command.get_program().to_string_lossy();
    Err(io::Error::other(format!("{program}: {}: {}", output.status, last_lines(&said))))
}

fn original(folder: &Folder) -> PathBuf {
    folder.path().join("data")
}
