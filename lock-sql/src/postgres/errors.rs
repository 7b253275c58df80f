//! Classifies PostgreSQL's errors: whether the statement may have been carried out, whether the error passes by itself,
//! and what the user should do.

use std::io;

use lock_core::toolkit::certificate_advice;
use lock_core::{Effect, Error};
use sqlx::Error as SqlxError;
use sqlx::postgres::{PgDatabaseError, PgSeverity};

use crate::server::{Trouble, is_misread};
use crate::server_message::ServerMessage;

/// Converts an error of connecting: no lock was touched.
pub(crate) fn connecting(error: SqlxError) -> Error {
    let refused = |why: String| Error::rejected(why);
    let not_now = |why: String| Error::unavailable(Effect::NotApplied, why);
    let said = ServerMessage(&error);
    let found = match (&error, code(&error)) {
        (_, Some(code)) if code.starts_with("28") => refused(format!("the server refuses the user: {said}")),
        (_, Some("3D000")) => refused(format!("{said}; create it, or name another in the URL")),
        (_, Some("3F000")) => refused(format!("{said}; create it, or name another by ?table=schema.table")),
        (_, Some("42501")) => refused(format!("this user lacks a right: {said}")),
        (_, Some("25006")) => read_only(&said.to_string()),
        // Errors that don't pass by themselves: a setting of the URL that the server doesn't know, a text that it
        // doesn't understand.
        (_, Some(code)) if matches!(code.get(..2), Some("0A" | "22" | "42")) => {
            refused(format!("the server does not take what a lock needs, or what the URL sets: {said}"))
        }
        (_, Some("53300")) => not_now(format!("the server has no connection left: {said}")).as_refusal(),
        (_, Some(_)) => not_now(format!("the server refused the connection: {said}")).as_refusal(),
        (SqlxError::Configuration(_), _) => Error::invalid(said.to_string()),
        // What rustls rejects from the other side is reported as invalid data.
        (SqlxError::Io(e), _) if e.kind() == io::ErrorKind::InvalidData => refused(unencrypted(&error)),
        (SqlxError::Tls(_), _) => refused(unencrypted(&error)),
        (SqlxError::Protocol(answer), _) if is_another_kinds(answer) => {
            refused(format!("the server that answers is no PostgreSQL server: {answer}"))
        }
        _ if is_misread(&error) => refused(misread(&error)),
        _ => not_now(format!("the server can't be reached: {said}")),
    };
    found.with_source(error)
}

/// Returns whether sqlx reports something that no PostgreSQL server sends. Anything else that sqlx can't read
/// may pass by itself. For example, an error in the server's own encoding, before it knows the client's,
/// usually says that the server is still starting up.
fn is_another_kinds(said: &str) -> bool {
    // A server that has no process for the connection answers with an `E`. At the end of the connection, sqlx reads a
    // zero.
    let is_no_answer = |byte: &str| !byte.starts_with("00") && !byte.starts_with("45");
    said.strip_prefix("unexpected response from SSLRequest: 0x").is_some_and(is_no_answer)
        || said.starts_with("unknown message type")
}

/// Converts the error of a running statement.
pub(crate) fn asking(error: SqlxError) -> Trouble {
    let Some(said) = error.try_downcast_ref() else {
        let message = format!("the connection broke: {}", ServerMessage(&error));
        return Trouble::Broken(Error::unavailable(Effect::Unknown, message).with_source(error));
    };
    let (code, text) = (said.code().to_owned(), said.message().to_owned());
    // After an error, the server undoes the transaction. An error that ends the connection, or that comes from
    // something in front of the server, says nothing about what was done.
    let undone = said.severity() == PgSeverity::Error && !code.starts_with("08");
    if !undone {
        let message = format!("the server ended the connection: {text}");
        return Trouble::Broken(Error::unavailable(Effect::Unknown, message).with_source(error));
    }
    undone_by(&code, &text, error)
}

/// Says what the error means with which the server undid a statement, in a session that goes on.
fn undone_by(code: &str, text: &str, error: SqlxError) -> Trouble {
    // Others, or the server's own time limit, were in the way of this one statement.
    let prevented = |why: &str| Error::unavailable(Effect::NotApplied, format!("{why}: {text}"));
    let not_now = |why: &str| prevented(why).as_refusal();
    let never = |why: &str| Error::rejected(format!("{why}: {text}"));
    let (trouble, found): (fn(Error) -> Trouble, Error) = match code {
        // Serialization failure, deadlock, lock not available.
        "40001" | "40P01" | "55P03" => {
            (Trouble::Undone, prevented("others kept the lock's row for too long"))
        }
        "57014" => (Trouble::Refused, prevented("the server took too long, or the statement was cancelled")),
        "25006" => (Trouble::Broken, read_only(text)),
        // The session is not as we left it: something in between gives us other clients' sessions.
        "25P02" | "26000" | "42P05" | "0A000" => {
            (Trouble::Broken, prevented("the session was changed by something else"))
        }
        "42P01" => (
            Trouble::Broken,
            not_now("the table of locks is gone; the next connection creates it, if this user may"),
        ),
        "42703" | "42804" | "42883" | "42P10" => {
            (Trouble::Refused, never("the table of locks was altered; see `lock check --on URL`"))
        }
        "42501" if text.contains("row-level security") => (
            Trouble::Refused,
            never("the table's row-level security keeps this user from the lock; let a policy allow it"),
        ),
        "42501" => (
            Trouble::Refused,
            never("this user lacks a right; locks need SELECT, INSERT, UPDATE and DELETE on the table"),
        ),
        code if code.starts_with("22") || code.starts_with("23") => {
            (Trouble::Refused, never("the lock's row holds a value that no lock client has written"))
        }
        code if code.starts_with("53") => (Trouble::Refused, not_now("the server is short of a resource")),
        _ => (Trouble::Refused, not_now("the server refused the statement")),
    };
    trouble(found.with_source(error))
}

/// Converts an error of reading an answer that is not what the statement asks for.
pub(crate) fn reading(error: SqlxError) -> Error {
    Error::rejected(misread(&error)).with_source(error)
}

fn misread(error: &SqlxError) -> String {
    format!("the server's answer is not what was asked for: {}", ServerMessage(error))
}

/// The error for a standby: a lock is a write, and a standby takes no writes. It may be promoted soon, or the address
/// may move to the primary.
pub(crate) fn standby() -> Error {
    Error::unavailable(Effect::NotApplied, "the server is a standby, which takes no writes; name the primary")
        .as_refusal()
}

/// Returns whether the server or the pooler refuses a parameter of the greeting, or all parameters.
pub(crate) fn is_unknown_parameter(error: &SqlxError) -> bool {
    match code(error) {
        Some("08P01") => error.to_string().contains("parameter"),
        Some("0A000") => true,
        _ => false,
    }
}

/// Returns whether this user lacks the right to what it asked for.
pub(super) fn is_refusal(error: &SqlxError) -> bool {
    code(error) == Some("42501")
}

/// Returns the server's code of the error.
fn code(error: &SqlxError) -> Option<&str> {
    error.try_downcast_ref().map(PgDatabaseError::code)
}

fn read_only(text: &str) -> Error {
    let why = "the server takes no writes: it has become a standby, or is set to read-only (behind a pooler perhaps by \
        another client, in a session that was lent to it)";
    Error::unavailable(Effect::NotApplied, format!("{why}: {text}")).as_refusal()
}

fn unencrypted(error: &SqlxError) -> String {
    let said = ServerMessage(error).to_string();
    format!(
        "no encrypted connection: {said}{}; the certificate must come from one of the roots in ?ca=, and name the host",
        certificate_advice(&said)
    )
}

/// Errors that the server itself sent.
trait ServerErrorExt {
    fn try_downcast_ref(&self) -> Option<&PgDatabaseError>;
}

impl ServerErrorExt for SqlxError {
    fn try_downcast_ref(&self) -> Option<&PgDatabaseError> {
        self.as_database_error()?.try_downcast_ref()
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;

    use lock_core::ErrorKind;
    use sqlx::ConnectOptions as _;
    use sqlx::postgres::{PgConnectOptions, PgSslMode};

    use super::*;

    /// Returns the error of connecting to a server that sends this and closes the connection.
    fn met(ssl: PgSslMode, sends: &[u8]) -> Error {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let (mut client, _) = listener.accept().expect("a client");
                // It sends nothing before the client does.
                client.read_exact(&mut [0; 8]).expect("a greeting");
                client.write_all(sends).expect("a client that listens");
            });
            let options = PgConnectOptions::new_without_pgpass().host("127.0.0.1").port(port).username("u");
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let connection = runtime.expect("a runtime").block_on(options.ssl_mode(ssl).connect());
            connecting(connection.map(drop).expect_err("no server"))
        })
    }

    fn message(kind: u8, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(body.len() + 4).expect("short");
        [&[kind][..], &length.to_be_bytes(), body].concat()
    }

    #[test]
    fn only_what_no_postgres_sends_is_of_another_kind() {
        let passing = ErrorKind::Unavailable { effect: Effect::NotApplied };
        let not_utf8 = message(b'E', b"SFATAL\0VFATAL\0C57P03\0Md\xe9marrage\0\0");
        for (ssl, sends, kind) in [
            (PgSslMode::Prefer, &b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], ErrorKind::Rejected),
            (PgSslMode::Disable, &b"-ERR unknown command\r\n"[..], ErrorKind::Rejected),
            // A postmaster that can't fork, or has no memory left: an error of the oldest protocol.
            (PgSslMode::Prefer, &b"Ecould not fork new process for connection\0"[..], passing),
            // A server that shuts down.
            (PgSslMode::Prefer, &b""[..], passing),
            // Before the client's encoding is known, the server speaks its own.
            (PgSslMode::Disable, &not_utf8, passing),
        ] {
            let error = met(ssl, sends);
            assert_eq!(error.kind(), kind, "{}: {error}", String::from_utf8_lossy(sends));
        }
    }

    /// Teleport's proxy sends such errors.
    #[test]
    fn an_error_without_a_code_is_one() {
        let error = met(PgSslMode::Disable, &message(b'E', b"SFATAL\0VFATAL\0Maccess denied\0\0"));
        assert_eq!(error.kind(), ErrorKind::Unavailable { effect: Effect::NotApplied }, "{error}");
        assert!(error.message().contains("access denied"), "{error}");
    }

    #[test]
    fn an_unexpected_answer_is_no_unreachable_server() {
        assert_eq!(connecting(SqlxError::RowNotFound).kind(), ErrorKind::Rejected);
        let broken = SqlxError::Io(io::ErrorKind::ConnectionReset.into());
        assert_eq!(connecting(broken).kind(), ErrorKind::Unavailable { effect: Effect::NotApplied });
    }
}
