//! The row of a lock: the value of its key, and what that means at a moment.

use std::time::Duration;

use super::span::Span;
use super::text;
use crate::driver::{Entry, When};
use crate::error::Result;
use crate::name::Name;
use crate::owner::{Label, Owner, OwnerBytes};
use crate::token::FencingToken;
use crate::toolkit::Notice;

/// The value of a lock's key: the last change of the lock, and what the next client has to know.
///
/// A row means nothing without the stamp of its write: a lease counts from there, and a row that was stamped after its own
/// deadline is void to every reader. A free lock is a row, too, because it keeps the last token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    pub(super) change: Change,
    /// The owner that wrote it, in hex. After a grant, a renewal or a revoke at the deadline it holds the lock.
    pub(super) owner: String,
    /// The time for which the lock is kept from the stamp on, in microseconds.
    pub(super) lease: i64,
    /// The lock is kept until this moment at least, if it is kept at all.
    pub(super) least: i64,
    /// The row is void if it was stamped later.
    pub(super) until: Option<i64>,
    /// The lock's token. After a grant: the last token before it.
    pub(super) token: u64,
    /// Since when the lock is held; `None` for the stamp of this write.
    pub(super) since: Option<i64>,
    /// The last owner from which the lock was revoked.
    pub(super) revoked: Option<String>,
    pub(super) label: Label,
}

/// The effect of a write on the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// An owner has got it.
    Granted,
    /// The owner keeps the lock.
    Renewed,
    /// The owner has released the lock.
    Released,
    /// Another owner has revoked it. With a deadline, the other owner's row replaces the holder's until then.
    Revoked(When),
}

/// The identity of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    /// The server's stamp.
    pub(super) stamp: i64,
    /// When it was written indeed: stamps may be rounded down.
    pub(super) written: Span,
    /// The revision, if that is a number that rises.
    pub(super) number: Option<u64>,
}

impl Mark {
    pub(super) fn exactly(stamp: i64, number: Option<u64>) -> Mark {
        Mark { stamp, written: Span::exactly(stamp), number }
    }
}

impl Row {
    /// Parses the value of a key.
    ///
    /// # Errors
    ///
    /// `Rejected` for what no lock client of this version has written.
    pub fn parse(value: &[u8]) -> Result<Row> {
        text::parse(value)
    }

    /// Returns the value.
    pub fn to_bytes(&self) -> Vec<u8> {
        text::write(self)
    }

    /// Returns what the write of this row has done.
    pub fn change(&self) -> Change {
        self.change
    }

    /// Returns the bytes of the owner that wrote it, as [`Entry::owner`] shows them.
    pub fn owner(&self) -> OwnerBytes {
        OwnerBytes::new(self.owner.as_bytes())
    }

    /// Returns the text that people see for that owner; empty for a free lock.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// Returns the last owner from which the lock was revoked, in hex.
    pub fn revoked_from(&self) -> Option<&str> {
        self.revoked.as_deref()
    }

    /// Returns what a write of the lock `name` is to those that listen: a release, if the lock is free after it.
    pub fn notice(name: &Name, value: &[u8]) -> Notice {
        match Row::parse(value) {
            Ok(row) if row.keeps() => Notice::Other,
            _ => Notice::Released(name.to_string()),
        }
    }

    /// Returns the holder at the server's time `now`, for a tool at the server, which knows that time and the stamp to
    /// the microsecond. `number` is the row's revision, if that is a number that rises.
    pub fn holder(&self, stamp: i64, number: Option<u64>, now: i64) -> Option<Entry> {
        let mark = Mark::exactly(stamp, number);
        self.is_in_force(&mark, Span::exactly(now)).then(|| self.entry(&mark, Span::exactly(now)))
    }

    /// Returns the row that ends this lock at once, for a tool at the server. It knows what it needs for
    /// [`holder`](Self::holder).
    #[must_use]
    pub fn ended(&self, stamp: i64, number: Option<u64>) -> Row {
        // Not the holder's own release: its client would recognise that as its own.
        Row { owner: "-".to_owned(), ..self.next(&Mark::exactly(stamp, number), Change::Released) }
    }

    /// Returns the row that revokes this lock at its holder's deadline, for a tool at the server, as
    /// [`ended`](Self::ended).
    #[must_use]
    pub fn taken(&self, stamp: i64, number: Option<u64>, by: Owner, label: &Label) -> Row {
        self.revoked(&Mark::exactly(stamp, number), by, label, When::HoldersDeadline)
    }

    // ---- what the next write is -------------------------------------------------------------------------------------

    /// Returns the grant to `owner`, after `last`, which is over. It has to be stamped by `deadline`.
    pub(super) fn granted(
        last: Option<(&Row, &Mark)>,
        owner: Owner,
        label: &Label,
        lease: i64,
        deadline: i64,
    ) -> Row {
        let (token, revoked) = last.map_or((0, None), |(row, mark)| (row.token(mark), row.revoked.clone()));
        let (owner, label, until) = (owner.to_string(), label.clone(), Some(deadline));
        Row { change: Change::Granted, owner, lease, least: 0, until, token, since: None, revoked, label }
    }

    /// Returns the same lock, kept for `lease` from its stamp on, and never for less than it is kept now.
    pub(super) fn renewed(&self, mark: &Mark, lease: i64) -> Row {
        let ends = self.ends(mark);
        let least = if self.outlasts(mark, lease) { ends.by } else { 0 };
        let since = Some(self.since.unwrap_or(mark.stamp));
        // Not a moment before the end: the owner relies on this lease if it hears nothing of the renewal.
        let until = Some(ends.by);
        let (owner, label) = (self.owner.clone(), self.label.clone());
        Row { owner, lease, least, until, since, label, ..self.next(mark, Change::Renewed) }
    }

    /// Returns whether this lock may last longer than one that is kept for `lease` from a later stamp on.
    pub(super) fn outlasts(&self, mark: &Mark, lease: i64) -> bool {
        lease < self.lease || self.least > mark.written.plus(self.lease).from
    }

    pub(super) fn released(&self, mark: &Mark, owner: Owner) -> Row {
        Row { owner: owner.to_string(), ..self.next(mark, Change::Released) }
    }

    /// Returns the row that replaces this holder's. The row has no deadline: it ends when that holder's lease
    /// would have.
    pub(super) fn revoked(&self, mark: &Mark, by: Owner, label: &Label, when: When) -> Row {
        let (owner, label) = (by.to_string(), label.clone());
        let revoked = match self.change {
            // The first holder is the one that may still rely on the lock and has to be told.
            Change::Revoked(_) => self.revoked.clone(),
            _ => Some(self.owner.clone()),
        };
        let least = match when {
            When::HoldersDeadline => self.ends(mark).by,
            When::Now => 0,
        };
        Row { owner, label, revoked, least, ..self.next(mark, Change::Revoked(when)) }
    }

    /// Returns what every later row keeps.
    fn next(&self, mark: &Mark, change: Change) -> Row {
        let (owner, label, revoked) = (String::new(), Label::new(""), self.revoked.clone());
        let token = self.token(mark);
        Row { change, owner, lease: 0, least: 0, until: None, token, since: None, revoked, label }
    }

    // ---- what it means ----------------------------------------------------------------------------------------------

    /// Returns whether the lock is held at `now`, or may be.
    pub(super) fn is_in_force(&self, mark: &Mark, now: Span) -> bool {
        self.keeps() && !self.is_void(mark) && self.ends(mark).by > now.from
    }

    /// Returns whether the lock is held, and may be over at `now`.
    pub(super) fn may_be_over(&self, mark: &Mark, now: Span) -> bool {
        self.keeps() && !self.is_void(mark) && self.ends(mark).from <= now.by
    }

    fn keeps(&self) -> bool {
        match self.change {
            Change::Granted | Change::Renewed | Change::Revoked(When::HoldersDeadline) => true,
            Change::Released | Change::Revoked(When::Now) => false,
        }
    }

    /// Returns whether the row came too late. Every reader compares the same two numbers.
    pub(super) fn is_void(&self, mark: &Mark) -> bool {
        self.until.is_some_and(|until| mark.stamp > until)
    }

    /// Returns whether its stamp decides on whether it counts.
    pub(super) fn has_a_deadline(&self) -> bool {
        self.until.is_some()
    }

    /// Returns when the lease ends.
    pub(super) fn ends(&self, mark: &Mark) -> Span {
        mark.written.plus(self.lease).at_least(self.least)
    }

    /// Returns how long the owner of a row that it has just written may rely on it, counted from the start of its call.
    pub(super) fn valid_for(&self, began: Span) -> Duration {
        // The stamp is not before the start.
        let least = Span::exactly(self.least).surely_since(began);
        super::span::duration(self.lease).max(least)
    }

    /// Returns how long the lease lasts at least after `now`.
    pub(super) fn left(&self, mark: &Mark, now: Span) -> Duration {
        self.ends(mark).surely_since(now)
    }

    /// Returns whether this owner holds the lock, if it is held.
    pub(super) fn is_of(&self, owner: &str) -> bool {
        self.owner == owner && matches!(self.change, Change::Granted | Change::Renewed)
    }

    /// Returns whether a release of this owner frees the lock: it is this owner's, or another owner's row replaces it.
    pub(super) fn is_given_up_by(&self, owner: &str) -> bool {
        self.is_of(owner)
            || matches!(self.change, Change::Revoked(_))
                && (self.owner == owner || self.is_revoked_from(owner))
    }

    /// Returns whether the lock was last revoked from this owner.
    pub(super) fn is_revoked_from(&self, owner: &str) -> bool {
        self.revoked.as_deref() == Some(owner)
    }

    /// Returns the lock's token, or the last one if it is free. A grant has the number of its write, or the stamp, and in
    /// any case more than the token before it.
    pub(super) fn token(&self, mark: &Mark) -> u64 {
        let minted = || mark.number.unwrap_or_else(|| u64::try_from(mark.stamp).unwrap_or(0));
        match self.change {
            Change::Granted => self.token.saturating_add(1).max(minted()),
            _ => self.token,
        }
    }

    pub(super) fn entry(&self, mark: &Mark, now: Span) -> Entry {
        let since = Span::exactly(self.since.unwrap_or(mark.stamp));
        let mut entry = Entry::new(self.owner());
        entry.label = Some(self.label.clone());
        entry.token = FencingToken::new(self.token(mark));
        entry.since = Some(now.surely_since(since));
        entry.expires_in = Some(self.left(mark, now));
        entry
    }
}
