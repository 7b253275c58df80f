//! Who holds a lock: a random identity per acquisition, and a label for people.

use std::ffi::OsStr;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use crate::name::Name;
use crate::os;
use crate::random::Random;

/// One acquisition's identity: 128 random bits, minted once and never used again.
///
/// The server stores it, so that an attempt, a renewal or a release that arrives twice or late is recognised.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner([u8; 16]);

impl Owner {
    /// Mints an owner from the client's source of randomness.
    pub fn mint(random: &Random) -> Owner {
        let mut bytes = [0; 16];
        random.fill(&mut bytes);
        Owner(bytes)
    }

    /// What a hub knows a claim by that is told of its own lock, and not of a name's.
    pub fn to_name(self) -> Name {
        Name::new(self.to_string()).expect("32 hex digits are a name")
    }

    /// The 16 bytes.
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

/// What a server stores for an owner, ours or a foreign client's: opaque bytes, to be handed back to a revoke.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct OwnerBytes(Arc<[u8]>);

impl OwnerBytes {
    /// The bytes as the server has them.
    pub fn new(bytes: impl Into<Arc<[u8]>>) -> OwnerBytes {
        OwnerBytes(bytes.into())
    }

    /// The bytes as the server has them.
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

/// The longest label, in bytes of UTF-8; what is longer is cut at a character.
pub const MAX_LABEL: usize = 255;

/// What people see of an owner: by default `user@host pid 4711 program`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label(Arc<str>);

impl Label {
    /// A label of the caller's choice, in one line: control characters become spaces, more than [`MAX_LABEL`]
    /// bytes are cut off.
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

    /// `user@host pid 4711 program` of this process.
    pub fn of_this_process() -> Label {
        Label::of_program(&std::env::args_os().next().unwrap_or_default())
    }

    /// The same for a process that runs `program` in the place of its own work; its path is left out.
    pub fn of_program(program: &OsStr) -> Label {
        let program = Path::new(program).file_name().unwrap_or(program).to_string_lossy();
        Label::new(&format!("{}@{} pid {} {program}", os::user(), os::host(), std::process::id()))
    }

    /// The label's text.
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
