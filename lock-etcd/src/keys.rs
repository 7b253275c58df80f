//! The keys of locks in etcd: each name has a queue of keys, ordered by their creation.
//!
//! A key is `<prefix><name>/<suffix>`. The name is stored as it is, and the suffix has no `/`, so distinct names never
//! share a key. Our suffix is a byte that no name has, followed by `<client>-<number>`; the value is `<owner> <label>`.
//! Go's `concurrency.Mutex` writes its lease's id in hex, and an empty value. Deeper keys (`foo/bar/…` below `foo/`)
//! belong to other names. Our places sort behind all of those, in a range of their own, however many other names there
//! are.

use std::sync::Arc;

use lock_core::driver::Entry;
use lock_core::toolkit::Prefix;
use lock_core::{FencingToken, Label, Name, Owner, OwnerBytes, Random};

use crate::answers::StoredKey;

/// The place of one client's keys.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    pub(crate) prefix: Prefix,
    /// Sixteen hex digits, chosen at random when the client is opened.
    client: Arc<str>,
}

/// The byte that marks our places. UTF-8 never has this byte, so no name has it, and no key of a deeper name begins
/// with it.
const OURS: u8 = 0xff;

/// The keys of one name: its text with the prefix before it and a `/` behind it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Queue(Arc<str>);

/// One owner's place in a queue: its key, and the value that makes the key this owner's.
#[derive(Clone, Debug)]
pub(crate) struct Own {
    pub(crate) queue: Queue,
    pub(crate) key: Vec<u8>,
    /// The owner and the label.
    pub(crate) value: Vec<u8>,
    owner: Owner,
}

impl Layout {
    pub(crate) fn new(prefix: Prefix, random: &Random) -> Layout {
        let mut id = [0; 8];
        random.fill(&mut id);
        Layout { prefix, client: format!("{:016x}", u64::from_be_bytes(id)).into() }
    }

    pub(crate) fn queue(&self, name: &Name) -> Queue {
        Queue(format!("{}{name}/", self.prefix.as_str()).into())
    }

    pub(crate) fn own(&self, name: &Name, number: u32, owner: Owner, label: &Label) -> Own {
        let queue = self.queue(name);
        let key = [queue.ours().as_slice(), format!("{}-{number}", self.client).as_bytes()].concat();
        Own { queue, key, value: value(owner, label), owner }
    }

    /// Returns the name in whose queue this key is a place of a client of this library.
    pub(crate) fn name(&self, key: &[u8]) -> Option<Name> {
        let end = key.windows(2).rposition(|two| two == [b'/', OURS])?;
        self.prefix.name(&key[..end])
    }

    /// Returns whether a place of this queue belongs to this client.
    pub(crate) fn is_ours(&self, queue: &Queue, key: &[u8]) -> bool {
        let of_a_client = key.strip_prefix(queue.ours().as_slice()).unwrap_or_default();
        of_a_client.strip_prefix(self.client.as_bytes()).is_some_and(|rest| rest.starts_with(b"-"))
    }
}

/// Returns the first key behind all keys that begin with these bytes: etcd takes a single zero for no end at all.
pub(crate) fn end_of(beginning: &[u8]) -> Vec<u8> {
    let mut end = beginning.to_vec();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            return end;
        }
    }
    vec![0]
}

impl Queue {
    /// Returns what all keys of the queue begin with. Keys of deeper names begin with it, too.
    pub(crate) fn start(&self) -> &[u8] {
        self.0.as_bytes()
    }

    /// Returns what the places of this library's clients begin with, and no other key. They sort behind all others.
    pub(crate) fn ours(&self) -> Vec<u8> {
        [self.start(), &[OURS]].concat()
    }

    /// Returns whether this key is a place of this queue, and not a key of a deeper name.
    pub(crate) fn has(&self, key: &[u8]) -> bool {
        key.strip_prefix(self.start()).is_some_and(|suffix| !suffix.contains(&b'/'))
    }

    /// Returns the place that a client of etcd's own recipe has under this lease.
    pub(crate) fn place_by_recipe(&self, lease: i64) -> Vec<u8> {
        format!("{}{lease:x}", self.0).into_bytes()
    }

    /// Returns the tombstone: a key that the release of this owner writes. An attempt of the same owner under this
    /// lease has no effect if it finds the key. It is stored beside the name, so that a right to the prefix includes
    /// it.
    fn tombstone(&self, owner: &str, lease: i64) -> Vec<u8> {
        format!("{}:lock~r/{owner}-{lease:x}", self.name()).into_bytes()
    }

    /// Returns the key that tells an owner whose place is gone that it was revoked.
    pub(crate) fn revoke_marker(&self, owner: &str, created: i64) -> Vec<u8> {
        format!("{}:lock~v/{owner}-{created}", self.name()).into_bytes()
    }

    fn name(&self) -> &str {
        self.0.strip_suffix('/').unwrap_or(&self.0)
    }

    /// Returns a place as users see it: ours with owner and label, a foreign one with the end of its key.
    pub(crate) fn entry(&self, place: &StoredKey) -> Entry {
        let suffix = place.key.get(self.0.len()..).unwrap_or_default();
        let (owner, label) = match parse(&place.value) {
            Some((owner, label)) => (owner.as_bytes(), Some(Label::read(label))),
            None => (suffix, None),
        };
        let token = u64::try_from(place.created).ok().and_then(FencingToken::new);
        let mut entry = Entry::new(OwnerBytes::new(owner));
        (entry.label, entry.token) = (label, token);
        entry
    }
}

impl Own {
    pub(crate) fn tombstone(&self, lease: i64) -> Vec<u8> {
        self.queue.tombstone(&self.owner.to_string(), lease)
    }

    pub(crate) fn revoke_marker(&self, created: i64) -> Vec<u8> {
        self.queue.revoke_marker(&self.owner.to_string(), created)
    }
}

/// Returns the value of an owner's key.
pub(crate) fn value(owner: Owner, label: &Label) -> Vec<u8> {
    format!("{owner} {label}").into_bytes()
}

/// Returns the owner and the label of a value that this library has written.
pub(crate) fn parse(value: &[u8]) -> Option<(&str, &str)> {
    let (owner, label) = std::str::from_utf8(value).ok()?.split_once(' ')?;
    let is_owner = owner.len() == 32 && owner.bytes().all(|digit| digit.is_ascii_hexdigit());
    is_owner.then_some((owner, label))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout() -> Layout {
        Layout::new(Prefix::new("app/").unwrap(), &Random::system())
    }

    fn own(name: &str) -> Own {
        let owner = Owner::mint(&Random::system());
        layout().own(&Name::new(name).unwrap(), 3, owner, &Label::new("me"))
    }

    #[test]
    fn a_queue_has_no_keys_of_deeper_names() {
        let queue = layout().queue(&Name::new("foo").unwrap());
        assert_eq!(queue.start(), b"app/foo/");
        for its in ["app/foo/694d71ddacfda227", "app/foo/0123456789abcdef-0", "app/foo/"] {
            assert!(queue.has(its.as_bytes()), "{its}");
        }
        assert_eq!(queue.place_by_recipe(0x694d_71dd_acfd_a227), b"app/foo/694d71ddacfda227");
        for not in ["app/foo/bar/694d", "app/foo//x", "app/foobar/x", "app/fo/x", "app/foo"] {
            assert!(!queue.has(not.as_bytes()), "{not}");
        }
        // A name may end in a slash or contain slashes.
        for (a, b) in [("foo", "foo/"), ("foo/", "foo//"), ("foo", "foo/bar"), ("/", "//")] {
            let (a, b) = (own(a), own(b));
            assert!(a.queue.has(&a.key) && !a.queue.has(&b.key) && !b.queue.has(&a.key));
        }
    }

    #[test]
    fn our_places_lie_behind_all_deeper_names() {
        let foo = own("foo");
        let ours = foo.queue.ours();
        assert!(foo.key.starts_with(&ours));
        for last in ["foo/\u{10ffff}", "foo/\u{10ffff}/\u{10ffff}", "foo//", "foo/ÿ"] {
            let deeper = own(last);
            assert!(deeper.key.starts_with(foo.queue.start()) && deeper.key < ours, "{last:?}");
            assert!(deeper.tombstone(1) < ours && deeper.revoke_marker(1) < ours, "{last:?}");
        }
    }

    #[test]
    fn a_tombstone_is_in_no_queue() {
        let own = own("foo");
        let tombstone = own.tombstone(0x1f);
        assert!(tombstone.starts_with(b"app/foo:lock~r/") && tombstone.ends_with(b"-1f"));
        assert!(!own.queue.has(&tombstone));
        assert!(Name::new("foo:lock~r").is_err(), "no name can have a queue there");
    }

    #[test]
    fn a_client_knows_its_places() {
        let layout = layout();
        let owner = Owner::mint(&Random::system());
        let own = layout.own(&Name::new("foo").unwrap(), 0, owner, &Label::new("a b"));
        assert!(layout.is_ours(&own.queue, &own.key));
        assert!(!layout.is_ours(&own.queue, b"app/foo/694d71ddacfda227"));
        let place =
            StoredKey { key: own.key.clone(), value: own.value.clone(), created: 7, ..StoredKey::default() };
        let entry = own.queue.entry(&place);
        assert_eq!(entry.owner.as_bytes(), owner.to_string().as_bytes());
        assert_eq!((entry.label.as_deref(), entry.token.map(FencingToken::get)), (Some("a b"), Some(7)));
        let foreign = StoredKey { key: b"app/foo/694d71ddacfda227".to_vec(), ..place };
        let foreign = own.queue.entry(&StoredKey { value: Vec::new(), ..foreign });
        assert_eq!((foreign.owner.as_bytes(), foreign.label), (&b"694d71ddacfda227"[..], None));
    }
}
