//! The version of a table of locks. It is stored with the table: in the text that created it, or in its comment.

use lock_core::{Error, Result};

/// The text before the version.
const MARK: &str = "onelock schema ";

/// Checks that a program of version `ours` can read and write a table that is marked with `said`. Otherwise the error
/// is `Rejected`.
pub(crate) fn must_be_ours(table: impl std::fmt::Display, said: &str, ours: u32) -> Result<()> {
    let number = said.split_once(MARK).and_then(|(_, rest)| rest.split_whitespace().next());
    match number.and_then(|number| number.parse::<u32>().ok()) {
        Some(version) if version == ours => Ok(()),
        Some(newer) if newer > ours => Err(Error::rejected(format!(
            "the table {table} has version {newer}, newer than this program's ({ours}); update the program"
        ))),
        Some(older) => Err(Error::rejected(format!(
            "the table {table} has version {older}, older than this program's ({ours}); stop all programs of the old \
             version, then drop the table"
        ))),
        None => Err(Error::rejected(format!(
            "the table {table} exists, but it is not a table of locks; name another table, or rename that one"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_error_says_what_to_change() {
        let said = |text: &str| must_be_ours("t", text, 1).map_err(|e| e.to_string());
        assert_eq!(said("onelock schema 1"), Ok(()));
        assert_eq!(said("CREATE TABLE t (/* onelock schema 1 */ …"), Ok(()));
        assert!(said("onelock schema 2").unwrap_err().contains("newer"));
        assert!(said("onelock schema 0").unwrap_err().contains("older"));
        for foreign in ["onelock schema x", "onelock schema -1", "onelock schema ", "people", ""] {
            assert!(said(foreign).unwrap_err().contains("not a table of locks"), "{foreign}");
        }
    }
}
