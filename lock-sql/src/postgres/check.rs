//! `check`: whether the server is reachable, grants the rights that locks need, and keeps what it is told.

use std::time::Duration;

use lock_core::driver::{Finding, Level};
use lock_core::toolkit::{Call, whole_micros};
use lock_core::{Error, Name, Owner, Result};
use sqlx::Row as _;
use sqlx::postgres::PgRow;

use super::schema::{self, Found};
use super::standbys::Synchronous;
use super::statement::Statement;
use super::statements::{self, now};
use super::table::PostgresTable;
use super::{errors, feed, other_tables};
use crate::server::Purpose;
use crate::table::Table as _;

/// The ttl of the lock that `check` takes and undoes at once: longer than the server may need for all of it.
const PROBE: Duration = Duration::from_secs(3600);

/// The question for most findings. Of the connections to which the server sends its log, a backup and a subscriber
/// (whose slot is a logical one) can't be promoted, and don't count. A user without `pg_monitor` is shown no state.
const ABOUT: &str = concat!(
    "SELECT ",
    now!(),
    " AS now, split_part(current_setting('server_version'), ' ', 1) AS version,
  array_to_string(ARRAY(SELECT p FROM unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) AS p
    WHERE NOT has_table_privilege(to_regclass('{table}'), p)), ', ') AS refused,
  current_setting('fsync') AS fsync,
  current_setting('synchronous_standby_names') AS standbys,
  (SELECT count(*) FROM pg_stat_replication AS r
    WHERE coalesce(r.state, '') <> 'backup' AND r.application_name NOT IN ('pg_basebackup', 'pg_receivewal')
      AND NOT EXISTS (SELECT 1 FROM pg_replication_slots AS s WHERE s.active_pid = r.pid AND s.slot_type = 'logical'))
    AS replicas,
  current_setting('transaction_read_only') AS read_only,
  (SELECT relpersistence::text FROM pg_class WHERE oid = to_regclass('{table}')) AS persistence,
  obj_description(to_regclass('{table}'), 'pg_class') AS comment,
  coalesce((SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()), false) AS encrypted"
);

/// Checks the server. Returns one finding per question. It is an `Err` only if the server can't be reached at all.
pub(super) async fn check(table: &PostgresTable, call: &Call) -> Result<Vec<Finding>> {
    let row = ask(table, call, ABOUT.replace("{table}", &table.name.quoted('"'))).await?;
    let others = ask(table, call, other_tables::all_question(&table.name)).await?;
    let others = other_tables::read(&others).map_err(errors::reading)?;
    let rights = rights(table, call, &row).await?;
    let mut findings = about_server(table, &row, rights, &others).map_err(errors::reading)?;
    findings.push(table.pool.drift().unwrap_or_default().finding());
    findings.push(push(table, call).await);
    Ok(findings)
}

/// Asks a question, and returns its one row.
async fn ask(table: &PostgresTable, call: &Call, question: String) -> Result<PgRow> {
    let question = question.into();
    let answer = table.pool.ask(call, Purpose::Acquire, move |_| Statement::new(&question)).await?;
    answer.rows.into_iter().next().ok_or_else(|| errors::reading(sqlx::Error::RowNotFound))
}

fn about_server(
    table: &PostgresTable,
    row: &PgRow,
    rights: Finding,
    others: &[String],
) -> sqlx::Result<Vec<Finding>> {
    let text = |column: &str| row.try_get::<String, _>(column);
    let server = &table.info().server;
    let found = Found { persistence: row.try_get("persistence")?, comment: row.try_get("comment")? };
    Ok(vec![
        Finding::new("reachable", Level::Good, format!("PostgreSQL {} at {server}", text("version")?)),
        rights,
        schema(table, &found, others),
        match is_read_only(row)? {
            true => Finding::new(
                "writable",
                Level::Bad,
                "the server, or this user's sessions, are set to read-only (behind a pooler perhaps by another client)",
            ),
            false => Finding::new("writable", Level::Good, "it takes writes"),
        },
        durability(&text("fsync")?),
        replicas(row.try_get("replicas")?, &text("standbys")?),
        match row.try_get("encrypted")? {
            true => Finding::new("encryption", Level::Good, "the server's connection is encrypted"),
            false => Finding::new(
                "encryption",
                Level::Warning,
                "the server's connection is not encrypted; ?ca= encrypts it",
            ),
        },
    ])
}

fn is_read_only(row: &PgRow) -> sqlx::Result<bool> {
    Ok(row.try_get::<String, _>("read_only")? == "on")
}

/// Finds out what this user is granted, and whether it can take, renew and release a lock, which is undone at once.
/// Policies for rows, and triggers, may keep the user from what it is granted.
async fn rights(table: &PostgresTable, call: &Call, row: &PgRow) -> Result<Finding> {
    let read = || Ok((row.try_get("refused")?, is_read_only(row)?));
    let (refused, is_read_only): (Option<String>, bool) = read().map_err(errors::reading)?;
    Ok(match refused.as_deref() {
        Some("") if is_read_only => {
            Finding::new("rights", Level::Unknown, "not tried: the server takes no writes")
        }
        Some("") => match probe(table, call).await {
            Ok(()) => Finding::new("rights", Level::Good, "all that a lock needs is allowed"),
            Err(e) => Finding::of_failure("rights", &e),
        },
        Some(refused) => {
            let message = format!("this user lacks {refused}; GRANT them on {}", table.name);
            Finding::new("rights", Level::Bad, message)
        }
        None => Finding::new("rights", Level::Unknown, "the server did not tell"),
    })
}

/// Takes, renews and releases a lock with a name that no client uses, and undoes it.
async fn probe(table: &PostgresTable, call: &Call) -> Result<()> {
    let owner = Owner::mint(&table.random);
    let key = table.prefix.key(&Name::new(format!("check {owner}"))?).into_bytes();
    let (text, ttl) = (table.statements.probe.clone(), whole_micros(PROBE));
    let probe = move |_| {
        let probe = Statement::several(&text).bytes(&key).bytes(owner.as_bytes());
        // The statement is undone, so it may come late.
        probe.number(ttl).number(i64::MAX).bytes(b"lock check")
    };
    let answer = table.pool.ask(call, Purpose::Acquire, probe).await?;
    match answer.rows.len() {
        statements::PROBED => Ok(()),
        _ => Err(Error::rejected(
            "this user may not change the rows that it has written: row-level security, or a trigger of the table, \
             prevents it",
        )),
    }
}

/// Our transactions wait for the disk, whatever `synchronous_commit` is in other sessions.
fn durability(fsync: &str) -> Finding {
    match fsync {
        "off" => Finding::new(
            "durability",
            Level::Warning,
            "fsync=off: a crash of the machine loses locks that were granted, or the whole database",
        ),
        _ => Finding::new("durability", Level::Good, "a grant is on the disk before it counts"),
    }
}

fn replicas(connected: i64, setting: &str) -> Finding {
    let warning = |message: String| Finding::new("replicas", Level::Warning, message);
    match (usize::try_from(connected).unwrap_or(0), Synchronous::read(setting)) {
        (0, None) if setting.is_empty() => {
            Finding::new("replicas", Level::Good, "none: no other server has the locks")
        }
        (_, None) if setting.is_empty() => warning(format!(
            "{connected}, none of them synchronous: one that is promoted may lack the last grants"
        )),
        (connected, Some(synchronous)) if synchronous.covers(connected) => {
            let message = format!("a grant is at all of them before it counts ({setting})");
            Finding::new("replicas", Level::Good, message)
        }
        (_, Some(Synchronous { awaited, .. })) => warning(format!(
            "a grant waits for {awaited} of them (synchronous_standby_names is {setting}): another one that is \
             promoted may lack the last grants; make grants wait for all that may be promoted"
        )),
        (_, None) => {
            let message = format!("the value of synchronous_standby_names is not understood: {setting}");
            Finding::new("replicas", Level::Unknown, message)
        }
    }
}

fn schema(table: &PostgresTable, found: &Found, others: &[String]) -> Finding {
    match (schema::is_ours(&table.name, found), other_tables::warning(&table.name, others)) {
        (Ok(true), None) => {
            let message = format!("the table {} has version {}", table.name, schema::VERSION);
            Finding::new("schema", Level::Good, message)
        }
        (Ok(true), Some(warning)) => Finding::new("schema", Level::Warning, warning),
        (Ok(false), _) => {
            let message = format!("the table {} is missing; `lock init --on URL` creates it", table.name);
            Finding::new("schema", Level::Bad, message)
        }
        (Err(e), _) => Finding::new("schema", Level::Bad, e.message()),
    }
}

async fn push(table: &PostgresTable, call: &Call) -> Finding {
    match table.receives_notifications(call).await {
        Ok(true) => Finding::new("push", Level::Good, "waiters are woken by a release"),
        Ok(false) => Finding::new("push", Level::Warning, feed::POOLED),
        Err(e) => Finding::new("push", Level::Unknown, e.message()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_standby_without_grant_waits_is_a_warning() {
        for (connected, setting, level, said) in [
            (0, "", Level::Good, "no other server"),
            (2, "", Level::Warning, "none of them synchronous"),
            (1, "a", Level::Good, "at all of them"),
            (2, "ANY 1 (a, b)", Level::Warning, "waits for 1"),
            (2, "FIRST 1 (a, b)", Level::Warning, "waits for 1"),
            (2, "FIRST 2 (a, b)", Level::Good, "at all of them"),
            (1, "ANY (a)", Level::Unknown, "not understood"),
        ] {
            let finding = replicas(connected, setting);
            assert!(finding.level == level && finding.message.contains(said), "{setting}: {finding:?}");
        }
    }
}
