//! The handle: what `lock acquire` prints and `lock release` needs. It is the proof that a lock is this job's, so it is
//! made of random bits alone: nothing in it comes from the server's URL, and nothing shows it but the answer of
//! `lock acquire`.

use std::env;
use std::fmt::Write;

use onelock::{Name, OwnerBytes, Random};

use crate::exit::{Exit, Failure};

/// The handle that releases one acquisition of a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Handle {
    /// A keeper holds the lock.
    Keeper(KeeperHandle),
    /// No process holds the lock: it was left to its lease. This is its holder, as the server has it.
    Lease(OwnerBytes),
}

/// The address of a keeper, and the secret by which the two sides know each other.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct KeeperHandle {
    /// The name of the keeper's socket, which every user of the machine can see.
    pub(super) socket: [u8; 8],
    /// The caller's proof. Without it the keeper does nothing.
    pub(super) question: [u8; 16],
    /// The keeper's proof. Without it an answer counts for nothing: another process may have taken the name of the
    /// socket when the keeper has ended.
    pub(super) answer: [u8; 16],
}

impl KeeperHandle {
    pub(super) fn new(random: &Random) -> KeeperHandle {
        let mut handle = KeeperHandle { socket: [0; 8], question: [0; 16], answer: [0; 16] };
        for part in [&mut handle.socket[..], &mut handle.question, &mut handle.answer] {
            random.fill(part);
        }
        handle
    }
}

/// Shows no secret.
impl std::fmt::Debug for KeeperHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeeperHandle").field("socket", &hex(&self.socket)).finish_non_exhaustive()
    }
}

impl Handle {
    /// Reads the handle of this lock from the environment.
    pub(super) fn of_environment(name: &Name) -> Result<Option<Handle>, Failure> {
        let variable = variable(name);
        match env::var_os(&variable).filter(|value| !value.is_empty()) {
            None => Ok(None),
            Some(text) => match text.to_str().and_then(|text| Handle::parse(text.trim())) {
                Some(handle) => Ok(Some(handle)),
                // The value is not shown: it may be a part of a handle.
                None => {
                    let what = format!("${variable} is no handle: it must be what lock acquire has printed");
                    Err(Failure::new(Exit::Usage, what))
                }
            },
        }
    }

    fn parse(text: &str) -> Option<Handle> {
        let (kind, rest) = text.split_once('.')?;
        let parts: Vec<Vec<u8>> = rest.split('.').map(bytes).collect::<Option<_>>()?;
        match (kind, &parts[..]) {
            (KEEPER, [socket, question, answer]) => Some(Handle::Keeper(KeeperHandle {
                socket: socket[..].try_into().ok()?,
                question: question[..].try_into().ok()?,
                answer: answer[..].try_into().ok()?,
            })),
            (LEASE, [owner]) if !owner.is_empty() => Some(Handle::Lease(OwnerBytes::new(&owner[..]))),
            _ => None,
        }
    }
}

/// Words that no shell changes.
impl std::fmt::Display for Handle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Handle::Keeper(KeeperHandle { socket, question, answer }) => {
                write!(f, "{KEEPER}.{}.{}.{}", hex(socket), hex(question), hex(answer))
            }
            Handle::Lease(owner) => write!(f, "{LEASE}.{}", hex(owner.as_bytes())),
        }
    }
}

const KEEPER: &str = "keeper";
const LEASE: &str = "lease";

/// Returns the variable with the handle of this lock. A byte that a variable's name can't have, and `_`, are written as
/// `_` and two digits: so two locks never have the same variable.
pub(super) fn variable(name: &Name) -> String {
    name.as_str().bytes().fold("LOCK_HANDLE_".to_owned(), |mut variable, byte| {
        match byte.is_ascii_alphanumeric() {
            true => variable.push(char::from(byte)),
            false => drop(write!(variable, "_{byte:02x}")),
        }
        variable
    })
}

/// Returns whether two secrets are equal. How long this takes does not show where they differ.
pub(super) fn are_equal(a: &[u8], b: &[u8]) -> bool {
    let differences = a.iter().zip(b).fold(0, |all, (a, b)| std::hint::black_box(all | (a ^ b)));
    a.len() == b.len() && differences == 0
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(super) fn bytes(hex: &str) -> Option<Vec<u8>> {
    let is_hex =
        hex.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f')) && hex.len().is_multiple_of(2);
    let pair = |at| u8::from_str_radix(&hex[at..at + 2], 16).ok();
    is_hex.then(|| (0..hex.len()).step_by(2).map(pair).collect::<Option<_>>())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_survives_the_environment() {
        let of_keeper = Handle::Keeper(KeeperHandle::new(&Random::system()));
        let of_lease = Handle::Lease(OwnerBytes::new(&b"\x000001 sh -c 'a b'"[..]));
        for handle in [of_keeper, of_lease] {
            let text = handle.to_string();
            assert!(text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'.'), "{text}");
            assert_eq!(Handle::parse(&text), Some(handle));
            for other in [&text[1..], &text[..text.len() - 1], &text.to_uppercase(), &format!("{text}.00")] {
                assert_eq!(Handle::parse(other), None, "{other}");
            }
        }
    }

    #[test]
    fn a_handle_of_a_keeper_shows_no_secret() {
        let handle = KeeperHandle::new(&Random::system());
        let shown = format!("{handle:?}");
        assert!(!shown.contains(&hex(&handle.question)) && !shown.contains(&hex(&handle.answer)), "{shown}");
    }

    #[test]
    fn two_locks_never_share_a_variable() {
        let names = ["a-b", "a_b", "a.b", "a_2db", "A-b", "a b", "ä", "a:b"];
        let variables: Vec<String> = names.iter().map(|name| variable(&Name::new(name).unwrap())).collect();
        assert_eq!(variables[0], "LOCK_HANDLE_a_2db");
        for (at, of) in variables.iter().enumerate() {
            assert!(of.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'), "{of}");
            assert!(!variables[..at].contains(of), "{of}");
        }
    }

    #[test]
    fn secrets_are_equal_only_as_a_whole() {
        assert!(are_equal(b"abc", b"abc"));
        for other in [&b"abd"[..], b"bbc", b"ab", b"abcd", b""] {
            assert!(!are_equal(b"abc", other) && !are_equal(other, b"abc"));
        }
    }
}
