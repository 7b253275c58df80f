//! What the driver's errors mean: may the request have been carried out, will it pass, what is to be done.

use std::io;

use lock_core::{Done, Error};
use mongodb::error::{
    Error as MongoError, ErrorKind, NO_WRITES_PERFORMED, RETRYABLE_WRITE_ERROR, WriteFailure,
};

/// What went wrong with a request.
pub(crate) fn asking(error: MongoError) -> Error {
    classify(&error).with_source(error)
}

fn classify(error: &MongoError) -> Error {
    let said = words(error);
    match &*error.kind {
        ErrorKind::Command(command) => said_by_server(command.code, &said, error),
        ErrorKind::Write(WriteFailure::WriteError(write)) => said_by_server(write.code, &said, error),
        ErrorKind::Write(WriteFailure::WriteConcernError(_)) => Error::unavailable(
            Done::Unknown,
            format!("a majority of the set has not acknowledged it: {said}"),
        ),
        ErrorKind::Authentication { .. } => Error::rejected(format!("{LOGIN}: {said}")),
        ErrorKind::ServerSelection { message, .. } if message.contains("certificate") => {
            Error::rejected(format!("{CERTIFICATE}: {said}"))
        }
        ErrorKind::ServerSelection { message, .. } if message.contains("SCRAM failure") => {
            Error::rejected(format!("{LOGIN}: {said}"))
        }
        ErrorKind::ServerSelection { message, .. } if message.contains(NO_MESSAGE_OF_ITS) => {
            Error::rejected(format!("what answers there is no MongoDB: {said}"))
        }
        ErrorKind::ServerSelection { .. } | ErrorKind::DnsResolve { .. } => {
            Error::unavailable(Done::No, format!("no server that takes writes can be reached: {said}"))
        }
        ErrorKind::Io(e) if e.to_string().contains("certificate") => {
            Error::rejected(format!("{CERTIFICATE}: {said}"))
        }
        ErrorKind::Io(e) if e.kind() == io::ErrorKind::ConnectionRefused => {
            Error::unavailable(Done::No, format!("the server can't be reached: {said}"))
        }
        ErrorKind::InvalidArgument { .. } | ErrorKind::InvalidTlsConfig { .. } => Error::invalid(said),
        ErrorKind::IncompatibleServer { .. } | ErrorKind::SessionsNotSupported => Error::rejected(format!(
            "the server can't do what locks need; it has to be MongoDB 4.4 or later: {said}"
        )),
        ErrorKind::Shutdown => Error::unavailable(Done::No, said),
        _ => Error::unavailable(
            Done::Unknown,
            format!("the connection broke before the server's answer came: {said}"),
        ),
    }
}

/// A refusal that passes was not carried out only where the server says so: it may have come while the server waited
/// for a majority, and the driver may have asked twice.
fn said_by_server(code: i32, said: &str, error: &MongoError) -> Error {
    let advice = LASTING.iter().find(|(codes, _)| codes.contains(&code)).map(|(_, advice)| *advice);
    if let Some(advice) = advice {
        return Error::rejected(format!("{advice}: {said}"));
    }
    if NOT_DONE.contains(&code) || error.contains_label(NO_WRITES_PERFORMED) {
        return Error::unavailable(Done::No, format!("the server did not do it: {said}"));
    }
    if PASSING.contains(&code) || error.contains_label(RETRYABLE_WRITE_ERROR) {
        return Error::unavailable(Done::Unknown, format!("the server can't at the moment: {said}"));
    }
    Error::rejected(format!("the server refused: {said}"))
}

/// In one line, as the server or the driver has it; of a driver's error the kind alone says what happened.
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

/// The document that was to be made is there already.
pub(crate) fn is_duplicate(error: &MongoError) -> bool {
    code(error) == Some(11000)
}

/// A standalone server could not be connected to, so that the write was not sent to it.
///
/// The driver sends a write again by itself, but not to a standalone server, which could do it twice. There it calls a
/// write retryable only as long as it has no connection for it.
pub(crate) fn was_not_sent_to_one(error: &MongoError) -> bool {
    matches!(&*error.kind, ErrorKind::Io(_)) && error.contains_label(RETRYABLE_WRITE_ERROR)
}

/// This user may not do it.
pub(crate) fn is_unauthorized(error: &MongoError) -> bool {
    code(error) == Some(13)
}

/// The database or the collection is not there yet.
pub(crate) fn is_not_there(error: &MongoError) -> bool {
    code(error) == Some(26)
}

/// The server has no change streams, or none for this user.
pub(crate) fn refuses_streams(error: &MongoError) -> bool {
    // Unauthorized; only on replica sets (the code of the stage, and the general one); none of this storage engine.
    code(error).is_some_and(|code| [13, 40573, 20, 115].contains(&code))
}

fn code(error: &MongoError) -> Option<i32> {
    match &*error.kind {
        ErrorKind::Command(command) => Some(command.code),
        ErrorKind::Write(WriteFailure::WriteError(write)) => Some(write.code),
        _ => None,
    }
}

const LOGIN: &str = "the server refused the user or the password; give both, and where the user is kept, in the URL: \
     mongodb://user:password@host/?authSource=admin";
const CERTIFICATE: &str = "the server's certificate, or ours, was refused; ?ca= names the roots to trust, ?cert= our own certificate and key";

/// What the driver says of an answer whose head makes no message of MongoDB's.
const NO_MESSAGE_OF_ITS: &str = "Invalid wire protocol opcode";

/// What the server refuses before it does anything: a duplicate, a conflict with another's write, an attempt whose
/// claim has been released (TransactionTooOld), a lock inside the server that was not had in time.
const NOT_DONE: &[i32] = &[11000, 112, 225, 24, 46];

/// What passes, and may have been done: no or another primary, a server that ends or was interrupted, time that ran out
/// on the server, other members that can't be reached, a full disk.
const PASSING: &[i32] = &[
    6, 7, 50, 64, 89, 91, 100, 134, 189, 262, 9001, 10058, 10107, 11600, 11601, 11602, 13435, 13436, 14031,
    148,
];

/// What does not, and what to do.
const LASTING: &[(&[i32], &str)] = &[
    (&[18, 8000], LOGIN),
    (
        &[13],
        "this user may not do that; locks need find, insert and update on their collection, and changeStream to be \
         woken (the role readWrite has all of them)",
    ),
    (
        &[9, 40, 59, 224, 40324, 168, 40415],
        "the server does not understand the request; it has to be MongoDB 4.4 or later",
    ),
    (&[85, 86], "the collection of locks has an index of another version"),
    (
        &[14, 2, 16554, 16556, 34471, 16020],
        "no lock client has written this document; take another collection or name",
    ),
];

#[cfg(test)]
mod tests {
    use lock_core::ErrorKind as Kind;

    use super::*;

    fn said(code: i32) -> Error {
        said_by_server(code, "what it says", &MongoError::custom("nothing"))
    }

    #[test]
    fn what_the_server_says_is_told_apart() {
        for code in NOT_DONE {
            assert_eq!(said(*code).kind(), Kind::Unavailable { done: Done::No }, "{code}");
        }
        for code in PASSING {
            assert_eq!(said(*code).kind(), Kind::Unavailable { done: Done::Unknown }, "{code}");
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
    fn a_connection_that_broke_says_nothing_of_what_was_done() {
        let io = |kind: io::ErrorKind| asking(MongoError::from(io::Error::from(kind))).kind();
        assert_eq!(io(io::ErrorKind::ConnectionReset), Kind::Unavailable { done: Done::Unknown });
        assert_eq!(io(io::ErrorKind::ConnectionRefused), Kind::Unavailable { done: Done::No });
    }
}
