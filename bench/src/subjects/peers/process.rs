//! Drivers of locks in other languages: programs of `bench/peers`, which `cargo xtask peers` builds.

use std::path::{Path, PathBuf};

use tokio::process::Command;

use crate::Outcome;
use crate::drivers::FOLDER;
use crate::interop::Listing;
use crate::subjects::peers::Language;

/// The program of a peer that is not in Rust.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Program {
    listing: &'static Listing,
    /// How it is started in its folder.
    start: Start,
}

#[derive(Clone, Copy, Debug)]
enum Start {
    /// By itself.
    Executable(&'static str),
    /// By another program, which gets these arguments.
    By(&'static str, &'static [&'static str]),
}

impl Program {
    /// Returns nothing for a library in Rust, which this program links.
    pub(super) fn of(language: Language) -> Option<Program> {
        let (listing, start) = match language {
            Language::Rust => return None,
            Language::Go(listing) => (listing, Start::Executable("driver")),
            Language::Java(listing) => (
                listing,
                Start::By("java", &["-XX:+UseSerialGC", "-Xmx512m", "-cp", "classes:lib/*", "Main"]),
            ),
            Language::JavaScript(listing) => (listing, Start::By("node", &["driver.js"])),
        };
        Some(Program { listing, start })
    }

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
        let mut command = match self.start {
            Start::Executable(file) => Command::new(folder.join(file)),
            Start::By(program, arguments) => {
                let mut command = Command::new(program);
                command.args(arguments);
                command
            }
        };
        command.current_dir(folder);
        Ok(command)
    }

    /// Returns its folder: `peers/NAME` in the folder in which cargo has built this program (`target`), or in one
    /// above it.
    fn folder(self) -> Option<PathBuf> {
        let program = std::env::current_exe().ok()?;
        let mut folders = program.ancestors().map(|folder| folder.join(FOLDER).join(self.listing.name));
        folders.find(|folder| folder.is_dir())
    }
}
