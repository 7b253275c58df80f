//! The answers of `check`.

use crate::error::{Error, ErrorKind};
use crate::one_line::one_line;

/// One answer of a check.
///
/// ```
/// # use lock_core as onelock;
/// # async fn example(client: onelock::Client) -> onelock::Result<()> {
/// use onelock::Level;
///
/// let findings = client.check().await?;
/// for finding in findings.iter().filter(|finding| finding.level != Level::Good) {
///     println!("{}: {}", finding.subject, finding.message);
/// }
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Finding {
    /// The subject of the check: `reachable`, `rights`, `persistence`, …
    pub subject: &'static str,
    /// The result.
    pub level: Level,
    /// The result in words, with what to do if something has to be done.
    pub message: String,
}

impl Finding {
    /// Makes a finding about `subject`.
    pub fn new(subject: &'static str, level: Level, message: impl Into<String>) -> Finding {
        // A part of it may be a server's words.
        Finding { subject, level, message: one_line(&message.into()).into_owned() }
    }

    /// Makes the finding of a trial of what every lock needs, if it has failed: [`Bad`](Level::Bad) if the server has
    /// refused, for now or for ever, and [`Unknown`](Level::Unknown) only if it could not be asked.
    pub fn of_failure(subject: &'static str, error: &Error) -> Finding {
        let level = match error.kind() {
            ErrorKind::Unavailable { .. } if !error.is_refusal() => Level::Unknown,
            _ => Level::Bad,
        };
        Finding::new(subject, level, error.message())
    }
}

/// The result of a finding.
///
/// ```
/// # use lock_core as onelock;
/// # async fn example(client: onelock::Client) -> onelock::Result<()> {
/// use onelock::Level;
///
/// let is_unfit = client.check().await?.iter().any(|finding| finding.level == Level::Bad);
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// In order.
    Good,
    /// Works, with a limit that the message names.
    Warning,
    /// Locks will not work.
    Bad,
    /// The server does not say, or could not be asked.
    Unknown,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Effect;

    #[test]
    fn only_an_unasked_server_leaves_a_finding_unknown() {
        let level = |error: Error| Finding::of_failure("rights", &error).level;
        for effect in [Effect::NotApplied, Effect::Unknown] {
            assert_eq!(level(Error::unavailable(effect, "no answer")), Level::Unknown);
            assert_eq!(level(Error::unavailable(effect, "the disk is full").as_refusal()), Level::Bad);
        }
        assert_eq!(level(Error::rejected("no right")), Level::Bad);
        assert_eq!(level(Error::unsupported("a server of another kind")), Level::Bad);
        let repeated = Error::unavailable(Effect::Unknown, "x").as_refusal().not_applied().repeated();
        assert_eq!(level(repeated), Level::Bad);
    }
}
