//! Classifies errors of the `mongodb` crate: whether the request may have been carried out, whether the error passes by
//! itself, and what the user should do.

use std::io;

use lock_core::toolkit::certificate_advice;
use lock_core::{Effect, Error};
use mongodb::error::{
    Error as MongoError, ErrorKind, NO_WRITES_PERFORMED, RETRYABLE_WRITE_ERROR, WriteFailure,
};

/// Converts the error of a request.
pub(crate) fn request_error(error: MongoError) -> Error {
    classify(&error).with_source(error)
}

fn classify(error: &MongoError) -> Error {
    let said = words(error);
    match &*error.kind {
        ErrorKind::Command(command) => classify_code(command.code, &said, error),
        ErrorKind::Write(WriteFailure::WriteError(write)) => classify_code(write.code, &said, error),
        ErrorKind::Write(WriteFailure::WriteConcernError(_)) => Error::unavailable(
            Effect::Unknown,
            format!("a majority of the set has not acknowledged the request: {said}"),
        )
        .as_refusal(),
        ErrorKind::Authentication { .. } => Error::rejected(format!("{LOGIN}: {said}")),
        ErrorKind::ServerSelection { message, .. } if message.contains("certificate") => {
            Error::rejected(format!("{CERTIFICATE}: {said}{}", certificate_advice(&said)))
        }
        ErrorKind::ServerSelection { message, .. } if message.contains("SCRAM failure") => {
            Error::rejected(format!("{LOGIN}: {said}"))
        }
        ErrorKind::ServerSelection { message, .. } if message.contains(NO_MESSAGE_OF_ITS) => {
            Error::rejected(format!("the server that answers is no MongoDB server: {said}"))
        }
        ErrorKind::ServerSelection { .. } | ErrorKind::DnsResolve { .. } => Error::unavailable(
            Effect::NotApplied,
            format!("no server that takes writes can be reached{}: {said}", closes_connections(&said)),
        ),
        ErrorKind::Io(e) if e.to_string().contains("certificate") => {
            Error::rejected(format!("{CERTIFICATE}: {said}{}", certificate_advice(&said)))
        }
        ErrorKind::Io(e) if e.kind() == io::ErrorKind::ConnectionRefused => {
            Error::unavailable(Effect::NotApplied, format!("the server can't be reached: {said}"))
        }
        ErrorKind::InvalidArgument { .. } | ErrorKind::InvalidTlsConfig { .. } => Error::invalid(said),
        ErrorKind::IncompatibleServer { .. } | ErrorKind::SessionsNotSupported => Error::rejected(format!(
            "the server lacks what locks need; it has to be MongoDB 4.4 or later: {said}"
        )),
        ErrorKind::Shutdown => Error::unavailable(Effect::NotApplied, said),
        _ => Error::unavailable(
            Effect::Unknown,
            format!(
                "the connection broke before the server's answer came: {said}{}",
                closes_connections(&said)
            ),
        ),
    }
}

/// Says what a server means that closes each connection at once.
fn closes_connections(said: &str) -> &'static str {
    match said.contains("unexpected end of file") || said.contains("early eof") {
        true => " (one that closes a connection at once has as many as net.maxIncomingConnections allows)",
        false => "",
    }
}

/// Classifies a server's error by its code.
///
/// After an error that passes by itself, the request counts as not done only where the server says so: the error may
/// have occurred while the server waited for a majority, and the `mongodb` crate may have sent the request twice.
fn classify_code(code: i32, said: &str, error: &MongoError) -> Error {
    let advice = LASTING.iter().find(|(codes, _)| codes.contains(&code)).map(|(_, advice)| *advice);
    if let Some(advice) = advice {
        return Error::rejected(format!("{advice}: {said}"));
    }
    if NOT_DONE.contains(&code) || error.contains_label(NO_WRITES_PERFORMED) {
        return Error::unavailable(
            Effect::NotApplied,
            format!("the server did not carry out the request: {said}"),
        )
        .as_refusal();
    }
    if PASSING.contains(&code) || error.contains_label(RETRYABLE_WRITE_ERROR) {
        return Error::unavailable(
            Effect::Unknown,
            format!("the server can't carry out requests now: {said}"),
        )
        .as_refusal();
    }
    Error::rejected(format!("the server refused the request: {said}"))
}

/// Returns the error in one line, in the words of the server or of the `mongodb` crate. For an error of the crate, its
/// kind alone says what happened.
pub(crate) fn words(error: &MongoError) -> String {
    match &*error.kind {
        ErrorKind::Command(command) => {
            format!("{} ({} {})", command.message, command.code_name, command.code)
        }
        ErrorKind::Write(WriteFailure::WriteConcernError(e)) => {
            format!("{} ({} {})", e.message, e.code_name, e.code)
        }
        kind => kind.to_string(),
    }
}

/// Returns whether the server has answered the request, by refusing it.
pub(crate) fn is_an_answer(error: &MongoError) -> bool {
    matches!(*error.kind, ErrorKind::Command(_) | ErrorKind::Write(_))
}

/// Returns whether the document that the request had to create exists already.
pub(crate) fn is_duplicate(error: &MongoError) -> bool {
    code(error) == Some(11000)
}

/// Returns whether a write was not sent to a standalone server because no connection could be made.
///
/// The `mongodb` crate repeats writes by itself, but not to a standalone server, which could carry them out twice.
/// There it calls a write retryable only as long as it has no connection for it.
pub(crate) fn was_not_sent_to_standalone(error: &MongoError) -> bool {
    matches!(&*error.kind, ErrorKind::Io(_)) && error.contains_label(RETRYABLE_WRITE_ERROR)
}

/// Returns whether this user lacks the right for the request.
pub(crate) fn is_unauthorized(error: &MongoError) -> bool {
    code(error) == Some(13)
}

/// Returns whether the database or the collection does not exist yet.
pub(crate) fn is_not_there(error: &MongoError) -> bool {
    code(error) == Some(26)
}

/// Returns whether the server has no change streams, or none for this user.
pub(crate) fn refuses_streams(error: &MongoError) -> bool {
    // Unauthorized; only on replica sets (the code of the stage, and the general code); not with this storage engine.
    code(error).is_some_and(|code| [13, 40573, 20, 115].contains(&code))
}

fn code(error: &MongoError) -> Option<i32> {
    match &*error.kind {
        ErrorKind::Command(command) => Some(command.code),
        ErrorKind::Write(WriteFailure::WriteError(write)) => Some(write.code),
        _ => None,
    }
}

const LOGIN: &str = "the server refused the user or the password; give both, and the database that keeps the user, in \
     the URL: mongodb://user:password@host/?authSource=admin";
const CERTIFICATE: &str = "the server's certificate or the client's was refused; ?ca= names the roots to trust, ?cert= the \
     client's certificate and key";

/// The error text of the `mongodb` crate for an answer that does not begin like a message of MongoDB's protocol.
const NO_MESSAGE_OF_ITS: &str = "Invalid wire protocol opcode";

/// Errors that the server returns before it does anything: a duplicate, a conflict with another write, an attempt whose
/// claim has been released (TransactionTooOld), a lock inside the server that the request did not get in time.
const NOT_DONE: &[i32] = &[11000, 112, 225, 24, 46];

/// Errors that pass by themselves, after which the request may have been done: no primary or another one, a server that
/// shuts down or was interrupted, time that ran out on the server, other members that can't be reached, a full disk.
const PASSING: &[i32] = &[
    6, 7, 50, 64, 89, 91, 100, 134, 189, 262, 9001, 10058, 10107, 11600, 11601, 11602, 13435, 13436, 14031,
    148,
];

/// Errors that do not pass by themselves, and what the user should do.
const LASTING: &[(&[i32], &str)] = &[
    (&[18, 8000], LOGIN),
    (
        &[13],
        "this user lacks a right; locks need find, insert and update on their collection, and changeStream for wake-ups \
         (the role readWrite has all of them)",
    ),
    (
        &[9, 40, 59, 224, 40324, 168, 40415],
        "the server does not understand the request; it has to be MongoDB 4.4 or later",
    ),
    (&[85, 86], "the collection of locks has an index of another version"),
    (
        &[14, 2, 16554, 16556, 34471, 16020],
        "no lock client has written this document; use another collection or name",
    ),
];

#[cfg(test)]
mod tests {
    use lock_core::ErrorKind as Kind;

    use super::*;

    fn said(code: i32) -> Error {
        classify_code(code, "what it says", &MongoError::custom("nothing"))
    }

    #[test]
    fn what_the_server_says_is_told_apart() {
        for code in NOT_DONE {
            assert_eq!(said(*code).kind(), Kind::Unavailable { effect: Effect::NotApplied }, "{code}");
        }
        for code in PASSING {
            assert_eq!(said(*code).kind(), Kind::Unavailable { effect: Effect::Unknown }, "{code}");
        }
        for (code, advice) in
            [(18, "password"), (13, "readWrite"), (40324, "4.4"), (14, "another collection")]
        {
            let error = said(code);
            assert_eq!(error.kind(), Kind::Rejected, "{code}");
            assert!(error.message().contains(advice), "{error}");
        }
        assert_eq!(said(12345).kind(), Kind::Rejected);
    }

    #[test]
    fn no_code_is_in_two_tables() {
        let mut all: Vec<i32> = NOT_DONE.iter().chain(PASSING).copied().collect();
        all.extend(LASTING.iter().flat_map(|(codes, _)| codes.iter()));
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
    }

    #[test]
    fn a_broken_connection_leaves_the_effect_unknown() {
        let io = |kind: io::ErrorKind| request_error(MongoError::from(io::Error::from(kind))).kind();
        assert_eq!(io(io::ErrorKind::ConnectionReset), Kind::Unavailable { effect: Effect::Unknown });
        assert_eq!(io(io::ErrorKind::ConnectionRefused), Kind::Unavailable { effect: Effect::NotApplied });
    }
}
