//! `check`: is the server reachable, are we allowed, does it keep what it is told?

use lock_core::Result;
use lock_core::driver::{Finding, Level};
use sqlx::Row as _;
use sqlx::postgres::PgRow;

use super::schema::{self, Found};
use super::statement::Statement;
use super::statements::now;
use super::table::PostgresTable;
use super::{errors, wakes};
use crate::call::Call;
use crate::server::{Drift, Purpose, finding};

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
    findings.extend(table.pool.drift().map(Drift::finding));
    findings.push(push(table, call).await);
    Ok(findings)
}

fn about_server(table: &PostgresTable, row: &PgRow) -> sqlx::Result<Vec<Finding>> {
    let text = |column: &str| row.try_get::<String, _>(column);
    let server = &table.pushed.server;
    Ok(vec![
        finding("reachable", Level::Good, format!("PostgreSQL {} at {server}", text("version")?)),
        rights(row.try_get("refused")?, table),
        schema(table, row.try_get("comment")?),
        match text("read_only")?.as_str() {
            "on" => {
                finding("writable", Level::Bad, "the server, or this user's sessions, are set to read-only")
            }
            _ => finding("writable", Level::Good, "it takes writes"),
        },
        durability(&text("fsync")?, &text("commits")?),
        replicas(row.try_get("replicas")?, &text("standbys")?),
        match row.try_get("encrypted")? {
            true => finding("encryption", Level::Good, "the server's connection is encrypted"),
            false => {
                finding("encryption", Level::Warning, "the server's connection is not encrypted; ?ca= does")
            }
        },
    ])
}

fn rights(refused: Option<String>, table: &PostgresTable) -> Finding {
    match refused.as_deref() {
        Some("") => finding("rights", Level::Good, "all that a lock needs is allowed"),
        Some(refused) => {
            let message = format!("this user is refused {refused}; GRANT them on {}", table.name);
            finding("rights", Level::Bad, message)
        }
        None => finding("rights", Level::Unknown, "the server would not say"),
    }
}

fn durability(fsync: &str, commits: &str) -> Finding {
    match (fsync, commits) {
        ("off", _) => finding(
            "durability",
            Level::Warning,
            "fsync=off: a crash of the machine loses locks that were granted, or the whole database",
        ),
        (_, "off") => finding(
            "durability",
            Level::Good,
            "a grant is on the disk before it counts (synchronous_commit=off is overruled for the locks)",
        ),
        _ => finding("durability", Level::Good, "a grant is on the disk before it counts"),
    }
}

fn replicas(connected: i64, synchronous: &str) -> Finding {
    match (connected, synchronous) {
        (0, "") => finding("replicas", Level::Good, "none: the server is the only one that has the locks"),
        (_, "") => finding(
            "replicas",
            Level::Warning,
            format!(
                "{connected}, none of them synchronous: one that is promoted may not know of the last grants"
            ),
        ),
        _ => finding("replicas", Level::Good, format!("synchronous: {synchronous}")),
    }
}

fn schema(table: &PostgresTable, comment: Option<String>) -> Finding {
    match schema::is_ours(&table.name, &Found { is_there: true, comment }) {
        Ok(_) => finding(
            "schema",
            Level::Good,
            format!("the table {} has version {}", table.name, schema::VERSION),
        ),
        Err(e) => finding("schema", Level::Bad, e.message()),
    }
}

async fn push(table: &PostgresTable, call: &Call) -> Finding {
    match table.hears(call).await {
        Ok(true) => finding("push", Level::Good, "waiters are woken by a release"),
        Ok(false) => finding("push", Level::Warning, wakes::LENT),
        Err(e) => finding("push", Level::Unknown, e.message()),
    }
}
