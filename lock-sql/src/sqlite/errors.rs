//! Classifies SQLite's errors: whether the statement may have been carried out, whether the error passes by itself, and
//! what the user should do.

use lock_core::{Effect, Error};
use sqlx::Error as SqlxError;

use crate::server_message::ServerMessage;

/// Converts an error of connecting: no lock was touched.
pub(crate) fn connecting(error: SqlxError) -> Error {
    match code(&error) {
        Some(code) => classify_code(code, error, Effect::NotApplied),
        None if matches!(error, SqlxError::Configuration(_)) => {
            Error::invalid(ServerMessage(&error).to_string()).with_source(error)
        }
        None => Error::unavailable(
            Effect::NotApplied,
            format!("the file can't be opened: {}", ServerMessage(&error)),
        )
        .with_source(error),
    }
}

/// Why a file could not be opened: SQLite failed, or a check of ours failed.
pub(crate) enum Obstacle {
    Sqlite(SqlxError),
    Found(Error),
    /// Another connection was in the way.
    Busy,
}

impl Obstacle {
    /// Returns whether it passes by itself: another process was in the way.
    pub(crate) fn is_busy(&self) -> bool {
        match self {
            Obstacle::Sqlite(e) => is_busy(e),
            Obstacle::Busy => true,
            Obstacle::Found(_) => false,
        }
    }
}

impl From<SqlxError> for Obstacle {
    fn from(error: SqlxError) -> Obstacle {
        Obstacle::Sqlite(error)
    }
}

impl From<Error> for Obstacle {
    fn from(error: Error) -> Obstacle {
        Obstacle::Found(error)
    }
}

/// Converts the error of a running statement.
pub(crate) fn asking(error: SqlxError) -> Error {
    match code(&error) {
        Some(code) => classify_code(code, error, Effect::Unknown),
        None => {
            let message = format!("the connection to the file broke: {}", ServerMessage(&error));
            Error::unavailable(Effect::Unknown, message).with_source(error)
        }
    }
}

/// Returns whether another process was in the way.
pub(crate) fn is_busy(error: &SqlxError) -> bool {
    matches!(code(error).map(primary), Some(BUSY | LOCKED | PROTOCOL))
}

/// Returns whether the file could not be opened.
pub(crate) fn is_cant_open(error: &SqlxError) -> bool {
    code(error).map(primary) == Some(CANTOPEN)
}

/// Returns whether a file ended before the part that was to be read.
pub(crate) fn is_short_read(error: &SqlxError) -> bool {
    code(error) == Some(IOERR_SHORT_READ)
}

/// Returns whether the connection that gave this error may be used again.
pub(crate) fn spares_connection(error: &SqlxError) -> bool {
    matches!(code(error).map(primary), Some(BUSY | LOCKED | NOMEM | FULL | PROTOCOL | CONSTRAINT))
}

const ERROR: i32 = 1;
const PERM: i32 = 3;
const BUSY: i32 = 5;
const LOCKED: i32 = 6;
const NOMEM: i32 = 7;
const READONLY: i32 = 8;
const READONLY_DBMOVED: i32 = READONLY | (4 << 8);
const IOERR_SHORT_READ: i32 = 10 | (2 << 8);
const IOERR_SHMSIZE: i32 = 10 | (19 << 8);
const CORRUPT: i32 = 11;
const FULL: i32 = 13;
const CANTOPEN: i32 = 14;
const PROTOCOL: i32 = 15;
const SCHEMA: i32 = 17;
const CONSTRAINT: i32 = 19;
const CONSTRAINT_COMMITHOOK: i32 = CONSTRAINT | (2 << 8);
const AUTH: i32 = 23;
const NOTADB: i32 = 26;

/// SQLite's extended result code.
fn code(error: &SqlxError) -> Option<i32> {
    error.as_database_error()?.code()?.parse().ok()
}

fn primary(code: i32) -> i32 {
    code & 0xFF
}

fn classify_code(code: i32, error: SqlxError, otherwise: Effect) -> Error {
    let said = ServerMessage(&error);
    let in_the_way = |why: &str| Error::unavailable(Effect::NotApplied, format!("{why}: {said}"));
    let not_now = |why: &str| in_the_way(why).as_refusal();
    let never = |why: &str| Error::rejected(format!("{why}: {said}"));
    let error_of = match primary(code) {
        _ if code == IOERR_SHMSIZE => not_now("the disk has no room for the file's shared memory"),
        BUSY | LOCKED | PROTOCOL => in_the_way("another process kept the file locked for too long"),
        NOMEM => not_now("there is no memory left"),
        FULL => not_now("the disk is full"),
        SCHEMA => in_the_way("the tables were altered meanwhile"),
        CANTOPEN => not_now("the file can't be opened"),
        READONLY if code == READONLY_DBMOVED => not_now("the file was moved or deleted"),
        READONLY => {
            never("the file is read-only for this user; SQLite needs to write to it and to its folder")
        }
        PERM | AUTH => never("access is denied"),
        CORRUPT => never("the file is damaged; restore it, or delete it while no client holds a lock in it"),
        NOTADB => never("this is not a SQLite database (or an encrypted one); name another file"),
        CONSTRAINT if code == CONSTRAINT_COMMITHOOK => {
            in_the_way("the statement came too late, and was undone")
        }
        CONSTRAINT => never("the lock's row holds a value that no lock client has written"),
        ERROR => never("the table of locks was altered; see `check`"),
        _ => Error::unavailable(otherwise, format!("SQLite failed: {said}")),
    };
    error_of.with_source(error)
}
