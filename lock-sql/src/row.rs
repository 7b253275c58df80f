//! A lock's row, as every dialect reads it.

use std::time::Duration;

use lock_core::driver::{Busy, Entry};
use lock_core::{Error, FencingToken, Label, Owner, OwnerBytes, Result};

/// A lock's row.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) owner: Vec<u8>,
    pub(crate) token: i64,
    /// The rest of the lease; `None` if the lock is not held.
    pub(crate) left: Option<Duration>,
    pub(crate) label: Label,
    /// The owner that the lock was first revoked from, until the next grant.
    pub(crate) revoked: Option<Vec<u8>>,
    /// The time since the grant.
    pub(crate) since: Duration,
}

impl Row {
    pub(crate) fn is_held_by(&self, owner: &Owner) -> bool {
        self.left.is_some() && self.owner == owner.as_bytes()
    }

    pub(crate) fn was_revoked_from(&self, owner: &Owner) -> bool {
        self.revoked.as_deref() == Some(owner.as_bytes())
    }

    /// Returns the answer to an attempt of another owner that found this row.
    pub(crate) fn into_busy(self) -> Busy {
        Busy::default().with_free_in(self.left).with_holder(self.into_holder())
    }

    pub(crate) fn into_holder(self) -> Option<Entry> {
        let left = self.left?;
        let mut entry = Entry::new(OwnerBytes::new(self.owner));
        entry.label = Some(self.label);
        entry.token = token(self.token).ok();
        entry.since = Some(self.since);
        entry.expires_in = Some(left);
        Some(entry)
    }
}

/// Converts the number in a row to a token.
pub(crate) fn token(number: i64) -> Result<FencingToken> {
    let token = u64::try_from(number).ok().and_then(FencingToken::new);
    token.ok_or_else(|| Error::rejected("the lock's row holds an impossible token"))
}
