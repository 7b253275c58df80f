//! The payload of a notification, in hexadecimal digits: the lock that was released, or, behind an exclamation mark,
//! the owner that a lock was revoked from. Behind the lock and a number sign is a decimal number: how many releases its
//! last owner had heard while it waited. The payload can't be the name itself: it must be text in the database's
//! encoding, and a name may contain any character.

use lock_core::toolkit::Prefix;

/// Returns the channel of a table's releases and revokes. It contains the table's number, because a name may lack its
/// schema.
pub(super) fn channel(table: i64) -> String {
    format!("onelock_{table}")
}

/// Returns the owner that a lock was revoked from, if the payload is of a revoke.
pub(super) fn revoked(payload: &str) -> Option<&str> {
    payload.strip_prefix('!')
}

/// Returns the name of the lock that was released, if it has our prefix, and how many releases its last owner had heard;
/// `None` if the payload does not tell that.
pub(super) fn read(payload: &str, prefix: &Prefix) -> Option<(String, Option<u32>)> {
    let (digits, heard) = match payload.split_once('#') {
        Some((digits, heard)) => (digits, Some(heard.parse().ok()?)),
        None => (payload, None),
    };
    let pairs = digits.as_bytes().chunks(2);
    let bytes: Option<Vec<u8>> =
        pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect();
    let key = String::from_utf8(bytes?).ok()?;
    Some((prefix.strip(&key)?.to_owned(), heard))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_names_a_lock_with_our_prefix() {
        let prefix = Prefix::new("a:").unwrap();
        assert_eq!(read("613ac3a9", &prefix), Some(("é".to_owned(), None)));
        assert_eq!(read("613ac3a9#12", &prefix), Some(("é".to_owned(), Some(12))));
        assert_eq!((revoked("!0a"), revoked("613a")), (Some("0a"), None));
        for other in ["!613a", "62c3a9", "613", "613a", "zz", "613aff", "", "613ac3a9#", "613ac3a9#-1"] {
            assert!(read(other, &prefix).is_none_or(|(name, _)| name.is_empty()), "{other}");
        }
    }
}
