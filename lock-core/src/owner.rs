//! The owner of a lock: a random identity for each acquisition, and a label for people.

use std::ffi::OsStr;
use std::fmt;
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
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct OwnerBytes(Arc<[u8]>);

impl OwnerBytes {
    /// Makes a value of the bytes that the server has.
    pub fn new(bytes: impl Into<Arc<[u8]>>) -> OwnerBytes {
        OwnerBytes(bytes.into())
    }

    /// Returns the bytes as the server has them.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for OwnerBytes {
    /// Escaped, so that a foreign client's bytes can't disturb a terminal or a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0.escape_ascii(), f)
    }
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
    fn a_label_is_one_short_line() {
        assert_eq!(Label::new(" a\nb\tc ").as_str(), "a b c");
        assert_eq!(Label::new(&"é".repeat(200)).as_str().len(), 254);
        assert!(Label::of_this_process().as_str().contains(" pid "));
    }
}
