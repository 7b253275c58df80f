//! The message by which a release wakes the waiters of a lock, in this library's own layouts: `released`, or
//! `released 7`, if seven connections listened. Any other text on the same channel wakes them, too.

/// The message without a number.
pub(crate) const RELEASED: &str = "released";

/// Returns how many clients wait, if the message says so.
pub(crate) fn waiters(message: &[u8]) -> Option<u32> {
    std::str::from_utf8(message).ok()?.strip_prefix(RELEASED)?.strip_prefix(' ')?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_may_say_how_many_wait() {
        assert_eq!((waiters(b"released 7"), waiters(b"released 120")), (Some(7), Some(120)));
        for other in [&b"released"[..], b"released x", b"released  1", b"0", b"\xff", b"released -1", b""] {
            assert_eq!(waiters(other), None);
        }
    }
}
