//! What the tables are called.

use std::fmt;
use std::str::FromStr;

use lock_core::{Error, Result};

/// The longest part of a name that every server takes whole (PostgreSQL cuts off what is longer).
const LONGEST: usize = 63;

/// The name of the table of locks: `onelock_locks`, or `schema.table`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TableName {
    schema: Option<String>,
    table: String,
}

impl TableName {
    /// The schema that was named, or the database, as MySQL calls it.
    pub(crate) fn schema(&self) -> Option<&str> {
        self.schema.as_deref()
    }

    /// The table without its schema.
    #[cfg_attr(
        not(feature = "postgres"),
        allow(dead_code, reason = "PostgreSQL's catalogue is asked for it")
    )]
    pub(crate) fn table(&self) -> &str {
        &self.table
    }

    /// In `schema`, unless another was named.
    ///
    /// A table without one would be looked for where the session happens to be, which is another place for another user.
    pub(crate) fn within(self, schema: &str) -> TableName {
        TableName { schema: Some(self.schema.unwrap_or_else(|| schema.to_owned())), table: self.table }
    }

    /// As it stands in SQL, each part within `quotes`.
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

    /// Only letters, digits and `_`, so that nothing in it has to be escaped.
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
                "table={text}: a table is named by letters, digits and _, {LONGEST} at most, with its schema before a dot \
                 if need be"
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
