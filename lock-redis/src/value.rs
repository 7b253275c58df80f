//! What a lock's key holds: who holds it, readable with `redis-cli get`.
//!
//! Ours: 32 hexadecimal digits of the owner, then, if there is a label, a space and the label. After a revoke, until
//! the holder's deadline: the holder's digits, `!`, and who revoked, so that it can give the name back before; 32 fresh
//! digits if the holder was a foreign client. Values are compared as a whole. Any other is a foreign client's.

use std::fmt::Display;
use std::time::Duration;

use lock_core::driver::Entry;
use lock_core::{FencingToken, Label, Owner, OwnerBytes};

const DIGITS: usize = 32;

/// While `owner` holds it.
pub(crate) fn held(owner: &impl Display, label: &Label) -> String {
    match label.as_str() {
        "" => owner.to_string(),
        label => format!("{owner} {label}"),
    }
}

/// After a revoke of `holder`, until its deadline.
pub(crate) fn revoked(holder: &[u8], by: &Owner, label: &Label) -> String {
    match digits(holder) {
        Some(digits) => format!("{digits}!{label}"),
        None => format!("{by}!{label}"),
    }
}

/// Whose value it is, if it is one of ours.
fn digits(value: &[u8]) -> Option<&str> {
    let (digits, rest) = value.split_at_checked(DIGITS)?;
    let ours = digits.iter().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    let ours = ours && matches!(rest.first(), None | Some(b' ' | b'!'));
    std::str::from_utf8(digits).ok().filter(|_| ours)
}

/// What the server tells of a holder.
pub(crate) struct Seen {
    pub(crate) value: Vec<u8>,
    pub(crate) left: Option<Duration>,
    /// The name's last token, and the server's time, both in microseconds.
    pub(crate) token: Option<i64>,
    pub(crate) now: i64,
}

impl Seen {
    /// For people. The token is told of holders that have one only: a foreign client's lock leaves the last one of
    /// ours where it was.
    pub(crate) fn into_entry(self) -> Entry {
        let label = label(&self.value);
        let token = self.token.filter(|_| label.is_some());
        Entry {
            token: token.and_then(|t| FencingToken::new(u64::try_from(t).ok()?)),
            since: token.map(|t| Duration::from_micros(u64::try_from(self.now - t).unwrap_or(0))),
            expires_in: self.left,
            owner: OwnerBytes::new(self.value),
            label,
        }
    }
}

/// What one of ours says of itself.
fn label(value: &[u8]) -> Option<String> {
    digits(value)?;
    let (_, label) = value[DIGITS..].split_first()?;
    String::from_utf8(label.to_vec()).ok()
}

#[cfg(test)]
mod tests {
    use lock_core::Random;

    use super::*;

    #[test]
    fn labels_are_read_back_and_foreign_values_left_alone() {
        let owner = Owner::mint(&Random::system());
        let deploy = Label::new("deploy@web-3 pid 7");
        assert_eq!(label(held(&owner, &deploy).as_bytes()).as_deref(), Some("deploy@web-3 pid 7"));
        let (holder, by) = (Owner::mint(&Random::system()), Owner::mint(&Random::system()));
        for before in [held(&holder, &deploy), held(&holder, &Label::new(""))] {
            let revoked = revoked(before.as_bytes(), &by, &deploy);
            assert_eq!(revoked, format!("{holder}!deploy@web-3 pid 7"), "of {before}");
            assert_eq!(label(revoked.as_bytes()).as_deref(), Some("deploy@web-3 pid 7"));
            assert_eq!(super::revoked(revoked.as_bytes(), &by, &Label::new("b")), format!("{holder}!b"));
        }
        assert_eq!(revoked(b"someone else's", &by, &deploy), format!("{by}!deploy@web-3 pid 7"));
        assert_eq!(held(&owner, &Label::new("")).len(), DIGITS);
        for foreign in ["", "1", "0b0cf1ac6d1a11ee8c990242ac120002", "G0000000000000000000000000000000 a"] {
            assert_eq!(label(foreign.as_bytes()), None, "{foreign:?}");
        }
        assert_eq!(label(b"00000000000000000000000000000000 \xff"), None);
    }

    #[test]
    fn a_foreign_holder_has_no_token() {
        let seen =
            |value: &str| Seen { value: value.into(), left: None, token: Some(5), now: 7 }.into_entry();
        let ours = seen("00000000000000000000000000000000 me");
        assert_eq!(
            (ours.token.map(FencingToken::get), ours.since),
            (Some(5), Some(Duration::from_micros(2)))
        );
        let foreign = seen("0b0cf1ac6d1a11ee8c990242ac120002");
        assert_eq!((foreign.token, foreign.since), (None, None));
    }
}
