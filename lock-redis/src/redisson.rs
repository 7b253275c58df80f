//! Names and fields as Redisson 4 writes them, so that its locks and ours are the same locks.
//!
//! A lock is a hash whose key is the lock's name. Its one field names the holder and counts its holds:
//! Redisson writes `<its client's uuid>:<thread>`, this library `<owner as a uuid>:0`. A revoke replaces the
//! field until the holder's deadline: by the holder's, `!`, and the label of the client that revoked. The
//! hash has no place for a holder's label: that is in a key beside it, behind the holder's field and a space.

use lock_core::driver::Entry;
use lock_core::{FencingToken, Label, Owner, OwnerBytes};

use crate::side::slot;
use crate::value::Seen;

/// The thread in our fields. Java's threads count from 1.
const THREAD: &str = ":0";
/// The number of digits that a uuid has between its dashes.
const GROUPS: [usize; 5] = [8, 4, 4, 4, 12];
const UUID: usize = 36;

/// The message of a release.
pub(crate) const RELEASED: &str = "0";

/// Returns the field of an owner of this library.
pub(crate) fn field(owner: &Owner) -> String {
    let digits = owner.to_string();
    let mut rest = digits.as_str();
    let groups = GROUPS.map(|length| {
        let (group, behind) = rest.split_at(length);
        rest = behind;
        group
    });
    format!("{}{THREAD}", groups.join("-"))
}

/// Returns the field after a revoke of `holder`, until the holder's deadline.
pub(crate) fn revoked(holder: &[u8], by: &Owner, label: &Label) -> String {
    match Field::parse(holder) {
        Some(Field { field, .. }) => format!("{field}!{label}"),
        None => format!("{}!{label}", field(by)),
    }
}

/// Returns the digits of the owner that this field names; `None` if it is not one of this library.
pub(crate) fn digits(field: &[u8]) -> Option<String> {
    let Field { field, .. } = Field::parse(field)?;
    Some(field[..UUID].replace('-', ""))
}

/// Returns the channel on which the releases of this lock are published.
pub(crate) fn channel(lock: &[u8]) -> Vec<u8> {
    beside("redisson_lock__channel", lock)
}

/// Returns the key of the counter from which holders of an `RFencedLock` have their tokens.
pub(crate) fn counter(lock: &[u8]) -> Vec<u8> {
    beside("redisson_lock_token", lock)
}

/// Returns the key that keeps the answer to the release with this id, for a request that is sent again.
pub(crate) fn latch(lock: &[u8], id: &Owner) -> Vec<u8> {
    let mut latch = beside("redisson_unlock_latch", lock);
    latch.extend_from_slice(format!(":{id}").as_bytes());
    latch
}

/// Returns whether a cluster has all of these in the slot of the lock.
pub(crate) fn is_in_one_slot(lock: &[u8]) -> bool {
    // What is beside the lock has the same braces, whatever it is.
    slot(&beside("", lock)) == slot(lock)
}

/// The source of a lock's token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenSource {
    /// The server's time, in a key that only this library knows.
    Clock,
    /// The counter of `RFencedLock`.
    Counter,
}

/// Returns what people are shown of a holder.
pub(crate) fn entry(seen: Seen, source: TokenSource) -> Entry {
    let ours = Field::parse(&seen.value);
    let (owner, label) = match &ours {
        Some(field) => (field.shown(), field.label.map(Label::read)),
        None => (OwnerBytes::new(seen.value.clone()), None),
    };
    let token = seen.token.filter(|_| ours.is_some() || source == TokenSource::Counter);
    let since = token.filter(|_| source == TokenSource::Clock).map(|token| seen.since(token));
    let mut entry = Entry::new(owner);
    entry.token = token.and_then(|token| FencingToken::new(u64::try_from(token).ok()?));
    entry.since = since;
    entry.expires_in = seen.left;
    entry.label = label;
    entry
}

/// Returns a name beside the lock's, in the same slot of a cluster: as Redisson does, by braces around the lock's name,
/// unless that has some itself.
fn beside(what: &str, lock: &[u8]) -> Vec<u8> {
    match lock.contains(&b'{') {
        true => [what.as_bytes(), b":", lock].concat(),
        false => [what.as_bytes(), b":{", lock, b"}"].concat(),
    }
}

/// A field of this library, with a label if there is one.
struct Field<'a> {
    text: &'a str,
    /// The field that names the owner.
    field: &'a str,
    /// The character between the field and the label: a space behind a holder, an exclamation mark after a revoke.
    mark: Option<char>,
    label: Option<&'a str>,
}

impl<'a> Field<'a> {
    fn parse(bytes: &'a [u8]) -> Option<Field<'a>> {
        let text = std::str::from_utf8(bytes).ok()?;
        let (uuid, rest) = text.split_at_checked(UUID)?;
        let is_hex = |group: &str| group.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        let groups: Vec<&str> = uuid.split('-').collect();
        if groups.iter().map(|group| group.len()).ne(GROUPS) || !groups.into_iter().all(is_hex) {
            return None;
        }
        let behind = rest.strip_prefix(THREAD)?;
        let mark = behind.chars().next();
        if !matches!(mark, None | Some(' ' | '!')) {
            return None;
        }
        Some(Field { text, field: &text[..UUID + THREAD.len()], mark, label: mark.and(behind.get(1..)) })
    }

    /// Returns the owner as the hash has it, to show and to revoke it.
    fn shown(&self) -> OwnerBytes {
        let bytes = self.in_the_hash().as_bytes();
        match Owner::parse(&self.field[..UUID]) {
            Some(owner) => OwnerBytes::of(owner, bytes),
            None => OwnerBytes::new(bytes),
        }
    }

    /// Returns what is in the hash: a holder's label is not.
    fn in_the_hash(&self) -> &str {
        if self.mark == Some('!') { self.text } else { self.field }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use lock_core::Random;

    use super::*;

    fn text(bytes: &[u8]) -> &str {
        std::str::from_utf8(bytes).unwrap()
    }

    #[test]
    fn names_are_redissons() {
        // As captured from Redisson 4.7.
        assert_eq!(text(&channel(b"n")), "redisson_lock__channel:{n}");
        assert_eq!(text(&channel(b"a{b}c")), "redisson_lock__channel:a{b}c");
        assert_eq!(text(&channel(b"a{b")), "redisson_lock__channel:a{b");
        assert_eq!(text(&channel(b"a}b")), "redisson_lock__channel:{a}b}");
        assert_eq!(text(&counter(b"a{b}c")), "redisson_lock_token:a{b}c");
        let owner = Owner::mint(&Random::system());
        assert_eq!(text(&latch(b"n", &owner)), format!("redisson_unlock_latch:{{n}}:{owner}"));
    }

    #[test]
    fn braces_that_are_no_tag_are_in_two_slots() {
        for name in ["n", "a{b}c", "{a}", "{a}}", "{{a}}", "{a}{}"] {
            assert!(is_in_one_slot(name.as_bytes()), "{name}");
        }
        for name in ["{", "}", "a{b", "a}b", "{}", "{}a", "}{"] {
            let slots = [channel, counter].map(|beside| slot(&beside(name.as_bytes())));
            assert!(!is_in_one_slot(name.as_bytes()) && !slots.contains(&slot(name.as_bytes())), "{name}");
        }
    }

    #[test]
    fn a_uuid_and_number_field_is_read_back() {
        let owner = Owner::mint(&Random::system());
        let ours = field(&owner);
        let (uuid, number) = ours.split_once(':').unwrap();
        assert_eq!(uuid.split('-').map(str::len).collect::<Vec<_>>(), GROUPS);
        assert_eq!((number, uuid.replace('-', "")), ("0", owner.to_string()));
        assert_eq!(digits(ours.as_bytes()), Some(owner.to_string()));
        let deploy = Label::new("deploy");
        let by = Owner::mint(&Random::system());
        let revoked_once = revoked(ours.as_bytes(), &by, &deploy);
        assert_eq!(revoked_once, format!("{ours}!deploy"));
        assert_eq!(digits(revoked_once.as_bytes()), Some(owner.to_string()));
        assert_eq!(revoked(revoked_once.as_bytes(), &by, &Label::new("b")), format!("{ours}!b"));
        let theirs = format!("{uuid}:57");
        assert_eq!(revoked(theirs.as_bytes(), &by, &deploy), format!("{}!deploy", field(&by)));
        for foreign in
            [theirs.as_str(), "", "some-rust-owner", uuid, &format!("{ours}x"), &ours.to_uppercase()]
        {
            assert_eq!(digits(foreign.as_bytes()), None, "{foreign}");
        }
    }

    #[test]
    fn only_our_holder_has_our_token() {
        let owner = Owner::mint(&Random::system());
        let (ours, theirs) = (field(&owner), "0b0cf1ac-6d1a-11ee-8c99-0242ac120002:1".to_owned());
        let shown = |field: &str, source| {
            let seen = Seen { value: field.into(), left: None, token: Some(5), now: 7 };
            let entry = entry(seen, source);
            (entry.token.map(FencingToken::get), entry.since, entry.label)
        };
        assert_eq!(shown(&ours, TokenSource::Clock), (Some(5), Some(Duration::from_micros(2)), None));
        assert_eq!(shown(&theirs, TokenSource::Clock), (None, None, None));
        assert_eq!(shown(&ours, TokenSource::Counter), (Some(5), None, None));
        assert_eq!(shown(&theirs, TokenSource::Counter), (Some(5), None, None));
        let seen = Seen { value: ours.clone().into(), left: None, token: None, now: 7 };
        assert_eq!(
            entry(seen, TokenSource::Clock).owner.to_string(),
            owner.to_string(),
            "as its holder is shown"
        );
        for (value, owner, label) in [
            (format!("{ours} deploy@web pid 7"), ours.clone(), Some("deploy@web pid 7")),
            (format!("{ours}!me"), format!("{ours}!me"), Some("me")),
            (format!("{theirs} x"), format!("{theirs} x"), None),
        ] {
            let seen = Seen { value: value.into(), left: None, token: None, now: 7 };
            let entry = entry(seen, TokenSource::Clock);
            assert_eq!((entry.owner, entry.label.as_deref()), (OwnerBytes::new(owner.into_bytes()), label));
        }
    }
}
