//! Maps redis' errors: may the request have been carried out, can the same request succeed later, what is to be done.

use lock_core::{Effect, Error};
use redis::RedisError;

use crate::layout::Layout;

/// Maps an error that occurred while connecting: nothing has been asked of the server yet.
pub(crate) fn connecting(error: RedisError) -> Error {
    if let Some(raised) = ServerError::of(&error) {
        return raised.into_error(error);
    }
    if error.kind() == redis::ErrorKind::AuthenticationFailed {
        let message =
            "the server refused the user or the password; give both in the URL, redis://user:password@host";
        return Error::rejected(message).with_source(error);
    }
    if let Some(message) = tls_trouble(&error) {
        return Error::rejected(message).with_source(error);
    }
    if matches!(error.kind(), redis::ErrorKind::InvalidClientConfig) {
        return Error::invalid(error.to_string()).with_source(error);
    }
    // An answer that is not RESP is not shown: it may be anything, over several lines.
    if error.kind() == redis::ErrorKind::Parse {
        return Error::rejected(format!("the program that answers there is no Redis or Valkey{OR_TLS}"))
            .with_source(error);
    }
    // A server of another kind closes the connection when it does not understand a request. A Redis server that shuts
    // down may close it as well.
    if was_closed(&error) {
        let message = format!(
            "the connection was closed before the first answer: no Redis or Valkey, a proxy that does not know \
             HELLO{OR_TLS}"
        );
        return Error::unavailable(Effect::NotApplied, message).with_source(error);
    }
    Error::unavailable(Effect::NotApplied, format!("the server can't be reached: {error}")).with_source(error)
}

/// Returns whether a connection was closed that had been opened.
pub(crate) fn was_closed(error: &RedisError) -> bool {
    error.is_connection_dropped() && !error.is_connection_refusal()
}

const OR_TLS: &str = ", or one that speaks TLS only (rediss://)";

/// Maps an error that occurred after a request about locks of this layout was sent. Only an error that the
/// server itself raised proves that the request was not carried out.
pub(crate) fn asking(error: RedisError, layout: Layout) -> Error {
    match ServerError::of(&error) {
        Some(raised) if raised.code == "NOPERM" => {
            Error::rejected(format!("{}: {}", missing_right(&raised.text, layout), raised.text))
                .with_source(error)
        }
        Some(raised) => raised.into_error(error),
        None => {
            let message = format!("the connection broke before the server's answer came: {error}");
            Error::unavailable(Effect::Unknown, message).with_source(error)
        }
    }
}

/// The error for a replica, on which nothing is locked. It is transient: the server may be promoted, or its address may
/// lead to another server, at any time.
pub(crate) fn replica() -> Error {
    Error::unavailable(
        Effect::NotApplied,
        "the server is a replica: its primary would not learn of a lock taken there; give the primary's address",
    )
    .as_refusal()
}

/// The error for a call that waits for a server which is no longer the primary.
pub(crate) fn left() -> Error {
    Error::unavailable(Effect::Unknown, "another server became the primary before the answer came")
}

/// Returns whether the connection that gave this error is to be replaced: it broke, or the server behind it is not, or
/// no longer, the one to ask.
pub(crate) fn ends_connection(error: &RedisError) -> bool {
    ServerError::of(error).is_none_or(|raised| matches!(raised.code, "READONLY" | "MASTERDOWN" | "LOADING"))
}

/// The place of a key, as a member of a cluster reports it. The host may be missing from the address, or be a
/// question mark.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Redirect {
    /// The slot belongs to the member at this address.
    Moved { slot: u16, address: String },
    /// The key is on its way to the member at this address.
    Ask { address: String },
}

impl Redirect {
    /// Returns where this error leads, if it is a redirection. Nothing was done.
    pub(crate) fn of(error: &Error) -> Option<Redirect> {
        let mut source = std::error::Error::source(error);
        while let Some(cause) = source {
            let redis_error = cause.downcast_ref::<RedisError>();
            if let Some((redis_error, (address, slot))) =
                redis_error.and_then(|e| e.redirect_node().map(|to| (e, to)))
            {
                let address = address.to_owned();
                return Some(match redis_error.code() {
                    Some("MOVED") => Redirect::Moved { slot, address },
                    _ => Redirect::Ask { address },
                });
            }
            source = cause.source();
        }
        None
    }
}

/// Returns whether a member of a cluster refused the request because its slot is moving, and its keys are at
/// two members.
pub(crate) fn are_apart(error: &Error) -> bool {
    let redis_error = std::error::Error::source(error).and_then(|cause| cause.downcast_ref::<RedisError>());
    redis_error.is_some_and(|e| e.code() == Some("TRYAGAIN"))
}

/// Returns whether the server refused the request because the user lacks the rights.
pub(crate) fn is_refusal(error: &RedisError) -> bool {
    ServerError::of(error).is_some_and(|raised| matches!(raised.code, "NOPERM" | "NOAUTH"))
}

/// An error that the server raised. Nothing was done: a script of ours that fails has not taken, kept or
/// released a lock.
struct ServerError {
    /// A code of the tables below, or empty.
    code: &'static str,
    text: String,
}

impl ServerError {
    fn of(error: &RedisError) -> Option<ServerError> {
        let code = error.code()?;
        let detail = error.detail().unwrap_or_default();
        let known = |word: &str| TRANSIENT.iter().chain(LASTING).map(|(code, _)| *code).find(|c| *c == word);
        let text = if code == "ERR" { detail.to_owned() } else { format!("{code} {detail}") };
        // Before Redis 7, the error code of a command in a script is somewhere in the text of an ERR.
        let in_script = || {
            let is_of_script = code == "ERR" && detail.contains("script");
            is_of_script.then(|| detail.split(|c: char| !c.is_ascii_uppercase()).find_map(known)).flatten()
        };
        let in_words = || PHRASES.iter().find(|(phrase, _)| text.contains(phrase)).map(|(_, code)| *code);
        let code = known(code).or_else(in_words).or_else(in_script).unwrap_or_default();
        Some(ServerError { code, text })
    }

    fn into_error(self, source: RedisError) -> Error {
        let ServerError { code, text } = self;
        let advice = |table: &[(&str, &'static str)]| {
            table.iter().find(|(c, _)| *c == code).map(|(_, advice)| *advice)
        };
        let error = match (advice(TRANSIENT), advice(LASTING)) {
            (Some(advice), _) => {
                Error::unavailable(Effect::NotApplied, format!("the server {advice}: {text}")).as_refusal()
            }
            (None, Some(advice)) => Error::rejected(format!("{advice}: {text}")),
            (None, None) => Error::rejected(format!("the server refused: {text}")),
        };
        error.with_source(source)
    }
}

/// Conditions that pass, and what the server does.
const TRANSIENT: &[(&str, &str)] = &[
    ("MISCONF", "can't write its snapshot to disk and takes no writes until that works again"),
    ("OOM", "has no memory left for writes"),
    ("READONLY", "is a replica now"),
    ("LOADING", "is still loading its data"),
    ("MASTERDOWN", "is a replica that has lost its primary"),
    ("CLUSTERDOWN", "is part of a cluster that is down"),
    ("TRYAGAIN", "is moving the key"),
    ("BUSY", "is busy with another script"),
    ("NOREPLICAS", "has fewer replicas than it wants for a write"),
    ("MAXCLIENTS", "has no room for another connection"),
];

/// Conditions that last until an operator changes something, and what to do.
const LASTING: &[(&str, &str)] = &[
    ("NOAUTH", "the server wants a password; give it in the URL, redis://user:password@host"),
    (
        "WRONGPASS",
        "the server refused the user or the password; give both in the URL, redis://user:password@host",
    ),
    ("NOPERM", "this user lacks a right"),
    (
        "UNKNOWN",
        "the server does not know a command that locks need; Redis 6.2 or later and Valkey have HELLO, EVALSHA and EVAL, \
         unless a setting (rename-command) or a proxy in front of them keeps them back",
    ),
    (
        "WRONGTYPE",
        "the key holds a value of another type than this layout's locks, which other clients or other programs have \
         written (Redisson's locks are hashes: ?layout=redisson); take another name or prefix, or delete the key",
    ),
    (
        "MOVED",
        "the key belongs to another member of a cluster; name the cluster in the URL, redis+cluster://host",
    ),
    (
        "ASK",
        "the key belongs to another member of a cluster; name the cluster in the URL, redis+cluster://host",
    ),
    ("CROSSSLOT", "the server is part of a cluster, and a proxy changes the keys on their way"),
];

/// Errors that the server names in words only, and the code that each stands for.
const PHRASES: &[(&str, &str)] = &[
    ("ACL failure", "NOPERM"),
    ("can't run this command", "NOPERM"),
    ("can't access at least one of the keys", "NOPERM"),
    ("max number of clients", "MAXCLIENTS"),
    ("unknown command", "UNKNOWN"),
    ("unsupported command", "UNKNOWN"),
    ("Unknown Redis command", "UNKNOWN"),
];

/// Names what this user lacks, as `ACL SETUSER` takes it, where the server's words say it. Before Redis 7.2, it names
/// no command of a script.
fn missing_right(text: &str, layout: Layout) -> String {
    let (keys, channels) = match layout {
        Layout::Own | Layout::Fair(_) => ("~NAME*", "&NAME*"),
        Layout::Redisson | Layout::RedissonFenced => {
            ("~NAME* and ~redisson_*:{NAME}*", "&redisson_lock__channel:{NAME}")
        }
    };
    let named = |behind: &str| text.split_once(behind)?.1.split_once('\'').map(|(command, _)| command);
    match named("run the '") {
        Some(command) => format!("this user lacks the right to a command; grant +{command}"),
        None if text.contains("channel") => {
            format!("this user may not use a lock's channel; grant {channels}")
        }
        None if text.contains("key") => format!("this user may not use one of the lock's keys; grant {keys}"),
        None => "this user lacks the right to a command; `lock check` names it (one node of several also needs +info)".to_owned(),
    }
}

#[cfg(feature = "tls")]
type Source = dyn std::error::Error + Send + Sync;

#[cfg(feature = "tls")]
fn tls_trouble(error: &RedisError) -> Option<String> {
    // redis keeps the cause of an error in an `Arc`, and `source` returns that `Arc`.
    let cause = std::error::Error::source(error)?.downcast_ref::<std::sync::Arc<Source>>()?;
    let io = cause.downcast_ref::<std::io::Error>()?;
    let tls = io.get_ref()?.downcast_ref::<rustls::Error>()?;
    let said = tls.to_string();
    let advice = lock_core::toolkit::certificate_advice(&said);
    Some(format!("the TLS handshake failed: {said}{advice}; see the URL's ca, cert and key"))
}

#[cfg(not(feature = "tls"))]
fn tls_trouble(_: &RedisError) -> Option<String> {
    None
}

#[cfg(test)]
mod tests {
    use lock_core::ErrorKind;
    use redis::parse_redis_value;

    use super::*;

    /// Returns the error that redis makes of a server's error.
    fn server_error(line: &str) -> RedisError {
        let value = parse_redis_value(format!("-{line}\r\n").as_bytes()).expect("an error is a value");
        value.extract_error().expect_err("and it is an error")
    }

    #[test]
    fn server_trouble_is_transient_and_not_applied() {
        for line in [
            "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.",
            "OOM command not allowed when used memory > 'maxmemory'.",
            "READONLY You can't write against a read only replica.",
            "LOADING Redis is loading the dataset in memory",
            "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
            "CLUSTERDOWN Hash slot not served",
            "TRYAGAIN Multiple keys request during rehashing of slot",
            "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
            "NOREPLICAS Not enough good replicas to write.",
            "ERR max number of clients reached",
            // How Redis 6.2 reports the error of a command in a script.
            "ERR Error running script (call to f_8c): @user_script:5: @user_script: 5: -MISCONF Redis is configured to",
        ] {
            let error = asking(server_error(line), Layout::Own);
            let not_done = ErrorKind::Unavailable { effect: Effect::NotApplied };
            assert_eq!((error.kind(), error.is_refusal()), (not_done, true), "{line}: {error}");
        }
    }

    #[test]
    fn trouble_for_the_operator_is_rejected_with_advice() {
        for (line, advice) in [
            ("NOAUTH Authentication required.", "password"),
            ("WRONGPASS invalid username-password pair or user is disabled.", "password"),
            ("NOPERM this user has no permissions to run the 'eval' command", "+eval"),
            (
                "ERR ACL failure in script: User a has no permissions to run the 'time' command",
                "grant +time:",
            ),
            (
                "ERR The user executing the script can't run this command or subcommand script: 9f",
                "`lock check`",
            ),
            ("NOPERM No permissions to access a key", "~NAME* and ~redisson_*"),
            ("NOPERM No permissions to access a channel", "&redisson_lock__channel:{NAME}"),
            ("WRONGTYPE Operation against a key holding the wrong kind of value", "another name"),
            (
                "ERR Error running script (call to f_1): @user_script:5: WRONGTYPE Operation against a key",
                "another name",
            ),
            ("MOVED 12182 127.0.0.1:7001", "redis+cluster://"),
            ("ERR unknown command 'EVALSHA'", "rename-command"),
            (
                "ERR Error running script (call to f_1): @user_script:5: Unknown Redis command called from",
                "EVAL",
            ),
            ("unsupported command", "proxy"),
            ("ERR something else", "refused"),
        ] {
            let error = asking(server_error(line), Layout::Redisson);
            assert_eq!(error.kind(), ErrorKind::Rejected, "{line}: {error}");
            assert!(error.message().contains(advice), "{error}");
        }
    }

    #[test]
    fn a_broken_connection_leaves_the_effect_unknown() {
        for kind in [
            std::io::ErrorKind::BrokenPipe,
            std::io::ErrorKind::ConnectionReset,
            std::io::ErrorKind::UnexpectedEof,
        ] {
            let broken = || RedisError::from(std::io::Error::from(kind));
            assert_eq!(
                asking(broken(), Layout::Own).kind(),
                ErrorKind::Unavailable { effect: Effect::Unknown }
            );
            assert_eq!(connecting(broken()).kind(), ErrorKind::Unavailable { effect: Effect::NotApplied });
            assert!(ends_connection(&broken()));
        }
    }

    #[test]
    fn another_protocol_is_refused_in_one_line() {
        for greeting in ["HTTP/1.1 400 Bad Request\r\n", "\u{15}\u{3}\u{1}\0\u{2}", "J\0\0\0\n8.4.0\0"] {
            let error = connecting(parse_redis_value(greeting.as_bytes()).expect_err("no RESP"));
            assert_eq!(error.kind(), ErrorKind::Rejected, "{greeting:?}: {error}");
            assert!(error.message().contains("no Redis") && !error.message().contains('\n'), "{error}");
        }
    }

    #[test]
    fn a_wrong_server_ends_its_connection() {
        for line in ["READONLY a", "MASTERDOWN a", "LOADING a"] {
            assert!(ends_connection(&server_error(line)));
        }
        for line in ["OOM a", "BUSY a", "WRONGTYPE a", "NOPERM a", "ERR a"] {
            assert!(!ends_connection(&server_error(line)));
        }
        assert!(is_refusal(&server_error("NOPERM a")) && !is_refusal(&server_error("OOM a")));
    }
}
