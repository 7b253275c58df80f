//! Checks that the log at the path is the one that its index describes.
//!
//! The index exists for as long as a process has it open. If the log alone was removed, SQLite uses a new, empty log as
//! the one that the index describes. Then reads fail, and what is written behind the gap is lost with the index.

use std::fs;
use std::io::{self, Read};

use lock_core::{Effect, Error};
use sqlx::sqlite::SqliteConnection;
use sqlx::{Executor, Row};

use super::errors::{self, Obstacle};
use super::file::File;

/// Returns whether another connection was in the way, how many frames the index knows, and how many were moved. From a
/// log without frames it moves none. The frames of a removed log can't be read, so it moves none of them either.
const FRAMES: &str = "PRAGMA main.wal_checkpoint(PASSIVE)";

/// Checks that the log has begun if the index has frames. `Unavailable` if the index has frames and the log has none;
/// `Obstacle::Busy` if that can't be found out yet.
pub(crate) async fn must_be_of_its_index(
    connection: &mut SqliteConnection,
    file: &File,
) -> Result<(), Obstacle> {
    if has_begun(file) {
        return Ok(());
    }
    let frames: i64 = match connection.fetch_one(FRAMES).await {
        Ok(row) => row.try_get(1)?,
        Err(e) if errors::is_short_read(&e) => i64::MAX,
        Err(e) => return Err(e.into()),
    };
    match frames {
        0 => Ok(()),
        // Another connection has begun the log by now, and its frames are in both.
        _ if has_begun(file) => Ok(()),
        ..0 => Err(Obstacle::Busy),
        _ => Err(Obstacle::Found(removed(file))),
    }
}

/// Returns why a page that is in the log can't be read, if the log has not begun.
pub(crate) fn obstacle(file: &File) -> Option<Error> {
    (!has_begun(file)).then(|| removed(file))
}

fn removed(file: &File) -> Error {
    let message = format!(
        "{} was removed or emptied, and a process has its index open: end the idle processes that use the file, or \
         remove {} too",
        file.log().display(),
        file.index().display()
    );
    Error::unavailable(Effect::NotApplied, message)
}

/// Returns whether the log has a header, which is written with its first frame
/// (<https://www.sqlite.org/walformat.html>). SQLite holds no locks on the log, so it may be opened here.
fn has_begun(file: &File) -> bool {
    let first = || -> io::Result<u32> {
        let mut magic = [0; 4];
        fs::File::open(file.log())?.read_exact(&mut magic)?;
        Ok(u32::from_be_bytes(magic))
    };
    matches!(first(), Ok(MAGIC | MAGIC_OF_BIG_ENDIAN))
}

const MAGIC: u32 = 0x377f_0682;
const MAGIC_OF_BIG_ENDIAN: u32 = 0x377f_0683;
