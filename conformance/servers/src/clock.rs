//! Wall clocks that cases can set. They are made with a small library, which is compiled when it is first needed and
//! preloaded into a server.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use lock_conformance::Step;

use super::catalogue::CLOCKS;
use super::executable::Executable;
use super::folder::Folder;
use super::requirement::Requirement;

const SOURCE: &str = include_str!("clock/shim.c");
/// The environment variable from which the library gets the path of the offset. The library has the same name in it.
const OFFSET: &str = "LOCK_TEST_CLOCK";

/// Checks whether servers that are started here can have a clock that can be set.
///
/// # Errors
///
/// The reason, if they can not.
///
/// # Panics
///
/// If the environment requires such clocks: then their absence is no reason for *not run*.
pub fn can_be_set() -> Result<(), String> {
    let Err(why) = library() else { return Ok(()) };
    let absence =
        Requirement::from_env().map_or_else(|failure| failure, |required| required.absent(CLOCKS, &why));
    Err(absence.reason())
}

/// The wall clock of one server and of its children.
#[derive(Debug)]
pub(super) struct WallClock {
    offset: File,
    /// The content of the file, in nanoseconds.
    nanos: Mutex<i64>,
    /// It has the library and the file, where the server can read them.
    folder: Folder,
}

impl WallClock {
    /// Makes a clock that shows the machine's time until it is set.
    pub(super) fn new(server: &Executable) -> io::Result<WallClock> {
        let compiled = library().map_err(|why| io::Error::new(io::ErrorKind::Unsupported, why))?;
        let folder = Folder::new_in(&server.temporary())?;
        // Readable for all: the server may belong to another user, and there is no secret in it.
        #[cfg(unix)]
        fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
        fs::copy(compiled, library_in(&folder))?;
        let mut offset = OpenOptions::new().write(true).create_new(true).open(path(&folder))?;
        offset.write_all(&0_i64.to_ne_bytes())?;
        Ok(WallClock { offset, nanos: Mutex::default(), folder })
    }

    /// Gives this clock to the server that `command` starts.
    pub(super) fn give_to(&self, command: &mut Command) {
        command.env("LD_PRELOAD", library_in(&self.folder)).env(OFFSET, path(&self.folder));
    }

    /// Sets it, relative to the time that it shows.
    pub(super) fn step(&self, step: Step) -> io::Result<()> {
        let mut nanos = self.nanos.lock().unwrap_or_else(PoisonError::into_inner);
        let by = |by: Duration| i64::try_from(by.as_nanos()).unwrap_or(i64::MAX);
        let set = match step {
            Step::Forward(ahead) => nanos.saturating_add(by(ahead)),
            Step::Back(back) => nanos.saturating_sub(by(back)),
        };
        write_at_start(&self.offset, &set.to_ne_bytes())?;
        *nanos = set;
        Ok(())
    }
}

fn path(folder: &Folder) -> PathBuf {
    folder.path().join("offset")
}

/// Writes in one write, so that a process that has mapped the file never sees a part of it.
#[cfg(unix)]
fn write_at_start(file: &File, bytes: &[u8]) -> io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, 0)
}

#[cfg(not(unix))]
fn write_at_start(_: &File, _: &[u8]) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Returns the path of the compiled library, one for this process.
fn library() -> Result<PathBuf, String> {
    // In a static, which is never dropped, so the folder's cleanup on exit removes it.
    static LIBRARY: OnceLock<Result<Folder, String>> = OnceLock::new();
    LIBRARY.get_or_init(compile).as_ref().map(library_in).map_err(String::clone)
}

fn library_in(folder: &Folder) -> PathBuf {
    folder.path().join("shim.so")
}

/// Returns a folder with the library.
fn compile() -> Result<Folder, String> {
    if cfg!(not(target_os = "linux")) {
        return Err("a server's clock can be set on Linux only".to_owned());
    }
    let failed = |what: &str| format!("the library that sets a server's clock could not be made: {what}");
    let folder = Folder::new().map_err(|e| failed(&e.to_string()))?;
    let source = folder.path().join("shim.c");
    fs::write(&source, SOURCE).map_err(|e| failed(&e.to_string()))?;
    let mut compiler = Command::new("cc");
    compiler.args(["-O1", "-shared", "-fPIC", "-o"]).arg(library_in(&folder)).arg(&source);
    let done = compiler.output().map_err(|e| failed(&format!("no C compiler (cc): {e}")))?;
    if !done.status.success() {
        return Err(failed(&format!("cc: {}", String::from_utf8_lossy(&done.stderr))));
    }
    Ok(folder)
}
