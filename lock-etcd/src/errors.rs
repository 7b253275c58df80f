//! The meaning of etcd's errors: whether the request may have been carried out, whether the error will pass,
//! and what to do.
//!
//! The server's errors are recognised by their text, as etcd's own clients do. They all begin with `etcdserver:`.

use std::error::Error as StdError;
use std::io;

use etcd_client::Error as EtcdError;
use lock_core::toolkit::certificate_advice;
use lock_core::{Effect, Error};
use tonic::{Code, ConnectError};

/// Converts the error of a request.
pub(crate) fn asking(error: EtcdError) -> Error {
    classify(&error).with_source(error)
}

/// Converts an error after an earlier request has already changed something: it is unknown what was done.
pub(crate) fn half_done(error: Error) -> Error {
    match error.is_transient() {
        true => Error::unavailable(Effect::Unknown, error.message()).with_source(error),
        false => error,
    }
}

fn classify(error: &EtcdError) -> Error {
    let said = words(error);
    let Some(code) = code(error) else {
        return match error {
            EtcdError::InvalidArgs(_) | EtcdError::InvalidUri(_) | EtcdError::TransportError(_) => {
                Error::invalid(said)
            }
            _ => Error::unavailable(Effect::Unknown, format!("{BROKE}: {said}")),
        };
    };
    if is_of_certificates(&said) {
        return Error::rejected(format!("{CERTIFICATE}: {said}{}", certificate_advice(&said)));
    }
    // The answer's bytes are no HTTP/2 frame. A lossy network cannot cause this.
    if said.contains("frame with invalid size") {
        return Error::rejected(format!("{FOREIGN}: {said}"));
    }
    if let Some((_, advice)) = LASTING.iter().find(|(text, _)| said.contains(text)) {
        return Error::rejected(format!("{advice}: {said}"));
    }
    if was_not_sent(error) {
        return Error::unavailable(Effect::NotApplied, format!("the server can't be reached: {said}"));
    }
    if NOT_DONE.iter().any(|text| said.contains(text)) {
        return Error::unavailable(
            Effect::NotApplied,
            format!("the server did not carry out the request: {said}"),
        )
        .as_refusal();
    }
    match code {
        Code::Unimplemented => Error::unsupported(format!(
            "the server at this address does not speak version 3 of etcd's protocol: {said}"
        )),
        Code::PermissionDenied | Code::Unauthenticated => Error::rejected(format!("{RIGHTS}: {said}")),
        Code::Unavailable | Code::Unknown | Code::Internal | Code::Cancelled | Code::DeadlineExceeded => {
            match is_servers(&said) {
                true => Error::unavailable(Effect::Unknown, format!("{NOT_NOW}: {said}")).as_refusal(),
                false => Error::unavailable(Effect::Unknown, format!("{BROKE}: {said}")),
            }
        }
        _ if is_servers(&said) => Error::rejected(format!("the server refused: {said}")),
        // The client library's own error, for example for an answer that is too long.
        _ => Error::unavailable(Effect::Unknown, format!("{UNREAD}: {said}")),
    }
}

/// Returns whether the request was surely not carried out: it did not reach the server, or the server itself
/// refused it. An error from the client library, or from something between it and the server, does not count:
/// the server may have carried out the request before.
pub(crate) fn was_not_done(error: &EtcdError) -> bool {
    was_not_sent(error) || is_servers(&words(error)) && !classify(error).may_have_taken_effect()
}

/// The error in one line, in the words of the server or of the innermost cause.
pub(crate) fn words(error: &EtcdError) -> String {
    let EtcdError::GRpcStatus(status) = error else { return error.to_string() };
    let innermost = causes(status).last().map(ToString::to_string).unwrap_or_default();
    let said = status.message();
    match innermost.is_empty() || innermost.contains(said) || said.contains(&innermost) {
        true if innermost.len() > said.len() => innermost,
        true => said.to_owned(),
        false => format!("{said}: {innermost}"),
    }
}

/// The lease does not exist, or has ended: nothing was put under it.
pub(crate) fn is_without_lease(error: &EtcdError) -> bool {
    match error {
        EtcdError::GRpcStatus(status) => status.message().contains("requested lease not found"),
        EtcdError::LeaseKeepAliveError(why) => why.contains("lease not found"),
        _ => false,
    }
}

/// The lease that was to be granted exists already.
pub(crate) fn is_granted_already(error: &EtcdError) -> bool {
    matches!(error, EtcdError::GRpcStatus(status) if status.message().contains("lease already exists"))
}

/// The request was refused before anything was done. Another member, or a new login, may carry it out.
pub(crate) fn is_worth_another_try(error: &EtcdError) -> bool {
    was_not_sent(error) || ELSEWHERE.iter().any(|text| words(error).contains(text)) || has_no_login(error)
}

/// The login has expired, or is older than a change of rights.
pub(crate) fn has_no_login(error: &EtcdError) -> bool {
    let said = words(error);
    said.contains("invalid auth token") || said.contains("revision of auth store is old")
}

/// Returns whether the connection failed, and not the request.
pub(crate) fn is_of_connection(error: &EtcdError) -> bool {
    match code(error) {
        Some(Code::Unavailable | Code::Unknown | Code::Internal | Code::Cancelled) => true,
        Some(_) => false,
        None => true,
    }
}

fn was_not_sent(error: &EtcdError) -> bool {
    let EtcdError::GRpcStatus(status) = error else { return false };
    causes(status).any(|cause| {
        let refused = |e: &io::Error| e.kind() == io::ErrorKind::ConnectionRefused;
        cause.is::<ConnectError>() || cause.downcast_ref::<io::Error>().is_some_and(refused)
    })
}

fn causes<'a>(status: &'a tonic::Status) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(StdError::source(status), |cause| StdError::source(*cause))
}

fn code(error: &EtcdError) -> Option<Code> {
    match error {
        EtcdError::GRpcStatus(status) => Some(status.code()),
        _ => None,
    }
}

fn is_servers(said: &str) -> bool {
    said.starts_with("etcdserver:")
}

fn is_of_certificates(said: &str) -> bool {
    let said = said.to_lowercase();
    !is_servers(&said) && said.contains("certificate")
}

const FOREIGN: &str = "the server at this address is not etcd, or it accepts TLS only (etcds://)";
const NOT_NOW: &str = "the server cannot answer the request at the moment";
const BROKE: &str = "the connection broke before the server's answer came";
const UNREAD: &str = "the answer cannot be read";
const CERTIFICATE: &str = "the server's or the client's certificate was refused; ?ca= names the roots to trust, ?cert= \
     and ?key= the client's certificate";
const LOGIN: &str =
    "the server refused the user or the password; give both in the URL: etcd://user:password@host";
const FULL: &str = "the server's disk quota is used up, and it takes no writes until that is mended: compact, defrag, and \
     `etcdctl alarm disarm` (or raise --quota-backend-bytes)";
const RIGHTS: &str = "this user lacks a right; locks need a role with readwrite on the whole prefix (etcdctl role \
     grant-permission ROLE readwrite --prefix=true PREFIX)";

/// Errors that do not pass, and what to do.
const LASTING: &[(&str, &str)] = &[
    ("authentication failed", LOGIN),
    ("user name is empty", LOGIN),
    ("user name not found", LOGIN),
    ("authentication is not enabled", "the server has authentication off; leave the user out of the URL"),
    ("etcdserver: permission denied", RIGHTS),
    ("etcdserver: mvcc: database space exceeded", FULL),
    ("request is too large", "the name is too long for this server's --max-request-bytes"),
];

/// The refusals that come before the server does anything.
const NOT_DONE: &[&str] = &[
    "etcdserver: no leader",
    "etcdserver: too many requests",
    "etcdserver: not capable",
    "etcdserver: invalid auth token",
    "etcdserver: revision of auth store is old",
    "etcdserver: requested lease not found",
    "etcdserver: rpc not supported for learner",
];

/// Errors that concern one member alone.
const ELSEWHERE: &[&str] = &["etcdserver: no leader", "etcdserver: rpc not supported for learner"];

#[cfg(test)]
mod tests {
    use lock_core::ErrorKind as Kind;

    use super::*;

    fn said(code: Code, text: &str) -> Error {
        asking(EtcdError::GRpcStatus(tonic::Status::new(code, text)))
    }

    #[test]
    fn what_the_server_says_is_told_apart() {
        for text in NOT_DONE {
            assert_eq!(
                said(Code::Unavailable, text).kind(),
                Kind::Unavailable { effect: Effect::NotApplied },
                "{text}"
            );
        }
        for text in ["etcdserver: request timed out", "etcdserver: leader changed", "transport error"] {
            assert_eq!(
                said(Code::Unavailable, text).kind(),
                Kind::Unavailable { effect: Effect::Unknown },
                "{text}"
            );
        }
        for (text, advice) in [
            ("etcdserver: permission denied", "readwrite"),
            ("etcdserver: authentication failed, invalid user ID or password", "password"),
            ("etcdserver: authentication is not enabled", "leave the user out"),
            ("invalid peer certificate: UnknownIssuer", "?ca="),
        ] {
            let error = said(Code::Unavailable, text);
            assert_eq!(error.kind(), Kind::Rejected, "{text}");
            assert!(error.message().contains(advice), "{error}");
        }
        assert_eq!(said(Code::Unimplemented, "x").kind(), Kind::Unsupported);
        assert_eq!(said(Code::OutOfRange, "etcdserver: too large lease TTL").kind(), Kind::Rejected);
    }

    #[test]
    fn an_unanswered_request_may_have_been_done() {
        let status = |code, text: &str| EtcdError::GRpcStatus(tonic::Status::new(code, text));
        for text in
            NOT_DONE.iter().chain(&["etcdserver: permission denied", "etcdserver: request is too large"])
        {
            assert!(was_not_done(&status(Code::FailedPrecondition, text)), "{text}");
        }
        for text in ["etcdserver: request timed out", "etcdserver: leader changed"] {
            assert!(!was_not_done(&status(Code::Unavailable, text)), "{text}");
        }
        for code in [Code::OutOfRange, Code::ResourceExhausted, Code::InvalidArgument, Code::DataLoss] {
            let unread = status(code, "Error, decoded message length too large: found 5000000 bytes");
            assert!(!was_not_done(&unread), "{code:?}");
            assert_eq!(asking(unread).kind(), Kind::Unavailable { effect: Effect::Unknown }, "{code:?}");
        }
        // Refused permanently, and not by the server.
        for code in [Code::PermissionDenied, Code::Unimplemented] {
            assert!(!was_not_done(&status(code, "a gateway's message")), "{code:?}");
        }
    }

    #[test]
    fn a_refused_connection_was_not_sent_anything() {
        let refused = |e: io::Error| {
            let mut status = tonic::Status::unavailable("tcp connect error");
            status.set_source(std::sync::Arc::new(e));
            EtcdError::GRpcStatus(status)
        };
        let refusal = refused(io::Error::from(io::ErrorKind::ConnectionRefused));
        assert!(is_worth_another_try(&refusal) && is_of_connection(&refusal));
        assert_eq!(asking(refusal).kind(), Kind::Unavailable { effect: Effect::NotApplied });
        let reset = refused(io::Error::from(io::ErrorKind::ConnectionReset));
        assert!(!is_worth_another_try(&reset) && is_of_connection(&reset));
        assert_eq!(asking(reset).kind(), Kind::Unavailable { effect: Effect::Unknown });
    }
}
