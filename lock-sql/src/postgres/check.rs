//! `check`: is the server reachable, are we allowed, does it keep what it is told?

use lock_core::Result;
use lock_core::driver::{Call, Finding, Level};
use sqlx::Row as _;
use sqlx::postgres::PgRow;

use super::schema::{self, Found};
use super::statement::Statement;
use super::statements::now;
use super::table::PostgresTable;
use super::{errors, wakes};
use crate::server::Purpose;

/// The settings are the server's own, without what our sessions set.
const ABOUT: &str = concat!(
    "SELECT ",
    now!(),
    " AS now, split_part(current_setting('server_version'), ' ', 1) AS version,
  array_to_string(ARRAY(SELECT p FROM unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) AS p
    WHERE NOT has_table_privilege(to_regclass('{table}'), p)), ', ') AS refused,
  current_setting('fsync') AS fsync,
  (SELECT reset_val FROM pg_settings WHERE name = 'synchronous_commit') AS commits,
  current_setting('synchronous_standby_names') AS standbys,
  (SELECT count(*) FROM pg_stat_replication) AS replicas,
  current_setting('transaction_read_only') AS read_only,
  obj_description(to_regclass('{table}'), 'pg_class') AS comment,
  coalesce((SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()), false) AS encrypted"
);

/// One finding per question. An `Err` only if the server can't be reached at all.
pub(super) async fn check(table: &PostgresTable, call: &Call) -> Result<Vec<Finding>> {
    let about = ABOUT.replace("{table}", &table.name.quoted('"')).into();
    let answer = table.pool.ask(call, Purpose::Enter, move |_| Statement::new(&about)).await?;
    let row = answer.rows.first().ok_or_else(|| errors::reading(sqlx::Error::RowNotFound))?;
    let mut findings = about_server(table, row).map_err(errors::reading)?;
    findings.push(table.pool.drift().unwrap_or_default().finding());
    findings.push(push(table, call).await);
    Ok(findings)
}

fn about_server(table: &PostgresTable, row: &PgRow) -> sqlx::Result<Vec<Finding>> {
    let text = |column: &str| row.try_get::<String, _>(column);
    let server = &table.pushed.server;
    Ok(vec![
        Finding::new("reachable", Level::Good, format!("PostgreSQL {} at {server}", text("version")?)),
        rights(row.try_get("refused")?, table),
        schema(table, row.try_get("comment")?),
        match text("read_only")?.as_str() {
            "on" => Finding::new(
                "writable",
                Level::Bad,
                "the server, or this user's sessions, are set to read-only",
            ),
            _ => Finding::new("writable", Level::Good, "it takes writes"),
        },
        durability(&text("fsync")?, &text("commits")?),
        replicas(row.try_get("replicas")?, &text("standbys")?),
        match row.try_get("encrypted")? {
            true => Finding::new("encryption", Level::Good, "the server's connection is encrypted"),
            false => Finding::new(
                "encryption",
                Level::Warning,
                "the server's connection is not encrypted; ?ca= does",
            ),
        },
    ])
}

fn rights(refused: Option<String>, table: &PostgresTable) -> Finding {
    match refused.as_deref() {
        Some("") => Finding::new("rights", Level::Good, "all that a lock needs is allowed"),
        Some(refused) => {
            let message = format!("this user is refused {refused}; GRANT them on {}", table.name);
            Finding::new("rights", Level::Bad, message)
        }
        None => Finding::new("rights", Level::Unknown, "the server would not say"),
    }
}

fn durability(fsync: &str, commits: &str) -> Finding {
    match (fsync, commits) {
        ("off", _) => Finding::new(
            "durability",
            Level::Warning,
            "fsync=off: a crash of the machine loses locks that were granted, or the whole database",
        ),
        (_, "off") => Finding::new(
            "durability",
            Level::Good,
            "a grant is on the disk before it counts (synchronous_commit=off is overruled for the locks)",
        ),
        _ => Finding::new("durability", Level::Good, "a grant is on the disk before it counts"),
    }
}

fn replicas(connected: i64, synchronous: &str) -> Finding {
    match (connected, synchronous) {
        (0, "") => {
            Finding::new("replicas", Level::Good, "none: the server is the only one that has the locks")
        }
        (_, "") => Finding::new(
            "replicas",
            Level::Warning,
            format!(
                "{connected}, none of them synchronous: one that is promoted may not know of the last grants"
            ),
        ),
        _ => Finding::new("replicas", Level::Good, format!("synchronous: {synchronous}")),
    }
}

fn schema(table: &PostgresTable, comment: Option<String>) -> Finding {
    match schema::is_ours(&table.name, &Found { is_there: true, comment }) {
        Ok(_) => Finding::new(
            "schema",
            Level::Good,
            format!("the table {} has version {}", table.name, schema::VERSION),
        ),
        Err(e) => Finding::new("schema", Level::Bad, e.message()),
    }
}

async fn push(table: &PostgresTable, call: &Call) -> Finding {
    match table.hears(call).await {
        Ok(true) => Finding::new("push", Level::Good, "waiters are woken by a release"),
        Ok(false) => Finding::new("push", Level::Warning, wakes::LENT),
        Err(e) => Finding::new("push", Level::Unknown, e.message()),
    }
}
