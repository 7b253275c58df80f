//! The message by which a release wakes the waiters of a lock, in this library's own layouts. Any other text on the same
//! channel wakes them, too.

use std::borrow::Cow;
use std::time::Duration;

/// The message of an owner that had not waited.
pub(crate) const RELEASED: &str = "released";

/// Returns the message of an owner that had waited so long: a space and whole milliseconds follow.
pub(crate) fn released(waited: Duration) -> Cow<'static, str> {
    match waited.as_millis() {
        0 => RELEASED.into(),
        millis => format!("{RELEASED} {millis}").into(),
    }
}

/// Returns how long the owner had waited, if the message says so.
pub(crate) fn waited(message: &[u8]) -> Option<Duration> {
    let millis = std::str::from_utf8(message).ok()?.strip_prefix(RELEASED)?.strip_prefix(' ')?;
    Some(Duration::from_millis(millis.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_says_how_long_its_owner_had_waited() {
        let millis = Duration::from_millis;
        for waited_for in [millis(1), millis(16), millis(3_600_000)] {
            assert_eq!(waited(released(waited_for).as_bytes()), Some(waited_for));
        }
        assert_eq!((&*released(Duration::from_micros(999)), waited(b"released")), ("released", None));
        for other in [&b"released x"[..], b"released  1", b"0", b"\xff", b"released -1", b""] {
            assert_eq!(waited(other), None);
        }
    }
}
