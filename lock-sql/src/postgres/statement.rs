//! A statement with its values, and how it is sent.

use std::fmt::Write as _;
use std::sync::Arc;

use sqlx::postgres::{PgArguments, PgConnection, PgRow};
use sqlx::query::Query;
use sqlx::{AssertSqlSafe, Executor};

/// A statement with its values. Its text contains nothing that a user gives, except the table's name, which needs no
/// escaping.
#[derive(Clone, Debug)]
pub(crate) struct Statement {
    pub(crate) sql: Arc<str>,
    pub(crate) form: Form,
    values: Vec<Value>,
}

/// The form of a text: one statement or several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// One statement.
    One,
    /// Several statements, which can't be prepared.
    Several,
}

#[derive(Clone, Debug)]
enum Value {
    Bytes(Vec<u8>),
    Number(i64),
    ManyBytes(Vec<Vec<u8>>),
}

impl Statement {
    pub(crate) fn new(sql: &Arc<str>) -> Statement {
        Statement { sql: sql.clone(), form: Form::One, values: Vec::new() }
    }

    /// Several statements in one message, which is one transaction. Their rows are returned together.
    pub(crate) fn several(sql: &Arc<str>) -> Statement {
        Statement { form: Form::Several, ..Statement::new(sql) }
    }

    /// The next of `$1`, `$2`, …
    pub(crate) fn bytes(mut self, value: &[u8]) -> Statement {
        self.values.push(Value::Bytes(value.to_vec()));
        self
    }

    /// The next of `$1`, `$2`, …
    pub(crate) fn many_bytes(mut self, values: Vec<Vec<u8>>) -> Statement {
        self.values.push(Value::ManyBytes(values));
        self
    }

    /// The next of `$1`, `$2`, …
    pub(crate) fn number(mut self, value: i64) -> Statement {
        self.values.push(Value::Number(value));
        self
    }

    /// Returns it as a prepared statement. The server parses it at its first use on this connection.
    pub(crate) fn prepared(self) -> Query<'static, sqlx::Postgres, PgArguments> {
        let query = sqlx::query(AssertSqlSafe(self.sql));
        self.values.into_iter().fold(query, |query, value| match value {
            Value::Bytes(bytes) => query.bind(bytes),
            Value::Number(number) => query.bind(number),
            Value::ManyBytes(values) => query.bind(values),
        })
    }

    /// Returns it as text without parameters, with the values in a form that needs no quoting under any setting.
    fn literal(&self) -> String {
        let mut parts = self.sql.split('$');
        let mut text = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let end = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
            let value = part[..end].parse::<usize>().ok().and_then(|n| self.values.get(n.checked_sub(1)?));
            match value {
                Some(Value::Number(number)) => write!(text, "({number})::bigint").ok(),
                Some(Value::Bytes(bytes)) => write!(text, "{}", literal(bytes)).ok(),
                Some(Value::ManyBytes(values)) => {
                    let values: Vec<String> = values.iter().map(|bytes| literal(bytes)).collect();
                    write!(text, "ARRAY[{}]::bytea[]", values.join(", ")).ok()
                }
                None => write!(text, "${}", &part[..end]).ok(),
            };
            text.push_str(&part[end..]);
        }
        text
    }

    /// Runs it behind `preface` in one message, which is one transaction. Anything between the client and the server
    /// then passes it to one session of the server.
    pub(crate) async fn run_whole(
        &self,
        preface: &str,
        connection: &mut PgConnection,
    ) -> sqlx::Result<Vec<PgRow>> {
        let text = format!("{preface}{}", self.literal());
        connection.fetch_all(sqlx::raw_sql(AssertSqlSafe(text))).await
    }
}

fn literal(bytes: &[u8]) -> String {
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("decode('{hex}', 'hex')")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_in_the_text_need_no_quoting() {
        let sql: Arc<str> = "SELECT $1, $2 + $3, '$', $10, $0 WHERE a = $2".into();
        let statement = Statement::new(&sql).bytes(b"a'\\\0").number(-7).number(8);
        assert_eq!(
            statement.literal(),
            "SELECT decode('61275c00', 'hex'), (-7)::bigint + (8)::bigint, '$', $10, $0 WHERE a = (-7)::bigint"
        );
        let sql: Arc<str> = "SELECT $1, $2::bytea[]".into();
        let statement =
            Statement::new(&sql).many_bytes(vec![b"'".to_vec(), Vec::new()]).many_bytes(Vec::new());
        assert_eq!(
            statement.literal(),
            "SELECT ARRAY[decode('27', 'hex'), decode('', 'hex')]::bytea[], ARRAY[]::bytea[]::bytea[]"
        );
    }
}
