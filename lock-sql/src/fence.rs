//! Why a fence in a database did not accept a token. The same for every dialect.

use lock_core::{FencingToken, Stale};

use crate::server_message::ServerMessage;

/// Why a fence did not accept a token, or may not have accepted it.
#[derive(Debug)]
#[non_exhaustive]
pub enum FenceError {
    /// A later holder has written with a higher token: the lock was lost in the meantime. Roll the transaction back.
    Stale(Stale),
    /// The database failed.
    Sqlx(sqlx::Error),
}

/// Converts a token to the signed 64-bit integer of a column. A token that is too large is an encoding error.
pub(crate) fn to_column(token: FencingToken) -> sqlx::Result<i64> {
    i64::try_from(token.get()).map_err(|e| sqlx::Error::Encode(e.into()))
}

/// Decides whether `offered` was accepted: it is stale if the table now holds a higher token.
pub(crate) fn judge(offered: FencingToken, highest: i64) -> Result<(), FenceError> {
    match u64::try_from(highest).ok().and_then(FencingToken::new) {
        Some(highest) if highest > offered => Err(FenceError::Stale(Stale::new(offered, highest))),
        _ => Ok(()),
    }
}

impl From<sqlx::Error> for FenceError {
    fn from(error: sqlx::Error) -> FenceError {
        FenceError::Sqlx(error)
    }
}

impl std::fmt::Display for FenceError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            FenceError::Stale(stale) => stale.fmt(f),
            FenceError::Sqlx(error) => write!(f, "the fence could not be checked: {}", ServerMessage(error)),
        }
    }
}

impl std::error::Error for FenceError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            FenceError::Stale(stale) => Some(stale),
            FenceError::Sqlx(error) => Some(error),
        }
    }
}

#[cfg(all(test, feature = "mysql", feature = "postgres", feature = "sqlite"))]
mod tests {
    use crate::{mysql, postgres, sqlite};

    #[test]
    fn the_guides_transaction_is_tested_code() {
        let page = include_str!("../../docs/guide/fence.md");
        let program = include_str!("../../conformance/foreign/sql-fences/src/tokio_postgres.rs");
        let (_, behind) = page.split_once("```text\n").expect("it shows a transaction");
        let (shown, _) = behind.split_once("```").expect("the example ends");
        // The page has other line breaks: its code is indented less.
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words(program).contains(&words(shown)), "{shown}");
    }

    /// The guide shows the statements to users that don't have this crate.
    #[test]
    fn the_guide_shows_the_statements_as_they_are() {
        let page = include_str!("../../docs/guide/fence.md");
        for statement in [
            mysql::Fence::new("a").statement(),
            postgres::Fence::new("a").statement(),
            sqlite::Fence::new("a").statement(),
        ] {
            let words: Vec<&str> = statement.split_whitespace().collect();
            assert!(page.contains(&format!("| `{}` |", words.join(" "))), "{statement}");
        }
    }
}
