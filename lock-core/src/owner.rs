//! The owner of a lock: a random identity for each acquisition, and a label for people.

use std::ffi::OsStr;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;

use crate::one_line::one_line;
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
    /// An owner of this library as its 32 hex digits, as [`Owner`] is shown, in whatever form the server has
    /// it. A foreign client's bytes are escaped, so that they can't disturb a terminal or a log.
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
    /// Makes a label of one line: characters that would control a terminal or end a line become spaces, and more than
    /// [`MAX_LABEL`] bytes are cut off. A text that begins like the label of [done](crate::driver::Entry::is_done) work
    /// loses the colon there.
    pub fn new(text: impl AsRef<str>) -> Label {
        let label = Label::read(text.as_ref());
        match label.0.strip_prefix(DONE) {
            Some(rest) => Label::read(&format!("done {rest}")),
            None => label,
        }
    }

    /// Reads a label that a server has, for a backend. Any client may have written it: it becomes one line, as by
    /// [`new`](Self::new), and can be shown.
    pub fn read(text: &str) -> Label {
        let line = one_line(text);
        let mut end = line.len().min(MAX_LABEL);
        while !line.is_char_boundary(end) {
            end -= 1;
        }
        Label(line[..end].trim().into())
    }

    /// Returns the label of the same work when it is done, and its lock is kept to the end of its slot.
    pub(crate) fn done(&self) -> Label {
        Label::read(&format!("{DONE}{self}"))
    }

    /// Returns the label of the work that is done; `None` for every other label.
    pub(crate) fn of_done(&self) -> Option<&str> {
        self.0.strip_prefix(DONE)
    }

    /// Makes the label `user@host pid 4711 program` of this process.
    pub fn of_this_process() -> Label {
        Label::of_program(&std::env::args_os().next().unwrap_or_default())
    }

    /// Makes the same label for a process that runs `program` in the place of its own work. The program's path is left
    /// out.
    pub fn of_program(program: &OsStr) -> Label {
        let program = Path::new(program).file_name().unwrap_or(program).to_string_lossy();
        Label::new(format!("{}@{} pid {} {program}", os::user(), os::host(), std::process::id()))
    }

    /// Returns the label's text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Deref for Label {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The beginning of a label of done work, and of no label that a user gives.
const DONE: &str = "done: ";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_shows_equal_digits_in_every_encoding() {
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
        assert_eq!(Label::new("é".repeat(200)).as_str().len(), 254);
        assert!(Label::of_this_process().as_str().contains(" pid "));
    }

    // Proves: slot-done-is-shown
    #[test]
    fn no_user_makes_a_label_of_done_work() {
        let label = Label::new("deploy");
        assert_eq!((label.of_done(), label.done().of_done()), (None, Some("deploy")));
        let read = Label::read(label.done().as_str());
        assert_eq!((read.as_str(), read.of_done()), ("done: deploy", Some("deploy")));
        for text in ["done: deploy", " done: deploy", "\tdone: done: deploy", "\u{2028}done:\tdeploy"] {
            assert_eq!(Label::new(text).of_done(), None, "{text:?}");
        }
        assert_eq!(Label::new("done: deploy").as_str(), "done deploy");
        assert!(Label::new("x".repeat(300)).done().of_done().is_some());
    }
}
