//! What PostgreSQL's errors mean: may the statement have been carried out, will it pass, what is to be done.

use std::io;

use lock_core::{Done, Error};
use sqlx::Error as SqlxError;
use sqlx::postgres::{PgDatabaseError, PgSeverity};

use crate::server::Trouble;

/// While connecting: no lock was touched.
pub(crate) fn connecting(error: SqlxError) -> Error {
    let refused = |why: String| Error::rejected(why);
    let not_now = |why: String| Error::unavailable(Done::No, why);
    let found = match (&error, code(&error)) {
        (_, Some(code)) if code.starts_with("28") => refused(format!("the server refuses us: {error}")),
        (_, Some("3D000")) => refused(format!("{error}; create it, or name another in the URL")),
        (_, Some("42501")) => refused(format!("this user may not: {error}")),
        (_, Some("53300")) => not_now(format!("the server has no connection left: {error}")),
        (_, Some(_)) => not_now(format!("the server refused the connection: {error}")),
        (SqlxError::Configuration(_), _) => Error::invalid(error.to_string()),
        // What rustls doesn't like of the other side arrives as data that is wrong.
        (SqlxError::Io(e), _) if e.kind() == io::ErrorKind::InvalidData => refused(unencrypted(&error)),
        (SqlxError::Tls(_), _) => refused(unencrypted(&error)),
        _ => not_now(format!("the server can't be reached: {error}")),
    };
    found.with_source(error)
}

/// While a statement runs.
pub(crate) fn asking(error: SqlxError) -> Trouble {
    let Some(said) = error.try_downcast_ref() else {
        let message = format!("the connection broke: {error}");
        return Trouble::Broken(Error::unavailable(Done::Unknown, message).with_source(error));
    };
    let (code, text) = (said.code().to_owned(), said.message().to_owned());
    // The server ends an erring transaction by undoing it. Who ends the connection with it, or speaks for the server,
    // says nothing of what was done.
    let undone = said.severity() == PgSeverity::Error && !code.starts_with("08");
    if !undone {
        let message = format!("the server ended the connection: {text}");
        return Trouble::Broken(Error::unavailable(Done::Unknown, message).with_source(error));
    }
    let not_now = |why: &str| Error::unavailable(Done::No, format!("{why}: {text}"));
    let never = |why: &str| Error::rejected(format!("{why}: {text}"));
    match code.as_str() {
        // Serialization failure, deadlock, lock not available.
        "40001" | "40P01" | "55P03" => {
            Trouble::Undone(not_now("others kept the lock's row for too long").with_source(error))
        }
        "57014" => {
            Trouble::Refused(not_now("the server took too long, or was told to stop").with_source(error))
        }
        "25006" => Trouble::Broken(read_only(&text).with_source(error)),
        // The session is not what we left it as: something in between gives us others' sessions.
        "25P02" | "26000" | "42P05" | "0A000" => {
            Trouble::Broken(not_now("the session is not what it was").with_source(error))
        }
        "42P01" => Trouble::Broken(
            not_now("the table of locks is gone; the next connection makes it anew, if this user may")
                .with_source(error),
        ),
        "42703" | "42804" | "42883" | "42P10" => Trouble::Refused(
            never("the table of locks is not what it was; see `lock check --on URL`").with_source(error),
        ),
        "42501" => Trouble::Refused(
            never("this user may not; it takes SELECT, INSERT, UPDATE and DELETE on the table")
                .with_source(error),
        ),
        code if code.starts_with("22") || code.starts_with("23") => {
            Trouble::Refused(never("the lock's row holds what no lock client has written").with_source(error))
        }
        code if code.starts_with("53") => {
            Trouble::Refused(not_now("the server is short of something").with_source(error))
        }
        _ => Trouble::Refused(not_now("the server refused the statement").with_source(error)),
    }
}

/// Where an answer is not what the statement asks for.
pub(crate) fn reading(error: SqlxError) -> Error {
    Error::rejected(format!("the server's answer is not what was asked for: {error}")).with_source(error)
}

/// Locks are written, and a standby takes no writes. It may be about to be promoted, or the address to move.
pub(crate) fn standby() -> Error {
    Error::unavailable(Done::No, "the server is a standby, which takes no writes; name the primary")
}

/// Whether whoever answered doesn't take a parameter of the greeting.
pub(crate) fn is_unknown_parameter(error: &SqlxError) -> bool {
    code(error) == Some("08P01") && error.to_string().contains("parameter")
}

/// The server's code for what went wrong.
fn code(error: &SqlxError) -> Option<&str> {
    error.try_downcast_ref().map(PgDatabaseError::code)
}

fn read_only(text: &str) -> Error {
    let why = "the server takes no writes: it is a standby by now, or set to read-only";
    Error::unavailable(Done::No, format!("{why}: {text}"))
}

fn unencrypted(error: &SqlxError) -> String {
    format!(
        "no encrypted connection: {error}; the certificate has to come from one of ?ca=, and to name the host"
    )
}

/// What the server said itself.
trait Said {
    fn try_downcast_ref(&self) -> Option<&PgDatabaseError>;
}

impl Said for SqlxError {
    fn try_downcast_ref(&self) -> Option<&PgDatabaseError> {
        self.as_database_error()?.try_downcast_ref()
    }
}
