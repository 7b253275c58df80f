//! A lock's document, as the server returns it.

use std::time::Duration;

use lock_core::driver::Entry;
use lock_core::{Error, FencingToken, Label, Owner, OwnerBytes, Result};
use mongodb::bson::{Bson, Document};

use crate::statements::FRESH;

/// The fields of a lock's document, and the server's time when it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    /// Empty if no owner has taken the lock since its last release.
    pub(crate) owner: Vec<u8>,
    pub(crate) label: Label,
    pub(crate) token: Option<FencingToken>,
    /// Milliseconds since 1970 by the server's clock, as `waiting` and `now`.
    expires: i64,
    /// The owner that the lock was revoked from; empty if it was not revoked.
    revoked: Vec<u8>,
    /// Until when the mark of the waiters counts.
    waiting: i64,
    now: i64,
}

impl Record {
    /// Parses an answer that the server gave at its time `now`. `Rejected` if no lock client can have written the
    /// document.
    pub(crate) fn parse(document: &Document, now: i64) -> Result<Record> {
        let token = match document.get("token") {
            None => None,
            Some(Bson::Int64(token)) => {
                Some(u64::try_from(*token).ok().and_then(FencingToken::new).ok_or_else(|| foreign("token"))?)
            }
            Some(_) => return Err(foreign("token")),
        };
        Ok(Record {
            owner: bytes(document, "owner")?,
            label: match document.get("label") {
                None => Label::new(""),
                Some(Bson::String(label)) => Label::read(label),
                Some(_) => return Err(foreign("label")),
            },
            token,
            expires: date(document, "expires")?.unwrap_or(0),
            revoked: bytes(document, "revoked")?,
            waiting: date(document, "waiting")?.unwrap_or(0),
            now,
        })
    }

    /// Returns the server's time, if the answer has it. If the `mongodb` crate sends a write twice, the server answers
    /// the second one with the document that it recorded for the first one, without the time.
    pub(crate) fn time(document: &Document) -> Option<i64> {
        Some(document.get_datetime("now").ok()?.timestamp_millis())
    }

    /// Returns how much of the lease is left; `None` if the lock is free.
    pub(crate) fn left(&self) -> Option<Duration> {
        let left = u64::try_from(self.expires.saturating_sub(self.now)).ok().filter(|left| *left > 0);
        left.map(Duration::from_millis)
    }

    pub(crate) fn is_of(&self, owner: &Owner) -> bool {
        self.owner == owner.as_bytes()
    }

    pub(crate) fn was_revoked_from(&self, owner: &Owner) -> bool {
        self.revoked == owner.as_bytes()
    }

    /// Returns whether the mark says that a claim waits.
    pub(crate) fn is_waited_for(&self) -> bool {
        self.waiting > self.now
    }

    /// Returns whether a waiter has to write the mark, because the present one has less than [`FRESH`] left.
    pub(crate) fn needs_mark(&self) -> bool {
        self.waiting < self.now.saturating_add(FRESH)
    }

    /// Converts the record to what is shown of a holder; `None` if the lock is free.
    pub(crate) fn into_entry(self) -> Option<Entry> {
        let left = self.left()?;
        let now = u64::try_from(self.now).unwrap_or(0).saturating_mul(1000);
        let mut entry = Entry::new(OwnerBytes::new(self.owner));
        entry.since = self.token.map(|token| Duration::from_micros(now.saturating_sub(token.get())));
        entry.token = self.token;
        entry.expires_in = Some(left);
        entry.label = Some(self.label);
        Some(entry)
    }
}

fn bytes(document: &Document, field: &str) -> Result<Vec<u8>> {
    match document.get(field) {
        None => Ok(Vec::new()),
        Some(Bson::Binary(binary)) => Ok(binary.bytes.clone()),
        Some(_) => Err(foreign(field)),
    }
}

fn date(document: &Document, field: &str) -> Result<Option<i64>> {
    match document.get(field) {
        None => Ok(None),
        Some(Bson::DateTime(date)) => Ok(Some(date.timestamp_millis())),
        Some(_) => Err(foreign(field)),
    }
}

fn foreign(field: &str) -> Error {
    Error::rejected(format!(
        "no lock client has written this document: its field {field:?} has a wrong type or value; use another \
         collection or name, or remove the document"
    ))
}

#[cfg(test)]
mod tests {
    use lock_core::{ErrorKind, Random};
    use mongodb::bson::{DateTime, doc};

    use super::*;
    use crate::statements;

    #[test]
    fn only_a_held_lock_shows_a_holder() {
        let owner = Owner::mint(&Random::system());
        let held = doc! {
            "owner": statements::bytes(owner.as_bytes()), "label": "me", "token": 5_000_i64,
            "expires": DateTime::from_millis(40),
        };
        let record = Record::parse(&held, 10).unwrap();
        assert!(record.is_of(&owner) && !record.was_revoked_from(&owner));
        let entry = record.into_entry().unwrap();
        assert_eq!(entry.expires_in, Some(Duration::from_millis(30)));
        assert_eq!(entry.since, Some(Duration::from_millis(5)));
        let free = doc! { "token": 5_i64, "expires": statements::NEVER };
        assert_eq!(Record::parse(&free, 10).unwrap().into_entry().map(|entry| entry.owner), None);
        assert_eq!(Record::parse(&doc! {}, 10).unwrap().left(), None);
        assert_eq!(Record::time(&doc! { "now": DateTime::from_millis(10) }), Some(10));
    }

    #[test]
    fn what_no_lock_client_can_have_written_is_rejected() {
        for foreign in [
            doc! { "token": 1.5 },
            doc! { "token": 0_i64 },
            doc! { "owner": "me" },
            doc! { "expires": 12 },
            doc! { "label": 1 },
        ] {
            assert_eq!(Record::parse(&foreign, 10).unwrap_err().kind(), ErrorKind::Rejected, "{foreign}");
        }
    }
}
