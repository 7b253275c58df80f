//! Classifies the server's errors: whether the statement may have been carried out, whether the error passes by itself,
//! and what the user should do.

use std::error::Error as _;

use lock_core::toolkit::certificate_advice;
use lock_core::{Effect, Error};
use sqlx::Error as SqlxError;
use sqlx::mysql::MySqlDatabaseError;

use crate::server::{Trouble, is_misread};
use crate::server_message::ServerMessage;

/// The number of a server's error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Code(u16);

impl Code {
    pub(super) const DUPLICATE: Code = Code(1062);
    pub(super) const NO_TABLE: Code = Code(1146);
}

/// Returns the code of the server's error that one of our errors has as its source.
pub(super) fn code_of(error: &Error) -> Option<Code> {
    number(error.source()?.downcast_ref()?).map(Code)
}

/// Returns whether the server refused because this user lacks a right.
pub(super) fn is_refusal(error: &Error) -> bool {
    matches!(code_of(error), Some(Code(1044 | 1142 | 1143 | 1227 | 1370)))
}

/// Returns whether other transactions have locked rows that the statement may not wait for.
pub(super) fn is_locked(error: &SqlxError) -> bool {
    matches!(number(error), Some(1205 | 3572))
}

/// Converts an error of connecting: no lock was touched.
pub(super) fn connecting(error: SqlxError) -> Error {
    if let Some(number) = number(&error) {
        return classify_number(number, error, Effect::NotApplied);
    }
    match &error {
        SqlxError::Configuration(why) => Error::invalid(format!("{why}")).with_source(error),
        SqlxError::Tls(why) if why.to_string().contains("RSA") => {
            let message = "the server takes this user's password only over TLS or a Unix socket, and offers no TLS (or \
                this build has none: its feature `tls` is off); use one of these, or identify the user by \
                mysql_native_password";
            Error::rejected(message).with_source(error)
        }
        SqlxError::Tls(_) => unencrypted(error),
        SqlxError::Io(why) if why.kind() == std::io::ErrorKind::InvalidData => unencrypted(error),
        _ if is_misread(&error) => reading(error),
        _ => Error::unavailable(
            Effect::NotApplied,
            format!("the server can't be reached: {}", ServerMessage(&error)),
        )
        .with_source(error),
    }
}

fn unencrypted(error: SqlxError) -> Error {
    let said = ServerMessage(&error).to_string();
    let advice = certificate_advice(&said);
    let message =
        format!("TLS could not be agreed on: {said}{advice}; see the URL's ca, cert, key and ssl-mode");
    Error::rejected(message).with_source(error)
}

/// Converts an error of reading an answer that is not what the statement asks for. The same statement would get the
/// same answer again.
pub(super) fn reading(error: SqlxError) -> Error {
    Error::rejected(format!("the server's answer is not what was asked for: {}", ServerMessage(&error)))
        .with_source(error)
}

/// Converts the error of a running statement.
pub(super) fn asking(error: SqlxError) -> Error {
    match number(&error) {
        Some(number) => classify_number(number, error, Effect::Unknown),
        None => {
            let message =
                format!("the connection broke before the server's answer came: {}", ServerMessage(&error));
            Error::unavailable(Effect::Unknown, message).with_source(error)
        }
    }
}

/// Decides what the error means for the statement and for its connection.
pub(super) fn trouble(error: SqlxError) -> Trouble {
    match number(&error).map(Meaning::of) {
        Some(Meaning::Blocked) => Trouble::Undone(asking(error)),
        Some(Meaning::WrongServer(_) | Meaning::Disconnected) | None => Trouble::Broken(asking(error)),
        Some(_) => Trouble::Refused(asking(error)),
    }
}

/// The meaning of a server's error number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meaning {
    /// Other transactions were in the way, and the server undid the statement.
    Blocked,
    /// The server can't serve the client. Another server may be behind its address by now.
    WrongServer(&'static str),
    /// The server shuts down, or has ended the connection. It may have carried out the statement or not.
    Disconnected,
    /// Not done. The cause passes by itself.
    Transient(&'static str),
    /// Not done. The user or an administrator has to change something.
    Permanent(&'static str),
    /// An error whose meaning is not known here.
    Other,
}

impl Meaning {
    fn of(number: u16) -> Meaning {
        use Meaning::{Blocked, Disconnected, Other, Permanent, Transient, WrongServer};
        match number {
            // A lock wait that timed out, a row that is locked, a deadlock, a row changed since it was read.
            1205 | 3572 | 1213 | 1020 => Blocked,
            1290 | 1792 | 1836 => {
                WrongServer("the server is read-only: a replica, or a primary that steps down")
            }
            1047 => WrongServer("this node of the cluster is not ready"),
            1053 | 1077 | 1079 | 1152 | 1158..=1161 | 1927 | 3169 | 4031 => Disconnected,
            1040 | 1203 | 1226 => Transient("the server takes no more connections or statements"),
            1021 | 1114 => Transient("the server's disk is full"),
            1037 | 1038 | 1041 => Transient("the server has no memory left"),
            1129 => Transient("the server has blocked this host after many errors (FLUSH HOSTS)"),
            1045 | 1130 | 1251 | 1524 | 1698 | 1820 | 1862 | 3118 | 3955 | 4151 => Permanent(
                "the server refused the user or the password; give both in the URL, \
                 mysql://user:password@host/database",
            ),
            1044 | 1142 | 1143 | 1227 | 1370 => Permanent(
                "this user may not do that; locks need SELECT, INSERT, UPDATE and DELETE on their table",
            ),
            1046 => {
                Permanent("the URL names no database; write mysql://host/database, or table=database.table")
            }
            1049 => Permanent("the database is missing; create it, or name another"),
            1146 => Permanent("the table of locks is missing; `lock init --on URL` creates it"),
            1054 | 1136 | 1264 | 1292 | 1364 | 1366 | 1406 | 1690 | 3819 | 4025 => {
                Permanent("the table of locks was altered, or holds a value that no lock client has written")
            }
            1064 | 1193 | 1305 => Permanent("the server is too old, or neither MySQL nor MariaDB"),
            _ => Other,
        }
    }
}

fn number(error: &SqlxError) -> Option<u16> {
    error.as_database_error()?.try_downcast_ref::<MySqlDatabaseError>().map(MySqlDatabaseError::number)
}

fn classify_number(number: u16, error: SqlxError, otherwise: Effect) -> Error {
    let said = ServerMessage(&error);
    let ours = match Meaning::of(number) {
        Meaning::Blocked => {
            let message = format!("other transactions blocked the statement until its time was over: {said}");
            Error::unavailable(Effect::NotApplied, message)
        }
        Meaning::WrongServer(why) | Meaning::Transient(why) => {
            Error::unavailable(Effect::NotApplied, format!("{why}: {said}")).as_refusal()
        }
        Meaning::Permanent(why) => Error::rejected(format!("{why}: {said}")),
        Meaning::Disconnected | Meaning::Other => {
            Error::unavailable(otherwise, format!("the server failed: {said}"))
        }
    };
    ours.with_source(error)
}

#[cfg(test)]
mod tests {
    use std::io;

    use lock_core::ErrorKind;

    use super::*;

    #[test]
    fn an_unexpected_answer_is_no_unreachable_server() {
        assert_eq!(connecting(SqlxError::RowNotFound).kind(), ErrorKind::Rejected);
    }

    #[test]
    fn a_broken_connection_leaves_the_effect_unknown() {
        let broken = || SqlxError::Io(io::ErrorKind::ConnectionReset.into());
        assert_eq!(asking(broken()).kind(), ErrorKind::Unavailable { effect: Effect::Unknown });
        assert_eq!(connecting(broken()).kind(), ErrorKind::Unavailable { effect: Effect::NotApplied });
        assert!(matches!(trouble(broken()), Trouble::Broken(_)));
    }
}
