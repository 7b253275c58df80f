//! Keys beside a lock: its token, its channel, the highest token that a resource has seen.
//!
//! A side key is the key, then three bytes that steer it into the key's own cluster slot, then a fixed suffix.
//! Therefore it shares the key's slot, two keys never share a side key, no name looks like a side key (the suffix is
//! reserved), and it begins with the key, as access rules by prefix and `SCAN` need. Wrapping the key in braces instead
//! would miss the slot of names that contain braces, let `a` and `{a}` collide, and hide the prefix.

use lock_core::toolkit::RESERVED_SUFFIX;

/// The purpose of a side key. The value is its last letter.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// The last token of a lock.
    Token = b't' as isize,
    /// The label of the holder, where the lock's key has no place for it.
    Label = b'l' as isize,
    /// The waiters of a fair lock, in the order in which they came.
    Order = b'o' as isize,
    /// Until when each waiter of a fair lock counts as alive.
    Alive = b'a' as isize,
    /// The channel on which a lock's releases are published.
    Wakes = b'w' as isize,
    /// The highest token that a resource has seen.
    Fence = b'f' as isize,
    /// The channel on which the revokes of all locks with one prefix are published. Its key is that prefix.
    Revokes = b'r' as isize,
    /// The identity of one node of several, and what its clients have agreed on.
    Marker = b'm' as isize,
    /// Exists while that node has no vote.
    Quarantine = b'q' as isize,
}

/// Returns the side key of `key`.
pub(crate) fn side_key(key: &[u8], kind: Kind) -> Vec<u8> {
    let mut whole = Vec::with_capacity(key.len() + STEERING + SUFFIX);
    whole.extend_from_slice(key);
    whole.extend_from_slice(&steering(key, kind));
    whole.extend_from_slice(&suffix(kind));
    whole
}

/// Returns the pattern of `SCAN` for the side keys of all keys that begin with `beginning`.
pub(crate) fn pattern(beginning: &[u8], kind: Kind) -> Vec<u8> {
    let mut pattern = Vec::new();
    for byte in beginning {
        if matches!(byte, b'*' | b'?' | b'[' | b']' | b'^' | b'\\') {
            pattern.push(b'\\');
        }
        pattern.push(*byte);
    }
    pattern.push(b'*');
    pattern.extend_from_slice(&suffix(kind));
    pattern
}

/// Returns the key that has this side key; `None` if it is none.
pub(crate) fn lock_of(side: &[u8], kind: Kind) -> Option<&[u8]> {
    let key = &side[..side.len().checked_sub(STEERING + SUFFIX)?];
    (side_key(key, kind) == side).then_some(key)
}

/// Returns the slot of a cluster to which this key belongs.
pub(crate) fn slot(key: &[u8]) -> u16 {
    crc16(0, tag(key).unwrap_or(key)) % SLOTS as u16
}

const STEERING: usize = 3;
const SUFFIX: usize = RESERVED_SUFFIX.len() + 1;
pub(crate) const SLOTS: usize = 16_384;
const ALPHABET: &[u8; 64] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_-";

fn suffix(kind: Kind) -> [u8; SUFFIX] {
    let mut suffix = [kind as u8; SUFFIX];
    suffix[..RESERVED_SUFFIX.len()].copy_from_slice(RESERVED_SUFFIX.as_bytes());
    suffix
}

fn steering(key: &[u8], kind: Kind) -> [u8; STEERING] {
    if tag(key).is_some() {
        // The slot is the tag's, whatever follows it.
        return *b"000";
    }
    let slot = crc16(0, key);
    let unsteered = crc16(crc16(slot, &[0; STEERING]), &suffix(kind));
    STEERINGS[usize::from(slot ^ unsteered) % SLOTS]
}

/// Returns the part of the key that Redis hashes, if it is not the whole key: the text between the first `{` and the first
/// `}` after it, unless that is empty.
fn tag(key: &[u8]) -> Option<&[u8]> {
    let behind = &key[key.iter().position(|b| *b == b'{')? + 1..];
    let length = behind.iter().position(|b| *b == b'}')?;
    (length > 0).then(|| &behind[..length])
}

/// For every difference between two slots, three bytes that cancel it when the suffix follows them: the first ones in the
/// order of the alphabet. The checksum is linear, so the effect of each byte depends neither on the key nor on the others.
///
/// The compiler makes the table. A program that takes one lock would spend half of its time on it.
static STEERINGS: [[u8; STEERING]; SLOTS] = {
    let effects = [effects_at(0), effects_at(1), effects_at(2)];
    let mut table = [[0; STEERING]; SLOTS];
    let (mut missing, mut nth) = (SLOTS, 0);
    // If the combinations did not reach every slot, this would not compile.
    while missing > 0 {
        let [a, b, c] = [nth >> 12, nth >> 6 & 63, nth & 63];
        let entry = &mut table[(effects[0][a] ^ effects[1][b] ^ effects[2][c]) as usize % SLOTS];
        if entry[0] == 0 {
            *entry = [ALPHABET[a], ALPHABET[b], ALPHABET[c]];
            missing -= 1;
        }
        nth += 1;
    }
    table
};

/// Returns what each letter at this place does to the checksum.
const fn effects_at(place: usize) -> [u16; ALPHABET.len()] {
    let mut effects = [0; ALPHABET.len()];
    let mut nth = 0;
    while nth < ALPHABET.len() {
        let mut bytes = [0; STEERING];
        bytes[place] = ALPHABET[nth];
        effects[nth] = crc16(crc16(0, &bytes), &[0; SUFFIX]);
        nth += 1;
    }
    effects
}

/// CRC-16/XMODEM, by which Redis Cluster computes slots, continued from `crc`.
const fn crc16(mut crc: u16, bytes: &[u8]) -> u16 {
    let mut at = 0;
    while at < bytes.len() {
        crc = (crc << 8) ^ CRC[((crc >> 8) ^ bytes[at] as u16) as usize];
        at += 1;
    }
    crc
}

const CRC: [u16; 256] = {
    let mut table = [0; 256];
    let mut index = 0;
    while index < 256 {
        let mut crc = (index as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = (crc << 1) ^ (if crc & 0x8000 != 0 { 0x1021 } else { 0 });
            bit += 1;
        }
        table[index] = crc;
        index += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use lock_core::{Name, Random};

    use super::*;

    #[test]
    fn a_lock_is_found_by_its_side_key() {
        for key in [&b"app:a"[..], b"", b"a{b}c", b"\xff*"] {
            assert_eq!(lock_of(&side_key(key, Kind::Token), Kind::Token), Some(key));
            assert_eq!(lock_of(&side_key(key, Kind::Wakes), Kind::Token), None);
        }
        assert_eq!(lock_of(b"app:a", Kind::Token), None);
        assert_eq!(pattern(b"a*[b]?\\^", Kind::Token), b"a\\*\\[b\\]\\?\\\\\\^*:lock~t");
    }

    /// Computes a key's slot as the cluster specification describes it.
    fn slot(key: &[u8]) -> u16 {
        let text = key;
        let hashed = match text.iter().position(|b| *b == b'{') {
            Some(open) => match text[open + 1..].iter().position(|b| *b == b'}') {
                Some(length) if length > 0 => &text[open + 1..open + 1 + length],
                _ => text,
            },
            None => text,
        };
        // Bit by bit, without the table under test.
        let crc = hashed.iter().fold(0_u16, |crc, byte| {
            (0..8).fold(crc ^ (u16::from(*byte) << 8), |crc, _| {
                if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 }
            })
        });
        crc % 16_384
    }

    /// Returns names with braces in all places, and arbitrary bytes.
    fn keys(count: usize) -> Vec<Vec<u8>> {
        let random = Random::system();
        let mut keys: Vec<Vec<u8>> =
            ["a", "{a}", "{}", "{", "}", "{}a", "a{}{b}", "{{a}}", "}{", "a{b", "foo{bar}{zap}"]
                .map(|k| k.as_bytes().to_vec())
                .into();
        while keys.len() < count {
            let mut bytes = [0; 24];
            random.fill(&mut bytes);
            let length = 1 + usize::from(bytes[0] % 20);
            let letters: &[u8] = if bytes[1] % 2 == 0 { b"{}ab" } else { &bytes[2..22] };
            keys.push((0..length).map(|i| letters[usize::from(bytes[2 + i]) % letters.len()]).collect());
        }
        keys
    }

    #[test]
    fn checksums_are_the_clusters() {
        assert_eq!(crc16(0, b"123456789"), 0x31C3);
        // The answers of CLUSTER KEYSLOT.
        assert_eq!([slot(b"foo"), slot(b"hello"), slot(b"{foo}bar")], [12_182, 866, 12_182]);
    }

    #[test]
    fn a_side_key_stands_in_the_keys_slot() {
        for key in keys(20_000) {
            for kind in [Kind::Token, Kind::Wakes, Kind::Fence] {
                let side = side_key(&key, kind);
                assert_eq!(slot(&side), slot(&key), "{}", side.escape_ascii());
                assert_eq!(super::slot(&side), slot(&key));
                assert!(side.starts_with(&key));
            }
        }
    }

    #[test]
    fn side_keys_are_distinct_and_no_names() {
        let keys: HashSet<Vec<u8>> = keys(20_000).into_iter().collect();
        let sides: HashSet<Vec<u8>> = keys.iter().map(|key| side_key(key, Kind::Token)).collect();
        assert_eq!(sides.len(), keys.len());
        for side in sides {
            assert!(!String::from_utf8(side).is_ok_and(|side| Name::new(side).is_ok()));
        }
    }

    #[test]
    fn the_steering_of_a_slot_is_its_first_combination() {
        let mut first = vec![[0; STEERING]; SLOTS];
        for (a, b, c) in combinations() {
            let bytes = [a, b, c];
            let entry = &mut first[usize::from(crc16(crc16(0, &bytes), &[0; SUFFIX])) % SLOTS];
            if *entry == [0; STEERING] {
                *entry = bytes;
            }
        }
        assert_eq!(first, STEERINGS);
    }

    fn combinations() -> impl Iterator<Item = (u8, u8, u8)> {
        let letters = || ALPHABET.iter().copied();
        letters().flat_map(move |a| letters().flat_map(move |b| letters().map(move |c| (a, b, c))))
    }

    #[test]
    fn the_layout_is_fixed() {
        // Clients of every version must find each other's tokens.
        assert_eq!(side_key(b"{a}b", Kind::Token), b"{a}b000:lock~t");
        assert_eq!(side_key(b"jobs:a", Kind::Token), b"jobs:a07r:lock~t");
        assert_eq!(side_key(b"nightly-report", Kind::Token), b"nightly-report08g:lock~t");
        assert_eq!(side_key("\u{e9}".as_bytes(), Kind::Token), b"\xc3\xa94L8:lock~t");
    }
}
