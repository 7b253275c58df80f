//! What PostgreSQL's errors mean: may the statement have been carried out, will it pass, what is to be done.

use std::io;

use lock_core::{Done, Error};
use sqlx::Error as SqlxError;
use sqlx::postgres::{PgDatabaseError, PgSeverity};

use crate::server::{Trouble, is_misread};

/// While connecting: no lock was touched.
pub(crate) fn connecting(error: SqlxError) -> Error {
    let refused = |why: String| Error::rejected(why);
    let not_now = |why: String| Error::unavailable(Done::No, why);
    let found = match (&error, code(&error)) {
        (_, Some(code)) if code.starts_with("28") => refused(format!("the server refuses us: {error}")),
        (_, Some("3D000")) => refused(format!("{error}; create it, or name another in the URL")),
        (_, Some("3F000")) => refused(format!("{error}; create it, or name another by ?table=schema.table")),
        (_, Some("42501")) => refused(format!("this user may not: {error}")),
        (_, Some("25006")) => read_only(&error.to_string()),
        // What time won't help: a setting of the URL's that the server doesn't know, a text that it doesn't understand.
        (_, Some(code)) if matches!(code.get(..2), Some("0A" | "22" | "42")) => {
            refused(format!("the server does not take what a lock needs, or what the URL sets: {error}"))
        }
        (_, Some("53300")) => not_now(format!("the server has no connection left: {error}")),
        (_, Some(_)) => not_now(format!("the server refused the connection: {error}")),
        (SqlxError::Configuration(_), _) => Error::invalid(error.to_string()),
        // What rustls doesn't like of the other side arrives as data that is wrong.
        (SqlxError::Io(e), _) if e.kind() == io::ErrorKind::InvalidData => refused(unencrypted(&error)),
        (SqlxError::Tls(_), _) => refused(unencrypted(&error)),
        (SqlxError::Protocol(said), _) if is_another_kinds(said) => {
            refused(format!("what answers there is no PostgreSQL: {said}"))
        }
        _ if is_misread(&error) => refused(misread(&error)),
        _ => not_now(format!("the server can't be reached: {error}")),
    };
    found.with_source(error)
}

/// Whether sqlx says that it met what no PostgreSQL sends. All else that it can't read may pass: an error in the server's
/// own encoding, before the client's is known, is that it is still starting up as a rule.
fn is_another_kinds(said: &str) -> bool {
    // It is answered by an `E` where the server has no process for us; and at the end of the connection sqlx reads a zero.
    let is_no_answer = |byte: &str| !byte.starts_with("00") && !byte.starts_with("45");
    said.strip_prefix("unexpected response from SSLRequest: 0x").is_some_and(is_no_answer)
        || said.starts_with("unknown message type")
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
        "42501" if text.contains("row-level security") => Trouble::Refused(
            never("the table's row-level security keeps this user from the lock; let a policy allow it")
                .with_source(error),
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
    Error::rejected(misread(&error)).with_source(error)
}

fn misread(error: &SqlxError) -> String {
    format!("the server's answer is not what was asked for: {error}")
}

/// Locks are written, and a standby takes no writes. It may be about to be promoted, or the address to move.
pub(crate) fn standby() -> Error {
    Error::unavailable(Done::No, "the server is a standby, which takes no writes; name the primary")
}

/// Whether what answered doesn't take a parameter of the greeting, or none at all.
pub(crate) fn is_unknown_parameter(error: &SqlxError) -> bool {
    match code(error) {
        Some("08P01") => error.to_string().contains("parameter"),
        Some("0A000") => true,
        _ => false,
    }
}

/// Whether this user has no right to what it asked for.
pub(super) fn is_refusal(error: &SqlxError) -> bool {
    code(error) == Some("42501")
}

/// The server's code for what went wrong.
fn code(error: &SqlxError) -> Option<&str> {
    error.try_downcast_ref().map(PgDatabaseError::code)
}

fn read_only(text: &str) -> Error {
    let why = "the server takes no writes: it is a standby by now, or set to read-only (behind a pooler perhaps by another \
        client, for the session that it was lent)";
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

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;

    use lock_core::ErrorKind;
    use sqlx::ConnectOptions as _;
    use sqlx::postgres::{PgConnectOptions, PgSslMode};

    use super::*;

    /// What a server that sends this, and goes, is taken for.
    fn met(ssl: PgSslMode, sends: &[u8]) -> Error {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let (mut client, _) = listener.accept().expect("a client");
                // It says nothing before its client does.
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
        let passing = ErrorKind::Unavailable { done: Done::No };
        let not_utf8 = message(b'E', b"SFATAL\0VFATAL\0C57P03\0Md\xe9marrage\0\0");
        for (ssl, sends, kind) in [
            (PgSslMode::Prefer, &b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], ErrorKind::Rejected),
            (PgSslMode::Disable, &b"-ERR unknown command\r\n"[..], ErrorKind::Rejected),
            // A postmaster that can't fork, or runs out of memory: an error of the oldest protocol.
            (PgSslMode::Prefer, &b"Ecould not fork new process for connection\0"[..], passing),
            // One that ends.
            (PgSslMode::Prefer, &b""[..], passing),
            // Before the client's encoding is known, the server speaks its own.
            (PgSslMode::Disable, &not_utf8, passing),
        ] {
            let error = met(ssl, sends);
            assert_eq!(error.kind(), kind, "{}: {error}", String::from_utf8_lossy(sends));
        }
    }

    /// Teleport's proxy sends such.
    #[test]
    fn an_error_without_a_code_is_one() {
        let error = met(PgSslMode::Disable, &message(b'E', b"SFATAL\0VFATAL\0Maccess denied\0\0"));
        assert_eq!(error.kind(), ErrorKind::Unavailable { done: Done::No }, "{error}");
        assert!(error.message().contains("access denied"), "{error}");
    }

    #[test]
    fn an_answer_that_was_not_asked_for_is_no_server_that_cannot_be_reached() {
        assert_eq!(connecting(SqlxError::RowNotFound).kind(), ErrorKind::Rejected);
        let broken = SqlxError::Io(io::ErrorKind::ConnectionReset.into());
        assert_eq!(connecting(broken).kind(), ErrorKind::Unavailable { done: Done::No });
    }
}
