//! The owner of a lock: a random identity for each acquisition, and a label for people.

use std::ffi::OsStr;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::path::Path;
use std::sync::Arc;

use crate::os;
use crate::random::Random;

/// One acquisition's identity: 128 random bits, made once and never used again.
///
/// The server stores it. It thereby recognises an attempt, a renewal or a release that arrives twice or late.
///
/// ```
/// # use lock_core as onelock;
/// # async fn example(lock: onelock::Lock) -> onelock::Result<()> {
/// // Each acquisition has an owner of its own, by which the server knows it.
/// let (first, second) = (lock.acquire().await?.owner(), lock.acquire().await?.owner());
/// assert_ne!(first, second);
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner([u8; 16]);

impl Owner {
    /// Makes an owner from the client's source of randomness.
    pub fn mint(random: &Random) -> Owner {
        let mut bytes = [0; 16];
        random.fill(&mut bytes);
        Owner(bytes)
    }

    /// Reads the 32 lower-case hex digits of an owner, with or without the dashes of a UUID.
    pub fn parse(text: &str) -> Option<Owner> {
        let digits: String = text.chars().filter(|c| *c != '-').collect();
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let number = u128::from_str_radix(&digits, 16).ok()?;
        (digits.len() == 32 && digits.bytes().all(is_digit)).then(|| Owner(number.to_be_bytes()))
    }

    /// Returns the 16 bytes.
    pub fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl fmt::Display for Owner {
    /// 32 lower-case hex digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The bytes that a server stores for an owner, of this library's client or of another one. They are opaque, and are
/// passed back to a revoke.
///
/// ```
/// # use lock_core as onelock;
/// # async fn example(lock: onelock::Lock) -> onelock::Result<()> {
/// use onelock::When;
///
/// // The holder that was shown, and no later one, loses the lock.
/// if let Some(holder) = lock.inspect().await?.holder {
///     lock.revoke(&holder.owner, When::HoldersDeadline).await?;
/// }
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct OwnerBytes {
    bytes: Arc<[u8]>,
    /// Whose bytes these are, if the bytes alone don't show it.
    owner: Option<Owner>,
}

impl OwnerBytes {
    /// Makes a value of the bytes that the server has.
    pub fn new(bytes: impl Into<Arc<[u8]>>) -> OwnerBytes {
        OwnerBytes { bytes: bytes.into(), owner: None }
    }

    /// Makes a value of the bytes that the server has for an owner of this library, where they are no more than a part
    /// of it: it is shown as the owner is.
    pub fn of(owner: Owner, bytes: impl Into<Arc<[u8]>>) -> OwnerBytes {
        OwnerBytes { bytes: bytes.into(), owner: Some(owner) }
    }

    /// Returns the bytes as the server has them.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// By the bytes alone.
impl PartialEq for OwnerBytes {
    fn eq(&self, other: &OwnerBytes) -> bool {
        self.bytes == other.bytes
    }
}

impl Eq for OwnerBytes {}

impl Hash for OwnerBytes {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.bytes.hash(state);
    }
}

impl fmt::Display for OwnerBytes {
    /// An owner of this library as its 32 hex digits, as [`Owner`] is shown, in whatever form the server has it. A foreign client's bytes are escaped, so that they can't disturb a
    /// terminal or a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.owner.or_else(|| of_bytes(&self.bytes)), digits(&self.bytes)) {
            (Some(owner), _) => fmt::Display::fmt(&owner, f),
            (None, Some(digits)) => f.write_str(digits),
            (None, None) => fmt::Display::fmt(&self.bytes.escape_ascii(), f),
        }
    }
}

/// Returns the owner if these can only be the bytes of one: a foreign client's text of this length is printable, and of
/// ten million owners one is.
fn of_bytes(bytes: &[u8]) -> Option<Owner> {
    let owner = Owner(bytes.try_into().ok()?);
    (!bytes.iter().all(|byte| matches!(byte, b' '..=b'~'))).then_some(owner)
}

/// Returns the 32 digits with which the text begins, if no other word begins with them.
fn digits(text: &[u8]) -> Option<&str> {
    let (digits, rest) = text.split_at_checked(32)?;
    let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let is_owner = digits.iter().all(is_digit) && !rest.first().is_some_and(u8::is_ascii_alphanumeric);
    std::str::from_utf8(digits).ok().filter(|_| is_owner)
}

impl fmt::Debug for OwnerBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

/// The longest label, in bytes of UTF-8. A longer one is cut at a character.
pub const MAX_LABEL: usize = 255;

/// The text that people see for an owner. By default `user@host pid 4711 program`.
///
/// ```
/// # use lock_core as onelock;
/// use onelock::Label;
///
/// assert_eq!(Label::new("deploy of web-3").to_string(), "deploy of web-3");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label(Arc<str>);

impl Label {
    /// Makes a label of one line: control characters become spaces, and more than [`MAX_LABEL`] bytes are cut off.
    pub fn new(text: &str) -> Label {
        let line = text.chars().map(|c| if c.is_control() { ' ' } else { c });
        let mut label = String::new();
        for c in line {
            if label.len() + c.len_utf8() > MAX_LABEL {
                break;
            }
            label.push(c);
        }
        Label(label.trim().into())
    }

    /// Makes the label `user@host pid 4711 program` of this process.
    pub fn of_this_process() -> Label {
        Label::of_program(&std::env::args_os().next().unwrap_or_default())
    }

    /// Makes the same label for a process that runs `program` in the place of its own work. The program's path is left
    /// out.
    pub fn of_program(program: &OsStr) -> Label {
        let program = Path::new(program).file_name().unwrap_or(program).to_string_lossy();
        Label::new(&format!("{}@{} pid {} {program}", os::user(), os::host(), std::process::id()))
    }

    /// Returns the label's text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_is_shown_as_the_same_digits_however_a_server_stores_it() {
        let owner = Owner(*b"\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\xff");
        let shown = "000102030405060708090a0b0c0d0eff";
        assert_eq!(owner.to_string(), shown);
        let stored: [&[u8]; 4] = [
            owner.as_bytes(),
            shown.as_bytes(),
            b"000102030405060708090a0b0c0d0eff deploy@web-3 pid 4711 sh",
            b"000102030405060708090a0b0c0d0eff!the admin",
        ];
        for bytes in stored {
            assert_eq!(OwnerBytes::new(bytes).to_string(), shown);
        }
        let uuid = "00010203-0405-0607-0809-0a0b0c0d0eff";
        assert_eq!(Owner::parse(uuid), Some(owner));
        let node = format!("_c_{uuid}-lock-0000000007").into_bytes();
        assert_eq!(OwnerBytes::of(owner, node.clone()).to_string(), shown);
        assert_eq!(OwnerBytes::of(owner, node.clone()), OwnerBytes::new(node), "the server's bytes count");
        for no_owner in ["", "00010203", &shown.to_uppercase(), &format!("+{}", &shown[1..])] {
            assert_eq!(Owner::parse(no_owner), None);
        }
        for (foreign, shown) in [
            (&b"deploy-host-0001"[..], "deploy-host-0001"),
            (b"\x1b[2J", "\\x1b[2J"),
            (b"000102030405060708090a0b0c0d0eff00", "000102030405060708090a0b0c0d0eff00"),
        ] {
            assert_eq!(OwnerBytes::new(foreign).to_string(), shown);
        }
    }

    #[test]
    fn a_label_is_one_short_line() {
        assert_eq!(Label::new(" a\nb\tc ").as_str(), "a b c");
        assert_eq!(Label::new(&"é".repeat(200)).as_str().len(), 254);
        assert!(Label::of_this_process().as_str().contains(" pid "));
    }
}
