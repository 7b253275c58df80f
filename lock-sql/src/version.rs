//! The version of a table of locks, which stands beside the table: in its text or in its comment.

use lock_core::{Error, Result};

/// Stands before the version.
const MARK: &str = "onelock schema ";

/// Whether a table that says `said` of itself is one that a program of version `ours` reads and writes.
pub(crate) fn must_be_ours(table: impl std::fmt::Display, said: &str, ours: u32) -> Result<()> {
    let number = said.split_once(MARK).and_then(|(_, rest)| rest.split_whitespace().next());
    match number.and_then(|number| number.parse::<u32>().ok()) {
        Some(version) if version == ours => Ok(()),
        Some(newer) if newer > ours => Err(Error::rejected(format!(
            "the table {table} has version {newer}, which is newer than this program's ({ours}); update it"
        ))),
        Some(older) => Err(Error::rejected(format!(
            "the table {table} has version {older}, older than this program's ({ours}); when no program of the old \
             version runs any more, drop the table"
        ))),
        None => Err(Error::rejected(format!(
            "there is a table {table} that is none of ours; name another, or rename that one"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_says_who_has_to_change() {
        let said = |text: &str| must_be_ours("t", text, 1).map_err(|e| e.to_string());
        assert_eq!(said("onelock schema 1"), Ok(()));
        assert_eq!(said("CREATE TABLE t (/* onelock schema 1 */ …"), Ok(()));
        assert!(said("onelock schema 2").unwrap_err().contains("newer"));
        assert!(said("onelock schema 0").unwrap_err().contains("older"));
        for foreign in ["onelock schema x", "onelock schema -1", "onelock schema ", "people", ""] {
            assert!(said(foreign).unwrap_err().contains("none of ours"), "{foreign}");
        }
    }
}
