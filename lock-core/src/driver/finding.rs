//! The answers of `check`.

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
    /// What was checked: `reachable`, `rights`, `persistence`, …
    pub subject: &'static str,
    /// The result.
    pub level: Level,
    /// The result in words, with what to do if something has to be done.
    pub message: String,
}

impl Finding {
    /// Makes a finding about `subject`.
    pub fn new(subject: &'static str, level: Level, message: impl Into<String>) -> Finding {
        Finding { subject, level, message: message.into() }
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
    /// The server does not say.
    Unknown,
}
