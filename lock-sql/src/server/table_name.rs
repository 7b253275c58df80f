//! The names of tables.

use std::fmt;
use std::str::FromStr;

use lock_core::{Error, Result};

/// The longest part of a name, in bytes, that every server keeps whole. PostgreSQL truncates longer ones.
const LONGEST: usize = 63;

/// The name of the table of locks: `onelock_locks`, or `schema.table`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TableName {
    schema: Option<String>,
    table: String,
}

impl TableName {
    /// The schema that was named. MySQL calls it the database.
    pub(crate) fn schema(&self) -> Option<&str> {
        self.schema.as_deref()
    }

    /// The table without its schema.
    #[cfg_attr(
        not(feature = "postgres"),
        allow(dead_code, reason = "only PostgreSQL's queries of the catalogue use it")
    )]
    pub(crate) fn table(&self) -> &str {
        &self.table
    }

    /// Returns the name within `schema`, unless it names another schema.
    ///
    /// The server would look for a table without a schema in the session's current one, which may be another one for
    /// another user.
    pub(crate) fn within(self, schema: &str) -> TableName {
        TableName { schema: Some(self.schema.unwrap_or_else(|| schema.to_owned())), table: self.table }
    }

    /// Returns the name as SQL text, each part between two `quote` characters.
    pub(crate) fn quoted(&self, quote: char) -> String {
        match &self.schema {
            // A database that a URL names may be called anything.
            Some(schema) => {
                let schema = schema.replace(quote, &format!("{quote}{quote}"));
                format!("{quote}{schema}{quote}.{quote}{}{quote}", self.table)
            }
            None => format!("{quote}{}{quote}", self.table),
        }
    }
}

impl Default for TableName {
    fn default() -> TableName {
        TableName { schema: None, table: "onelock_locks".to_owned() }
    }
}

impl FromStr for TableName {
    type Err = Error;

    /// Parses a name. Only letters, digits and `_` are valid, so that nothing in it has to be escaped.
    fn from_str(text: &str) -> Result<TableName> {
        let is_plain = |part: &&str| {
            let first = part.chars().next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
            first && part.len() <= LONGEST && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        };
        let parts: Vec<&str> = text.split('.').collect();
        match parts[..] {
            [table] if is_plain(&table) => Ok(TableName { schema: None, table: table.to_owned() }),
            [schema, table] if is_plain(&schema) && is_plain(&table) => {
                Ok(TableName { schema: Some(schema.to_owned()), table: table.to_owned() })
            }
            _ => Err(Error::invalid(format!(
                "table={text}: the name of a table has letters, digits and _, at most {LONGEST}, with its schema \
                 before a dot if needed"
            ))),
        }
    }
}

impl fmt::Display for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.schema {
            Some(schema) => write!(f, "{schema}.{}", self.table),
            None => f.write_str(&self.table),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_needs_no_escaping() {
        let name: TableName = "ops.Locks_2".parse().unwrap();
        assert_eq!(
            (name.to_string(), name.quoted('"')),
            ("ops.Locks_2".into(), "\"ops\".\"Locks_2\"".into())
        );
        assert_eq!(TableName::default().quoted('`'), "`onelock_locks`");
        assert_eq!(TableName::default().within("it`s").quoted('`'), "`it``s`.`onelock_locks`");
        assert_eq!(name.within("public").to_string(), "ops.Locks_2");
        for bad in ["", ".", "a.", "a.b.c", "1a", "a b", "a\"", "a`", "a;", "ä", &"a".repeat(64)] {
            assert!(bad.parse::<TableName>().is_err(), "{bad}");
        }
    }
}
