//! The row as text: `lock1 CHANGE OWNER LEASE LEAST UNTIL TOKEN SINCE REVOKED LABEL`.
//!
//! One space between fields, `-` for none. Times are microseconds. The label is the rest, with its spaces.

use std::fmt::Display;
use std::str::FromStr;

use super::row::{Change, Row};
use crate::driver::When;
use crate::error::{Error, Result};
use crate::owner::Label;

const VERSION: &str = "lock1";
/// The text of a field that is absent.
const NONE: &str = "-";
const FIELDS: usize = 10;

const CHANGES: [(&str, Change); 5] = [
    ("granted", Change::Granted),
    ("renewed", Change::Renewed),
    ("released", Change::Released),
    ("revoked", Change::Revoked(When::HoldersDeadline)),
    ("revoked-now", Change::Revoked(When::Now)),
];

pub(super) fn write(row: &Row) -> Vec<u8> {
    let Row { change, owner, lease, least, until, token, since, revoked, label } = row;
    let change = CHANGES.iter().find(|(_, known)| known == change).map_or(NONE, |(word, _)| word);
    let (until, since, revoked) = (field(until.as_ref()), field(since.as_ref()), field(revoked.as_ref()));
    format!("{VERSION} {change} {owner} {lease} {least} {until} {token} {since} {revoked} {label}")
        .into_bytes()
}

pub(super) fn parse(value: &[u8]) -> Result<Row> {
    std::str::from_utf8(value).ok().and_then(row).ok_or_else(|| foreign(value))
}

fn row(text: &str) -> Option<Row> {
    let fields: Vec<&str> = text.splitn(FIELDS, ' ').collect();
    let [VERSION, change, owner, lease, least, until, token, since, revoked, label] = fields[..] else {
        return None;
    };
    let (_, change) = *CHANGES.iter().find(|(word, _)| *word == change)?;
    Some(Row {
        change,
        owner: owner.to_owned(),
        lease: lease.parse().ok()?,
        least: least.parse().ok()?,
        until: optional(until)?,
        token: token.parse().ok()?,
        since: optional(since)?,
        revoked: optional(revoked)?,
        label: Label::read(label),
    })
}

fn field(value: Option<&impl Display>) -> String {
    value.map_or_else(|| NONE.to_owned(), ToString::to_string)
}

fn optional<T: FromStr>(text: &str) -> Option<Option<T>> {
    match text {
        NONE => Some(None),
        text => text.parse().ok().map(Some),
    }
}

fn foreign(value: &[u8]) -> Error {
    // `lock2 …` is of a later version.
    let is_ours =
        value.strip_prefix(b"lock").is_some_and(|rest| rest.first().is_some_and(u8::is_ascii_digit));
    Error::rejected(match is_ours {
        true => "this key was written by a lock client of another version: use one version on all machines",
        false => {
            "this key has a value that no lock client has written: delete the key, or use another prefix"
        }
    })
}
