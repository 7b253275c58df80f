//! The only error type: what happened, on which server, for which name, and what to do.

use std::fmt;
use std::time::Duration;

use crate::entry::Entry;
use crate::name::Name;
use crate::one_line::one_line;

/// A result of this library.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The kind of an error. Contention is not an error: it is `Ok(None)`, until a caller's own wait runs out.
///
/// ```
/// # use lock_core as onelock;
/// # async fn example(lock: onelock::Lock) -> onelock::Result<()> {
/// use onelock::ErrorKind;
///
/// match lock.acquire().await {
///     Ok(guard) => println!("ours, with token {}", guard.token()),
///     Err(e) => match e.kind() {
///         ErrorKind::Timeout => println!("held: {e}"),
///         ErrorKind::Unavailable { .. } => println!("try again later: {e}"),
///         _ => return Err(e),
///     },
/// }
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The caller's wait ran out while another holder had the lock, or another caller of the same client was before
    /// this one.
    Timeout,
    /// The lock was lost before the work was done.
    Lost,
    /// The server could not be reached, or did not answer in time.
    Unavailable {
        /// The effect that the request may have had.
        effect: Effect,
    },
    /// The server refused: rights, limits, or a key that no lock client can have written.
    Rejected,
    /// The caller asked for something malformed.
    Invalid,
    /// The backend, or this build of it, can't do that.
    Unsupported,
}

/// The known effect of a request that was not answered.
///
/// ```
/// # use lock_core as onelock;
/// use onelock::{Effect, Error, ErrorKind};
///
/// let error = Error::unavailable(Effect::Unknown, "the server did not answer");
/// assert!(error.may_have_taken_effect());
/// assert_eq!(error.kind(), ErrorKind::Unavailable { effect: Effect::Unknown });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The request was not carried out, and will not be.
    NotApplied,
    /// The request may have been carried out, or may still be carried out.
    Unknown,
}

/// An error of this library. Its `Display` is one line for people and never holds a password.
///
/// ```
/// # use lock_core as onelock;
/// # async fn example(lock: onelock::Lock) -> onelock::Result<()> {
/// if let Err(error) = lock.acquire().await {
///     // For people: one line with the operation, the name and the server.
///     println!("{error}");
///     if let Some(holder) = error.holder() {
///         println!("the holder's lease ends in {:?}", holder.expires_in);
///     }
///     if error.is_transient() {
///         println!("the same call may succeed later");
///     }
/// }
/// # Ok(()) }
/// ```
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    message: String,
    context: Option<Context>,
    holder: Option<Entry>,
    retry_in: Option<Duration>,
    /// An `Unavailable` is the server's own answer.
    is_answer: bool,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// The call in which the error happened. The core adds it once.
struct Context {
    backend: &'static str,
    server: String,
    operation: &'static str,
    name: Option<Name>,
}

impl Error {
    fn new(kind: ErrorKind, message: impl Into<String>) -> Error {
        // A part of it may be a server's words.
        let message = one_line(&message.into()).into_owned();
        let (context, holder, retry_in, source) = (None, None, None, None);
        Error(Box::new(Inner { kind, message, context, holder, retry_in, is_answer: false, source }))
    }

    /// Makes an error of the kind `Timeout`: the caller's wait ran out.
    pub fn timeout(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Timeout, message)
    }

    /// Makes an error of the kind `Lost`: the lock was lost.
    pub fn lost(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Lost, message)
    }

    /// Makes an error of the kind `Unavailable`: the server did not answer, or answered that it can't at the moment.
    pub fn unavailable(effect: Effect, message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Unavailable { effect }, message)
    }

    /// Makes an error of the kind `Rejected`: the server refused.
    pub fn rejected(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Rejected, message)
    }

    /// Makes an error of the kind `Invalid`: the caller asked for something malformed.
    pub fn invalid(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Invalid, message)
    }

    /// Makes an error of the kind `Unsupported`: this backend, or this build of it, can't do that.
    pub fn unsupported(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Unsupported, message)
    }

    /// Adds the error that caused this one.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
        self.0.source = Some(source.into());
        self
    }

    /// Adds the time after which the server can be asked again, as the server says.
    #[must_use]
    pub fn with_retry_in(mut self, after: Duration) -> Error {
        self.0.retry_in = Some(after);
        self
    }

    /// Marks an `Unavailable` as the server's own answer: it was reached, and it refused. Without the mark, the server
    /// was not reached, or has not answered.
    #[must_use]
    pub fn as_refusal(mut self) -> Error {
        self.0.is_answer = true;
        self
    }

    /// Returns the same error for a request that can't have an effect, such as a read: `Unavailable` then has
    /// [`Effect::NotApplied`]. All other kinds stay as they are.
    #[must_use]
    pub fn not_applied(mut self) -> Error {
        if let ErrorKind::Unavailable { effect } = &mut self.0.kind {
            *effect = Effect::NotApplied;
        }
        self
    }

    /// Returns the same error for another call, without its source.
    pub(crate) fn repeated(&self) -> Error {
        let Inner { kind, message, retry_in, is_answer, .. } = &*self.0;
        let mut repeated = Error::new(*kind, message.clone());
        (repeated.0.retry_in, repeated.0.is_answer) = (*retry_in, *is_answer);
        repeated
    }

    /// Adds `more` to the end of the message: how far a call of many requests had come, how often it was tried.
    #[must_use]
    pub fn and_says(mut self, more: &str) -> Error {
        self.0.message.push_str(more);
        self
    }

    /// Adds the holder that the caller waited for.
    pub(crate) fn with_holder(mut self, holder: Entry) -> Error {
        self.0.holder = Some(holder);
        self
    }

    /// Adds where the error happened, unless that is known already: the first addition was nearest to the cause.
    pub(crate) fn at(
        mut self,
        backend: &'static str,
        server: &str,
        operation: &'static str,
        name: Option<&Name>,
    ) -> Error {
        self.0.context.get_or_insert_with(|| Context {
            backend,
            server: server.to_owned(),
            operation,
            name: name.cloned(),
        });
        self
    }

    /// Returns the kind of this error.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Returns whether the same call may succeed later without any change by the caller.
    pub fn is_transient(&self) -> bool {
        matches!(self.0.kind, ErrorKind::Unavailable { .. })
    }

    /// Returns whether the server may have done what it was asked.
    pub fn may_have_taken_effect(&self) -> bool {
        self.0.kind == ErrorKind::Unavailable { effect: Effect::Unknown }
    }

    /// Returns whether the server itself has refused: every `Rejected`, and an `Unavailable` that the server has answered
    /// (it has no memory left, its disk is full, it takes no writes). `false` if it was not reached or has not answered.
    pub fn is_refusal(&self) -> bool {
        self.0.kind == ErrorKind::Rejected || self.0.is_answer
    }

    /// Returns the time after which to try again, where the server says so.
    pub fn retry_in(&self) -> Option<Duration> {
        self.0.retry_in
    }

    /// Returns what happened, without where it happened.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Returns the backend on which the error happened: `redis`, `memory`, …
    pub fn backend(&self) -> Option<&'static str> {
        self.0.context.as_ref().map(|c| c.backend)
    }

    /// Returns the address of the server, for people. Never holds a password. `None` for a server without an address.
    pub fn server(&self) -> Option<&str> {
        self.0.context.as_ref().map(|c| c.server.as_str()).filter(|server| !server.is_empty())
    }

    /// Returns what was asked of the library: `connect`, `acquire`, `renew`, `release`, …
    pub fn operation(&self) -> Option<&'static str> {
        self.0.context.as_ref().map(|c| c.operation)
    }

    /// Returns the holder that the caller waited for: of a `Timeout`, where the server has shown the holder.
    pub fn holder(&self) -> Option<&Entry> {
        self.0.holder.as_ref()
    }

    /// Returns the name of the lock for which the error happened.
    pub fn name(&self) -> Option<&Name> {
        self.0.context.as_ref().and_then(|c| c.name.as_ref())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(Context { backend, server, operation, name }) = &self.0.context {
            write!(f, "{operation}")?;
            if let Some(name) = name {
                write!(f, " {name:?}")?;
            }
            write!(f, " on {backend}")?;
            if !server.is_empty() {
                write!(f, " at {server}")?;
            }
            f.write_str(": ")?;
        }
        f.write_str(&self.0.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {self}", self.0.kind)?;
        match &self.0.source {
            Some(source) => write!(f, " ({})", one_line(&source.to_string())),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|s| s as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Proves: cleaned-text
    #[test]
    fn a_message_is_one_line() {
        let error =
            Error::rejected("the server refused: a\nlock: b\u{1b}[2J").with_source("c\r\nd").and_says("; e");
        assert_eq!(error.message(), "the server refused: a lock: b [2J; e");
        assert_eq!(format!("{error:?}"), "Rejected: the server refused: a lock: b [2J; e (c  d)");
    }
}
