//! A number that nothing but a lock protects: two at once make it less than it should be.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use tempfile::NamedTempFile;

/// Between reading and writing, so that two at once are seen.
const PAUSE: Duration = Duration::from_millis(1);

/// A number in a file, zero at first. It is always as many digits, so that who writes can write over what was there: at
/// no time is it cut off.
#[derive(Debug)]
pub struct Counter {
    file: NamedTempFile,
}

impl Counter {
    /// A fresh one.
    pub fn new() -> io::Result<Counter> {
        let file = NamedTempFile::with_prefix("lock-counter-")?;
        fs::write(file.path(), digits(0))?;
        Ok(Counter { file })
    }

    /// Its file.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// What it says.
    pub fn number(&self) -> io::Result<u64> {
        number(self.path())
    }
}

/// Adds one, as two steps that others can come between.
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
