//! Other tables of locks in the same database. A holder of a lock in one of them is not seen in ours.
//!
//! Earlier releases took the schema from the session's search path, so that two users could each have a table. If no
//! schema is named, this module looks for such tables: in all schemas before a table is created, and where the user's
//! search path leads before another table is used. `check` looks for all of them.

use lock_core::{Error, Result};
use sqlx::postgres::{PgConnection, PgRow};
use sqlx::{AssertSqlSafe, Executor, Row};

use super::errors;
use super::schema;
use super::session::PINNED;
use super::statements::now;
use crate::server::TableName;

/// The names of the other tables in one row, each with its schema, and in quotes where it needs them. A temporary table
/// belongs to its session alone, and doesn't count.
const OTHERS: &str = concat!(
    "SELECT ",
    now!(),
    ", ARRAY(
  SELECT quote_ident(n.nspname) || '.' || quote_ident(c.relname)
  FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
  WHERE c.relkind IN ('r', 'p') AND c.relpersistence <> 't' AND c.oid IS DISTINCT FROM to_regclass('{table}')
    AND obj_description(c.oid, 'pg_class') LIKE 'onelock schema %'"
);

/// Returns the question for all other tables.
pub(super) fn all_question(table: &TableName) -> String {
    format!("{} ORDER BY 1)", OTHERS.replace("{table}", &table.quoted('"')))
}

/// Returns the question for other tables with the same name in other schemas.
fn same_name_question(table: &TableName) -> String {
    let others = OTHERS.replace("{table}", &table.quoted('"'));
    format!("{PINNED}{others} AND c.relname = '{}' ORDER BY 1)", table.table())
}

/// Returns the question for the table with this number, if it is another than ours.
fn oid_question(table: &TableName, number: i64) -> String {
    let others = OTHERS.replace("{table}", &table.quoted('"'));
    format!("{PINNED}{others} AND c.oid::bigint = {number})")
}

/// Returns the question where the user's own search path leads. That is the default path of a session whose greeting
/// has set none, for the user's own role: most paths contain a schema with the role's name.
fn path_question(table: &TableName) -> String {
    let found = format!("pg_catalog.to_regclass('\"{}\"')", table.table());
    format!(
        "SET LOCAL role TO DEFAULT; SET LOCAL search_path TO DEFAULT; SELECT {found}::pg_catalog.oid::pg_catalog.int8"
    )
}

/// Reads the answer to one of these questions.
pub(super) fn read(row: &PgRow) -> sqlx::Result<Vec<String>> {
    row.try_get(1)
}

/// Refuses to create a table beside another of its name, unless its schema was named.
pub(super) async fn refuse_second_table(connection: &mut PgConnection, named: &TableName) -> Result<()> {
    if named.schema().is_some() {
        return Ok(());
    }
    let table = schema::located(named);
    let others = ask(connection, same_name_question(&table)).await?;
    match others.is_empty() {
        true => Ok(()),
        false => Err(Error::rejected(format!(
            "there is no table {table}, but the database has {}: earlier versions of this library took the schema from \
             the user's search_path. {}",
            others.join(" and "),
            choice(&table, &others)
        ))),
    }
}

/// Refuses to use the table in `public` if this user's own search path leads to another one, unless the schema was
/// named. Processes of an earlier version hold their locks in that other table.
pub(super) async fn must_match_search_path(connection: &mut PgConnection, named: &TableName) -> Result<()> {
    if named.schema().is_some() {
        return Ok(());
    }
    let table = schema::located(named);
    let row = connection.fetch_one(sqlx::raw_sql(AssertSqlSafe(path_question(&table)))).await;
    let found: Option<i64> = row.and_then(|row| row.try_get(0)).map_err(errors::connecting)?;
    let Some(number) = found else { return Ok(()) };
    let others = ask(connection, oid_question(&table, number)).await?;
    match others.is_empty() {
        true => Ok(()),
        false => Err(Error::rejected(format!(
            "this user's search_path leads to {}, where earlier versions of this library kept its locks, and not to \
             {table}. {}",
            others.join(" and "),
            choice(&table, &others)
        ))),
    }
}

async fn ask(connection: &mut PgConnection, question: String) -> Result<Vec<String>> {
    let row = connection.fetch_one(sqlx::raw_sql(AssertSqlSafe(question))).await;
    row.and_then(|row| read(&row)).map_err(errors::connecting)
}

/// Describes what the user can choose.
fn choice(table: &TableName, others: &[String]) -> String {
    let others: Vec<_> = others.iter().map(|quoted| (quoted, named(quoted))).collect();
    let urls: String =
        others.iter().filter_map(|(_, name)| Some(format!("?table={} or ", name.as_ref()?))).collect();
    let moves: Vec<_> =
        others.iter().map(|(quoted, _)| format!("ALTER TABLE {quoted} SET SCHEMA public")).collect();
    format!(
        "Name the one that all clients are to use in their URLs: {urls}?table={table}. Or, while no client runs and if \
         {table} is not there: {}",
        moves.join(" or ")
    )
}

/// Returns the table's name as a URL has it, if a URL can name it.
fn named(quoted: &str) -> Option<TableName> {
    let name = quoted.replace('"', "").parse().ok();
    name.filter(|_| !quoted.contains("\"\""))
}

/// Returns a warning about the other tables, if there are any.
pub(super) fn warning(table: &TableName, others: &[String]) -> Option<String> {
    others.first()?;
    let one = others.iter().find_map(|quoted| named(quoted)).unwrap_or_else(|| table.clone());
    Some(format!(
        "this database has other tables of locks beside {table}: {}. A holder of a lock in one of them is not seen in \
         the others: name the same table in all URLs that mean the same locks, for example by ?table={one}, and drop \
         the tables that no client uses",
        others.join(", ")
    ))
}
