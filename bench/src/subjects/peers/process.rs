//! Drivers of locks in other languages: programs of `bench/peers`, which `cargo xtask peers` builds.

use std::path::{Path, PathBuf};

use tokio::process::Command;

use crate::Outcome;
use crate::drivers::FOLDER;
use crate::interop::Listing;

/// The program of a peer that is not in Rust.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Program {
    pub(super) listing: &'static Listing,
    /// A program, and its arguments, in its folder.
    pub(super) start: &'static [&'static str],
}

/// The start of a program that was built in the folder itself.
pub(super) const EXECUTABLE: &[&str] = &["./driver"];
pub(super) const JAVA: &[&str] = &["java", "-XX:+UseSerialGC", "-Xmx512m", "-cp", "classes:lib/*", "Main"];
pub(super) const NODE: &[&str] = &["node", "driver.js"];

impl Program {
    /// Says why it can't run on this machine; `None` if it can.
    pub(super) fn lack(self) -> Option<String> {
        // Only there do the monotonic clocks of all these languages have the same origin.
        if !cfg!(target_os = "linux") {
            return Some("drivers in other languages run on Linux only".to_owned());
        }
        if let Some(program) = self.listing.missing(&std::env::var_os("PATH").unwrap_or_default()) {
            return Some(format!("there is no {program} on the PATH"));
        }
        let is_built =
            |folder: &Path| self.listing.driver.as_ref().is_some_and(|driver| driver.is_built(folder));
        match self.folder() {
            Some(folder) if is_built(&folder) => None,
            Some(_) => {
                Some("it was built from other sources; `cargo xtask peers` builds it again".to_owned())
            }
            None => Some("it is not built; `cargo xtask peers` builds it".to_owned()),
        }
    }

    /// Returns the command that starts it. Everything else it is told on its standard input.
    pub(crate) fn command(self) -> Outcome<Command> {
        let folder = self.folder().ok_or_else(|| format!("{} is not built", self.listing.name))?;
        let (program, arguments) = self.start.split_first().ok_or("a program without a name")?;
        let path = if self.start == EXECUTABLE { folder.join(program) } else { PathBuf::from(program) };
        let mut command = Command::new(path);
        command.args(arguments).current_dir(folder);
        Ok(command)
    }

    /// Returns `peers/NAME` in the folder in which cargo has built this program (`target`), or in one above it.
    fn folder(self) -> Option<PathBuf> {
        let program = std::env::current_exe().ok()?;
        let mut folders = program.ancestors().map(|folder| folder.join(FOLDER).join(self.listing.name));
        folders.find(|folder| folder.is_dir())
    }
}
