//! Classifies errors of the `zookeeper-client` crate: whether the server has answered, whether the error passes by
//! itself, and what the user should do.

use std::time::Duration;

use lock_core::toolkit::HumanDuration;
use lock_core::{Effect, Error};
use zookeeper_client::Error as ZkError;

/// Returns whether an error is the server's answer: then the request was not done, except for what the error
/// itself says. All other errors mean that the connection broke, and that the outcome is unknown.
pub(crate) fn is_answer(error: &ZkError) -> bool {
    use ZkError::{
        BadArguments, BadVersion, InvalidAcl, MarshallingError, NoAuth, NoChildrenForEphemerals, NoNode,
        NoWatcher, NodeExists, NotEmpty, NotReadOnly, QuotaExceeded, Throttled, UnexpectedErrorCode,
        Unimplemented,
    };
    matches!(
        error,
        // The last two are the crate's own: it has sent nothing.
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

/// Converts a refusal of the server.
pub(crate) fn refused(error: ZkError) -> Error {
    let said = format!("the server refused the request: {error}");
    let outcome = match &error {
        ZkError::NoAuth => Error::rejected(format!(
            "{said}; this user needs the rights create, read, write and delete where the locks are. Give user and \
             password in the URL, zk://user:password@host/, the same ones for all clients"
        )),
        ZkError::Throttled | ZkError::NotReadOnly => {
            Error::unavailable(Effect::NotApplied, said).as_refusal()
        }
        ZkError::Unimplemented => {
            Error::rejected(format!("{said}; it has to be ZooKeeper {OLDEST} or later"))
        }
        ZkError::NoChildrenForEphemerals => {
            Error::rejected(format!("{said}; the folder of the locks is an ephemeral node, use another one"))
        }
        ZkError::QuotaExceeded => {
            Error::rejected(format!("{said}; raise the quota of the folder, or use another one"))
        }
        _ => Error::rejected(said),
    };
    outcome.with_source(error)
}

/// The error for a node that looks like a ticket but belongs to no session.
pub(crate) fn persistent_node(path: &str) -> Error {
    Error::rejected(format!(
        "the node {path} belongs to no session: no lock client has created it, and it would block the lock for ever; \
         delete it"
    ))
}

/// The first version that knows all requests of this library.
pub(crate) const OLDEST: &str = "3.5";

/// Converts the error of connecting. Nothing was sent on the connection.
pub(crate) fn connecting(error: ZkError, patience: Duration) -> Error {
    let outcome = match &error {
        ZkError::AuthFailed => Error::rejected(
            "the server refused the user or the password, or asks for a login that this library doesn't support",
        ),
        ZkError::BadArguments(what) => {
            Error::invalid(format!("the servers' addresses can't be used: {what}"))
        }
        // `Link::open` has repeated these until the call was over.
        ZkError::NoHosts | ZkError::Timeout => {
            let within = HumanDuration(patience);
            let said = format!(
                "no server of these could be reached within {within}: {error}; one that closes each connection has no \
                 majority (or only reads without one), or this host has as many as its maxClientCnxns"
            );
            Error::unavailable(Effect::NotApplied, said)
        }
        _ => Error::unavailable(Effect::NotApplied, format!("no server of these can be reached: {error}")),
    };
    outcome.with_source(error)
}

/// The error for a server without `create2`: it returns no zxid for a new node, and tokens are made of that.
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
        assert_eq!(refused(ZkError::Throttled).kind(), ErrorKind::Unavailable { effect: Effect::NotApplied });
        assert_eq!(
            connecting(ZkError::NoHosts, Duration::from_secs(2)).kind(),
            ErrorKind::Unavailable { effect: Effect::NotApplied }
        );
        assert_eq!(connecting(ZkError::AuthFailed, Duration::from_secs(2)).kind(), ErrorKind::Rejected);
    }
}
