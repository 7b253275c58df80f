//! Waiting for what a program does in its own time.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use super::product::Product;

/// Asks at this interval until there is an answer. Returns `None` if there is none within `limit`.
pub(super) fn until<T>(
    limit: Duration,
    interval: Duration,
    mut ask: impl FnMut() -> io::Result<Option<T>>,
) -> io::Result<Option<T>> {
    let deadline = Instant::now() + limit;
    loop {
        let answer = ask()?;
        if answer.is_some() || Instant::now() >= deadline {
            return Ok(answer);
        }
        thread::sleep(interval);
    }
}

/// Waits until the server at `url` answers, and returns its name and version.
///
/// The error says how the server `ended`, or that it does not answer within `limit`. It ends with the last lines of what
/// the server has `printed`.
pub(super) fn greeted(
    (product, url): (&dyn Product, &str),
    (limit, interval): (Duration, Duration),
    ended: impl Fn() -> io::Result<Option<String>>,
    printed: impl Fn() -> String,
) -> io::Result<String> {
    let mut state = String::new();
    let greeted = until(limit, interval, || match product.greet(url) {
        Ok(version) => Ok(Some(Some(version))),
        Err(refusal) => {
            let ended = ended()?;
            let has_ended = ended.is_some();
            state = ended.unwrap_or_else(|| format!("it doesn't answer after {limit:?} ({refusal})"));
            Ok(has_ended.then_some(None))
        }
    })?;
    let said = || io::Error::other(format!("{state}; its log ends with: {}", last_lines(&printed())));
    greeted.flatten().ok_or_else(said)
}

/// Returns the last lines of what a program printed, in one line.
pub(super) fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines[lines.len().saturating_sub(4)..].join(" | ")
}
