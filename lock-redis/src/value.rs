//! The value of a lock's key: who holds the lock, readable with `redis-cli get`.
//!
//! A value of this library consists of the owner's 32 hexadecimal digits and, if there is a label, a space and the
//! label. A revoke replaces it until the holder's deadline: by the holder's digits, `!`, and the label of the client
//! that revoked. The holder's digits let the holder release the name before its deadline. If the holder was a foreign
//! client, the digits are fresh ones. Values are compared as a whole. Every other value is a foreign client's.

use std::fmt::Display;
use std::time::Duration;

use lock_core::driver::Entry;
use lock_core::{FencingToken, Label, Owner, OwnerBytes};

/// The number of digits that an owner has.
pub(crate) const OWNER_DIGITS: usize = 32;

/// Returns the value while `owner` holds the lock.
pub(crate) fn held(owner: &impl Display, label: &Label) -> String {
    match label.as_str() {
        "" => owner.to_string(),
        label => format!("{owner} {label}"),
    }
}

/// Returns the value after a revoke of `holder`, until the holder's deadline.
pub(crate) fn revoked(holder: &[u8], by: &Owner, label: &Label) -> String {
    match digits(holder) {
        Some(digits) => format!("{digits}!{label}"),
        None => format!("{by}!{label}"),
    }
}

/// Returns the owner's digits if the value is one of this library.
fn digits(value: &[u8]) -> Option<&str> {
    let (digits, rest) = value.split_at_checked(OWNER_DIGITS)?;
    let ours = digits.iter().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    let ours = ours && matches!(rest.first(), None | Some(b' ' | b'!'));
    std::str::from_utf8(digits).ok().filter(|_| ours)
}

/// The server's answer about a holder.
pub(crate) struct Seen {
    pub(crate) value: Vec<u8>,
    pub(crate) left: Option<Duration>,
    /// The name's last token. It and `now`, the server's time, are in microseconds.
    pub(crate) token: Option<i64>,
    pub(crate) now: i64,
}

impl Seen {
    /// Returns what people are shown. Only a holder of this library has a token: the token beside a foreign client's
    /// lock is that of an earlier holder of ours.
    pub(crate) fn into_entry(self) -> Entry {
        let label = label(&self.value);
        let token = self.token.filter(|_| label.is_some());
        let since = token.map(|token| self.since(token));
        let mut entry = Entry::new(OwnerBytes::new(self.value));
        entry.token = token.and_then(|t| FencingToken::new(u64::try_from(t).ok()?));
        entry.since = since;
        entry.expires_in = self.left;
        entry.label = label;
        entry
    }

    /// Returns how long ago a token was minted that is the time of its grant.
    pub(crate) fn since(&self, token: i64) -> Duration {
        Duration::from_micros(u64::try_from(self.now - token).unwrap_or(0))
    }
}

/// Returns the label in a value of this library.
fn label(value: &[u8]) -> Option<Label> {
    digits(value)?;
    let (_, label) = value[OWNER_DIGITS..].split_first()?;
    std::str::from_utf8(label).ok().map(Label::read)
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
        assert_eq!(revoked(b"a foreign client's", &by, &deploy), format!("{by}!deploy@web-3 pid 7"));
        assert_eq!(held(&owner, &Label::new("")).len(), OWNER_DIGITS);
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
