//! The machine that a report was made on.

use std::fs;
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};

/// A machine, and what was built on it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Machine {
    #[serde(flatten)]
    pub(crate) fixed: Fixed,
    /// The commit that was checked out where this program was built, with `-dirty` if files have changed since.
    pub(crate) revision: Option<String>,
    /// The system's average of the last minute before the run.
    pub(crate) load: Option<f64>,
}

/// A run is continued only where all of this is the same: its figures could not be compared otherwise.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Fixed {
    pub(crate) os: String,
    pub(crate) arch: String,
    pub(crate) kernel: Option<String>,
    pub(crate) cpu: Option<String>,
    pub(crate) cpus: usize,
    pub(crate) rustc: String,
    pub(crate) version: String,
    /// `debug` or `release`.
    pub(crate) build: String,
}

impl Machine {
    /// Describes this machine. What the system doesn't tell is left out.
    pub(crate) fn this() -> Machine {
        let read = |path: &str| fs::read_to_string(path).ok();
        let fixed = Fixed {
            os: std::env::consts::OS.to_owned(),
            arch: std::env::consts::ARCH.to_owned(),
            kernel: read("/proc/sys/kernel/osrelease").map(|kernel| kernel.trim().to_owned()),
            cpu: read("/proc/cpuinfo").and_then(|text| value(&text, "model name")),
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            rustc: env!("LOCK_BENCH_RUSTC").to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            build: if cfg!(debug_assertions) { "debug" } else { "release" }.to_owned(),
        };
        let load = read("/proc/loadavg").and_then(|text| text.split(' ').next()?.parse().ok());
        Machine { fixed, revision: revision(), load }
    }
}

/// Returns the revision of the sources; `None` if they are no longer there, or in no repository.
fn revision() -> Option<String> {
    let arguments =
        ["-C", env!("CARGO_MANIFEST_DIR"), "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"];
    let output =
        Command::new("git").args(arguments).stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (output.status.success() && !text.is_empty()).then_some(text)
}

/// Returns the value of the first line `name : value`.
fn value(text: &str, name: &str) -> Option<String> {
    let lines = text.lines().filter_map(|line| line.split_once(':'));
    lines.into_iter().find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_systems_files_are_read() {
        assert_eq!(
            value("processor\t: 0\nmodel name\t: A CPU: 2 GHz\n", "model name").as_deref(),
            Some("A CPU: 2 GHz")
        );
        assert_eq!(value("", "model name"), None);
    }
}
