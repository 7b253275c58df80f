//! A lock's document, as the server answers it.

use std::time::Duration;

use lock_core::driver::Entry;
use lock_core::{Error, FencingToken, Owner, OwnerBytes, Result};
use mongodb::bson::{Bson, Document};

use crate::statements::FRESH;

/// What a document says, and the server's time beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    /// Empty if nobody has had the lock since its last release.
    pub(crate) owner: Vec<u8>,
    pub(crate) label: String,
    pub(crate) token: Option<FencingToken>,
    /// Milliseconds since 1970, by the server's clock, as `now`.
    expires: i64,
    /// From whom the lock was revoked.
    revoked: Vec<u8>,
    /// Until when it is believed that somebody waits.
    waiting: i64,
    now: i64,
}

impl Record {
    /// Reads an answer, as of the server's time `now`. `Rejected` if no lock client can have written what it shows.
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
                None => String::new(),
                Some(Bson::String(label)) => label.clone(),
                Some(_) => return Err(foreign("label")),
            },
            token,
            expires: date(document, "expires")?.unwrap_or(0),
            revoked: bytes(document, "revoked")?,
            waiting: date(document, "waiting")?.unwrap_or(0),
            now,
        })
    }

    /// The server's time, where the answer has it. An answer that the server kept for a request that the driver sent
    /// twice is the document as it was then, and nothing else.
    pub(crate) fn time(document: &Document) -> Option<i64> {
        Some(document.get_datetime("now").ok()?.timestamp_millis())
    }

    /// What is left of the lease; `None` if the lock is free.
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

    /// Whether somebody waits, as far as those who do have said.
    pub(crate) fn is_waited_for(&self) -> bool {
        self.waiting > self.now
    }

    /// Whether whoever waits has to say so, because nobody has for a while.
    pub(crate) fn wants_a_mark(&self) -> bool {
        self.waiting < self.now.saturating_add(FRESH)
    }

    /// For people; `None` if nobody holds the lock.
    pub(crate) fn into_entry(self) -> Option<Entry> {
        let left = self.left()?;
        let now = u64::try_from(self.now).unwrap_or(0).saturating_mul(1000);
        Some(Entry {
            since: self.token.map(|token| Duration::from_micros(now.saturating_sub(token.get()))),
            token: self.token,
            expires_in: Some(left),
            owner: OwnerBytes::new(self.owner),
            label: Some(self.label),
        })
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
        "no lock client has written this document: its field {field:?} is of another kind; take another collection or \
         name, or remove the document"
    ))
}

#[cfg(test)]
mod tests {
    use lock_core::{ErrorKind, Random};
    use mongodb::bson::{DateTime, doc};

    use super::*;
    use crate::statements;

    #[test]
    fn a_holder_is_shown_and_a_free_lock_has_none() {
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
