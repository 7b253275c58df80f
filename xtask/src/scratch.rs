//! The folder of test programs, for the data of their servers above all: in memory, where the machine has a
//! folder for that. The disk of a shared machine may stand still for a second, and then tests are late that
//! are not about disks. A run in full size uses the disk.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The memory of the machine as a folder, on Linux.
const MEMORY: &str = "/dev/shm";
/// A run of all tests uses less than half of that at any time.
const LEAST: u64 = 4 << 30;
const PREFIX: &str = "lock-test-";

/// A folder in memory, which is removed with this value; or none, and the programs use the folder for temporary files.
#[derive(Debug)]
pub(crate) struct Scratch(Option<PathBuf>);

impl Scratch {
    /// Makes the folder, if there is enough memory and the environment names no folder for temporary files.
    pub(crate) fn in_memory() -> Scratch {
        let is_chosen = std::env::var_os("TMPDIR").is_some_and(|folder| !folder.is_empty());
        Scratch((!is_chosen).then(|| make(Path::new(MEMORY))).flatten())
    }

    /// The folder for temporary files on the disk.
    pub(crate) fn on_disk() -> Scratch {
        Scratch(None)
    }

    /// Makes a program use the folder.
    pub(crate) fn lend(&self, command: &mut Command) {
        if let Some(folder) = &self.0 {
            command.env("TMPDIR", folder);
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Some(folder) = &self.0 {
            // What cannot be removed now is removed by the next run.
            let _ = fs::remove_dir_all(folder);
        }
    }
}

fn make(memory: &Path) -> Option<PathBuf> {
    remove_abandoned(memory).ok()?;
    (free(memory)? >= LEAST).then_some(())?;
    let folder = memory.join(format!("{PREFIX}{}", std::process::id()));
    fs::create_dir(&folder).ok()?;
    Some(folder)
}

/// Removes what runs have left that were killed.
fn remove_abandoned(memory: &Path) -> io::Result<()> {
    for entry in fs::read_dir(memory)? {
        let entry = entry?;
        let name = entry.file_name();
        let process = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        if process.is_some_and(|process| !Path::new("/proc").join(process).exists()) {
            // Another user's folder stays.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
    Ok(())
}

/// Returns how many bytes are free in the file system of this folder.
fn free(folder: &Path) -> Option<u64> {
    let output = Command::new("df").arg("-Pk").arg(folder).output().ok()?;
    available(&String::from_utf8_lossy(&output.stdout))
}

/// Reads the fourth column of what `df -Pk` prints, in units of 1024 bytes.
fn available(said: &str) -> Option<u64> {
    Some(said.lines().nth(1)?.split_whitespace().nth(3)?.parse::<u64>().ok()? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_free_space_is_the_fourth_column() {
        let said = "Filesystem 1024-blocks Used Available Capacity Mounted on\ntmpfs 25165824 0 25000000 0% /dev/shm\n";
        assert_eq!(available(said), Some(25_000_000 * 1024));
        assert_eq!(available("df: /dev/shm: No such file or directory\n"), None);
    }
}
