//! Names of locks, and the prefix that keeps one user's names apart from another's.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use crate::error::{Error, Result};

/// The longest name, in bytes of UTF-8.
pub const MAX_NAME: usize = 512;
/// The longest prefix, in bytes of UTF-8.
pub const MAX_PREFIX: usize = 128;
/// The end of the keys beside a lock (its token, its channel). One ASCII letter for the kind of key follows it.
pub const RESERVED_SUFFIX: &str = ":lock~";

/// The name of a lock: 1 to 512 bytes of UTF-8 that don't end in the reserved suffix and a letter.
///
/// Two names that differ in any byte never exclude each other, on any backend. The same name always does.
///
/// ```
/// # use lock_core as onelock;
/// use onelock::{ErrorKind, Name};
///
/// let name = Name::new("billing/invoices").unwrap();
/// assert_eq!(name.as_str(), "billing/invoices");
/// assert_eq!(Name::new("").unwrap_err().kind(), ErrorKind::Invalid);
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Arc<str>);

impl Name {
    /// Parses a name.
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::ErrorKind::Invalid) if the name is empty, is longer than [`MAX_NAME`], or could be mistaken
    /// for a key beside another lock (`…:lock~t`, or `lock~t` itself, which a prefix could complete).
    pub fn new(name: impl AsRef<str>) -> Result<Name> {
        let name = name.as_ref();
        if name.is_empty() {
            return Err(Error::invalid("a lock's name must not be empty"));
        }
        if name.len() > MAX_NAME {
            return Err(Error::invalid(format!(
                "a lock's name has at most {MAX_NAME} bytes, this one has {}: \"{}…\"",
                name.len(),
                name.chars().take(40).collect::<String>().escape_debug(),
            )));
        }
        if is_reserved(name) {
            return Err(Error::invalid(format!(
                "the name {name:?} ends in \"{RESERVED_SUFFIX}\" and a letter, which is reserved for the keys beside a lock"
            )));
        }
        Ok(Name(name.into()))
    }

    /// Returns the name as it was given.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn is_reserved(name: &str) -> bool {
    let Some(head) = name.strip_suffix(|kind: char| kind.is_ascii_alphabetic()) else { return false };
    head.ends_with(RESERVED_SUFFIX) || head == &RESERVED_SUFFIX[1..]
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Borrow<str> for Name {
    fn borrow(&self) -> &str {
        &self.0
    }
}

/// The text before every name on the server: `?prefix=` in a URL. Empty by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prefix(Arc<str>);

impl Prefix {
    /// Returns the prefix.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Parses a prefix.
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::ErrorKind::Invalid) if the prefix is longer than [`MAX_PREFIX`], or ends in the beginning of
    /// the reserved suffix (a single `:` is fine): a name behind it could then look like a key beside another lock.
    pub fn new(prefix: impl AsRef<str>) -> Result<Prefix> {
        let prefix = prefix.as_ref();
        if prefix.len() > MAX_PREFIX {
            return Err(Error::invalid(format!(
                "a prefix has at most {MAX_PREFIX} bytes, this one has {}",
                prefix.len()
            )));
        }
        if (2..=RESERVED_SUFFIX.len()).any(|n| prefix.ends_with(&RESERVED_SUFFIX[..n])) {
            return Err(Error::invalid(format!(
                "the prefix {prefix:?} ends in the beginning of \"{RESERVED_SUFFIX}\", which is reserved for the keys beside a lock"
            )));
        }
        Ok(Prefix(prefix.into()))
    }

    /// Returns the key of a lock on the server: the prefix, then the name as it is.
    pub fn key(&self, name: &Name) -> String {
        let mut key = String::with_capacity(self.0.len() + name.as_str().len());
        key.push_str(&self.0);
        key.push_str(name.as_str());
        key
    }

    /// Returns the name in a key of the server's, if the key has this prefix. The inverse of [`key`](Self::key).
    pub fn strip<'a>(&self, key: &'a str) -> Option<&'a str> {
        key.strip_prefix(&*self.0)
    }

    /// Returns the name of the lock with this key on the server; `None` if no lock of this prefix can have it.
    pub fn name(&self, key: &[u8]) -> Option<Name> {
        Name::new(self.strip(std::str::from_utf8(key).ok()?)?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_comes_back_from_its_key() {
        let prefix = Prefix::new("app:").unwrap();
        for name in ["a", "app:", "ä/b"] {
            let name = Name::new(name).unwrap();
            assert_eq!(prefix.name(prefix.key(&name).as_bytes()), Some(name));
        }
        for key in [&b"app:"[..], b"other:a", b"app:a:lock~t", b"app:\xff"] {
            assert_eq!(prefix.name(key), None, "{key:?}");
        }
    }

    #[test]
    fn names_are_accepted_verbatim_or_refused() {
        for good in [
            "a", " a ", "A", "ä", "{}", "a\nb", "a\0b", "%_", ":lock~", ":lock~tt", "x:lock~7", "block~t",
            "🔒",
        ] {
            assert_eq!(Name::new(good).unwrap().as_str(), good);
        }
        for bad in ["", "x:lock~t", ":lock~Z", "lock~t", "a000:lock~w"] {
            assert!(Name::new(bad).is_err(), "{bad:?}");
        }
        assert!(Name::new("é".repeat(256)).is_ok());
        assert!(Name::new("é".repeat(257)).is_err());
    }

    #[test]
    fn no_prefix_completes_a_name_to_a_side_key() {
        for bad in ["x:l", "x:lo", "x:loc", "x:lock", ":lock~"] {
            assert!(Prefix::new(bad).is_err(), "{bad:?}");
        }
        for prefix in ["", "app:", "app/", ":", "l", "~"] {
            let prefix = Prefix::new(prefix).unwrap();
            for name in ["lock~", "ock~t", "~t", "t", "k~t"] {
                let key = prefix.key(&Name::new(name).unwrap());
                assert!(!is_reserved(&key) || !key.contains(':'), "{key:?}");
            }
        }
    }
}
