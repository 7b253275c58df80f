//! What the client's errors mean: was it the server that said so, will it pass, what is to be done.

use std::time::Duration;

use lock_core::{Done, Error};
use zookeeper_client::Error as ZkError;

/// Whether the server has answered: then what was asked was not done, but for what the error itself says. All else means
/// that the connection broke, and nobody knows.
pub(crate) fn is_answer(error: &ZkError) -> bool {
    use ZkError::{
        BadArguments, BadVersion, InvalidAcl, MarshallingError, NoAuth, NoChildrenForEphemerals, NoNode,
        NoWatcher, NodeExists, NotEmpty, NotReadOnly, QuotaExceeded, Throttled, UnexpectedErrorCode,
        Unimplemented,
    };
    matches!(
        error,
        // The last two are the client's own: it has not asked.
        NoNode
            | NodeExists
            | BadVersion
            | NoAuth
            | NotEmpty
            | NoChildrenForEphemerals
            | NoWatcher
            | NotReadOnly
            | QuotaExceeded
            | Throttled
            | MarshallingError
            | Unimplemented
            | UnexpectedErrorCode(_)
            | InvalidAcl
            | BadArguments(_)
    )
}

/// What the server said instead of doing it.
pub(crate) fn refused(error: ZkError) -> Error {
    let said = format!("the server refused: {error}");
    let outcome = match &error {
        ZkError::NoAuth => Error::rejected(format!(
            "{said}; this user needs the rights create, read, write and delete where the locks are. Give who it is in \
             the URL, zk://user:password@host/, and let all clients be the same user"
        )),
        ZkError::Throttled | ZkError::NotReadOnly => Error::unavailable(Done::No, said),
        ZkError::Unimplemented => {
            Error::rejected(format!("{said}; it has to be ZooKeeper {OLDEST} or later"))
        }
        ZkError::NoChildrenForEphemerals => {
            Error::rejected(format!("{said}; the folder of the locks is another client's ephemeral node"))
        }
        ZkError::QuotaExceeded => {
            Error::rejected(format!("{said}; raise the quota of the folder, or take another"))
        }
        _ => Error::rejected(said),
    };
    outcome.with_source(error)
}

/// A node that looks like a ticket and that no session keeps.
pub(crate) fn stray(path: &str) -> Error {
    Error::rejected(format!(
        "the node {path} belongs to no session: no lock client has made it, and it would stand before everybody for \
         ever; delete it"
    ))
}

/// The first version with everything that we ask for.
pub(crate) const OLDEST: &str = "3.5";

/// Why there is no connection. Nothing was asked on it.
pub(crate) fn connecting(error: ZkError, patience: Duration) -> Error {
    let outcome = match &error {
        ZkError::AuthFailed => Error::rejected(
            "the server refused the user or the password, or asks for a way to log in that this library has not",
        ),
        ZkError::BadArguments(what) => {
            Error::invalid(format!("the servers' addresses can't be used: {what}"))
        }
        // Tried again and again.
        ZkError::NoHosts | ZkError::Timeout => {
            let said = format!("no server of these could be reached within {patience:?}: {error}");
            Error::unavailable(Done::No, said)
        }
        _ => Error::unavailable(Done::No, format!("no server of these can be reached: {error}")),
    };
    outcome.with_source(error)
}

/// A server from before `create2` told no zxid, of which tokens are made.
pub(crate) fn too_old() -> Error {
    Error::rejected(format!("the server is too old; it has to be ZooKeeper {OLDEST} or later"))
}

#[cfg(test)]
mod tests {
    use lock_core::ErrorKind;

    use super::*;

    #[test]
    fn answers_are_told_from_silence() {
        for answer in
            [ZkError::NoNode, ZkError::NodeExists, ZkError::NoAuth, ZkError::UnexpectedErrorCode(-123)]
        {
            assert!(is_answer(&answer), "{answer}");
        }
        for silence in [
            ZkError::ConnectionLoss,
            ZkError::SessionExpired,
            ZkError::SessionMoved,
            ZkError::ClientClosed,
            ZkError::UnexpectedError("no response".into()),
            ZkError::Timeout,
        ] {
            assert!(!is_answer(&silence), "{silence}");
        }
    }

    #[test]
    fn what_can_be_done_is_said() {
        let error = refused(ZkError::NoAuth);
        assert_eq!(error.kind(), ErrorKind::Rejected);
        assert!(error.message().contains("zk://user:password@"), "{error}");
        assert_eq!(refused(ZkError::Throttled).kind(), ErrorKind::Unavailable { done: Done::No });
        assert_eq!(
            connecting(ZkError::NoHosts, Duration::from_secs(2)).kind(),
            ErrorKind::Unavailable { done: Done::No }
        );
        assert_eq!(connecting(ZkError::AuthFailed, Duration::from_secs(2)).kind(), ErrorKind::Rejected);
    }
}
