//! `check`: whether the server is reachable, grants the rights that locks need, and keeps what it is told.

use std::collections::HashMap;

use lock_core::Result;
use lock_core::driver::{Finding, Level};
use lock_core::toolkit::Call;
use sqlx::Row as _;

use super::errors;
use super::schema::{self, VERSION};
use super::table::MySqlTable;
use crate::server::Purpose;

/// Checks the server. Returns one finding per question. It is an `Err` only if the server can't be reached at all.
pub(super) async fn check(table: &MySqlTable, call: &Call) -> Result<Vec<Finding>> {
    let variables = ask(table, call).await?;
    let mut findings = vec![
        Finding::new(
            "reachable",
            Level::Good,
            format!("{} at {}", variables.product(), table.pool.dialect().info().server),
        ),
        rights(table, call).await,
        schema(table, call).await,
        variables.durability(),
        variables.replication(),
        variables.binary_log(),
        variables.encryption(),
    ];
    findings.push(table.pool.drift().unwrap_or_default().finding());
    Ok(findings)
}

/// The server's variables, by name. A variable that a version doesn't have is missing.
struct Variables(HashMap<String, String>);

const VARIABLES: &str = "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('version', 'innodb_flush_log_at_trx_commit', \
    'sync_binlog', 'log_bin', 'binlog_format', 'read_only', 'super_read_only', 'wsrep_on')";

const CIPHER: &str = "SHOW SESSION STATUS LIKE 'Ssl_cipher'";

async fn ask(table: &MySqlTable, call: &Call) -> Result<Variables> {
    let mut variables = HashMap::new();
    for text in [VARIABLES, CIPHER] {
        let answer = table.pool.ask(call, Purpose::Acquire, move |_| text.to_owned().into()).await?;
        for row in &answer.rows {
            let read = || Ok((row.try_get::<String, _>(0)?, row.try_get(1)?));
            variables.extend([read().map_err(errors::reading)?]);
        }
    }
    Ok(Variables(variables))
}

impl Variables {
    fn of(&self, variable: &str) -> Option<&str> {
        self.0.get(variable).map(String::as_str)
    }

    fn is_on(&self, variable: &str) -> bool {
        self.of(variable).is_some_and(|value| value.eq_ignore_ascii_case("ON") || value == "1")
    }

    fn product(&self) -> String {
        let version = self.of("version").unwrap_or_default();
        match version.split_once("-MariaDB") {
            Some((number, _)) => format!("MariaDB {number}"),
            None => format!("MySQL {version}"),
        }
    }

    fn durability(&self) -> Finding {
        let subject = "durability";
        let log = self.is_on("log_bin").then(|| self.of("sync_binlog")).flatten();
        match (self.of("innodb_flush_log_at_trx_commit"), log) {
            (Some("1" | "3"), None | Some("1")) => {
                Finding::new(subject, Level::Good, "each grant is on the disk before it is answered")
            }
            (Some("1" | "3"), Some(n)) => Finding::new(
                subject,
                Level::Warning,
                format!(
                    "sync_binlog is {n}: after a crash, replicas and the server may disagree on the last grants"
                ),
            ),
            (Some(n), _) => Finding::new(
                subject,
                Level::Warning,
                format!(
                    "innodb_flush_log_at_trx_commit is {n}: a crash loses the grants of about the last second"
                ),
            ),
            (None, _) => {
                Finding::new(subject, Level::Unknown, "the server doesn't say when it flushes its log")
            }
        }
    }

    fn replication(&self) -> Finding {
        let subject = "replication";
        if self.is_on("read_only") || self.is_on("super_read_only") {
            let message = "the server is read-only: a replica, or a primary that steps down; give the primary's address";
            return Finding::new(subject, Level::Bad, message);
        }
        if self.is_on("wsrep_on") {
            let message = "a Galera cluster: give all clients the same node; otherwise two nodes can grant a row at \
                once, which is settled only when they commit";
            return Finding::new(subject, Level::Warning, message);
        }
        Finding::new(
            subject,
            Level::Good,
            "takes writes; a replica that is promoted lacks the grants that did not reach it",
        )
    }

    /// A statement with `SYSDATE` that is carried out again on a replica reads another time there.
    fn binary_log(&self) -> Finding {
        let subject = "binary log";
        match (self.is_on("log_bin"), self.of("binlog_format")) {
            (true, Some("STATEMENT")) => Finding::new(
                subject,
                Level::Warning,
                "binlog_format is STATEMENT: a replica compares deadlines with its own clock, and may lack a grant; \
                 set MIXED or ROW",
            ),
            (true, _) => Finding::new(subject, Level::Good, "replicas receive rows"),
            (false, _) => Finding::new(subject, Level::Good, "off"),
        }
    }

    fn encryption(&self) -> Finding {
        match self.of("Ssl_cipher").unwrap_or_default() {
            "" => Finding::new(
                "encryption",
                Level::Warning,
                "this connection is not encrypted; see ssl-mode and ca",
            ),
            cipher => {
                Finding::new("encryption", Level::Good, format!("this connection is encrypted ({cipher})"))
            }
        }
    }
}

/// Tries each statement that a lock needs, in a form that finds no row.
async fn rights(table: &MySqlTable, call: &Call) -> Finding {
    let mut missing = Vec::new();
    for (right, statement) in table.statements.rights() {
        let asked = table.pool.ask(call, Purpose::Acquire, move |_| statement.clone()).await;
        match asked {
            Ok(_) => {}
            Err(e) if errors::is_refusal(&e) => missing.push(right),
            Err(e) => return Finding::of_failure("rights", &e),
        }
    }
    match missing[..] {
        [] => Finding::new("rights", Level::Good, "all that a lock needs is allowed"),
        ["DELETE"] => Finding::new(
            "rights",
            Level::Warning,
            format!(
                "this user may not DELETE from {}: rows of names that are no longer used stay",
                table.name
            ),
        ),
        _ => Finding::new(
            "rights",
            Level::Bad,
            format!("this user may not {} on {}: GRANT it", missing.join(", "), table.name),
        ),
    }
}

async fn schema(table: &MySqlTable, call: &Call) -> Finding {
    match schema::look(table, call).await {
        Ok(()) => {
            Finding::new("schema", Level::Good, format!("the table {} has version {VERSION}", table.name))
        }
        Err(e) => Finding::of_failure("schema", &e),
    }
}
