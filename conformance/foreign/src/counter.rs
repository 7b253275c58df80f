//! A number that nothing but a lock protects. If two clients change it at once, it becomes less than it should be.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use tempfile::NamedTempFile;

/// The pause between reading and writing, so that a change by two clients at once is seen.
const PAUSE: Duration = Duration::from_millis(1);

/// A number in a file, zero at first. It always has the same number of digits, so that a writer can overwrite it. The
/// file is never truncated.
#[derive(Debug)]
pub(super) struct Counter {
    file: NamedTempFile,
}

impl Counter {
    /// Makes a new counter.
    ///
    /// # Errors
    ///
    /// If the file can't be written.
    pub(super) fn new() -> io::Result<Counter> {
        let file = NamedTempFile::with_prefix("lock-counter-")?;
        fs::write(file.path(), digits(0))?;
        Ok(Counter { file })
    }

    /// Returns the path of its file.
    pub(super) fn path(&self) -> &Path {
        self.file.path()
    }

    /// Returns the number.
    ///
    /// # Errors
    ///
    /// If the file can't be read, or has no number.
    pub(super) fn number(&self) -> io::Result<u64> {
        number(self.path())
    }
}

/// Adds one, in two steps that other clients can come between.
pub(super) async fn increment(file: &Path) -> io::Result<()> {
    let number = number(file)?;
    tokio::time::sleep(PAUSE).await;
    OpenOptions::new().write(true).open(file)?.write_all(digits(number + 1).as_bytes())
}

fn digits(number: u64) -> String {
    format!("{number:10}\n")
}

fn number(file: &Path) -> io::Result<u64> {
    fs::read_to_string(file)?.trim().parse().map_err(io::Error::other)
}
