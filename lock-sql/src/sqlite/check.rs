//! `check`: whether the file can be used, and whether it is on a safe file system.

use lock_core::Result;
use lock_core::driver::{Finding, Level};
use lock_core::toolkit::Call;
use sqlx::Row as _;

use super::errors;
use super::file::File;
use super::filesystem::FileSystem;
use super::serial_connection::Writes;
use super::settings::{BootId, Trust};
use super::table::SqliteTable;
use super::{schema, time};

const ABOUT: &str = "SELECT sqlite_version(), (SELECT journal_mode FROM pragma_journal_mode)";

/// Writes the row of a free lock, and deletes it: a full disk refuses only what is written. No lock has this name, because
/// it is no UTF-8.
const WRITES: [&str; 2] = [
    "INSERT OR REPLACE INTO main.onelock_locks VALUES (x'ff', x'', 1, zeroblob(16), 0, '', NULL)",
    "DELETE FROM main.onelock_locks WHERE name = x'ff'",
];

/// Checks the file. Returns one finding per question. It is an `Err` only if the file can't be opened at all.
pub(crate) async fn check(table: &SqliteTable, call: &Call) -> Result<Vec<Finding>> {
    let about = table.looking().ask(call, Writes::Nothing, |_| sqlx::query(ABOUT)).await?;
    let row = about.rows.first().ok_or_else(|| errors::asking(sqlx::Error::RowNotFound))?;
    let (version, mode): (String, String) =
        (row.try_get(0).map_err(errors::asking)?, row.try_get(1).map_err(errors::asking)?);
    Ok(vec![
        Finding::new("reachable", Level::Good, format!("SQLite {version}, {}", table.file.path().display())),
        writable(table, call).await,
        schema(table, call).await,
        file_system(&table.file, table.trust),
        match mode.as_str() {
            "wal" => Finding::new("journal", Level::Good, "write-ahead log: looks wait for no writer"),
            mode => {
                Finding::new("journal", Level::Warning, format!("the journal mode was changed to {mode:?}"))
            }
        },
        Finding::new("clock", Level::Good, time::CLOCK_DESCRIPTION),
        boot_id(table.boot),
        waiters(table),
    ])
}

/// The version was checked when the connection was opened, but a trigger may have been added since.
async fn schema(table: &SqliteTable, call: &Call) -> Finding {
    let triggers = table.looking().ask(call, Writes::Nothing, |_| sqlx::query(schema::TRIGGERS)).await;
    match triggers.and_then(|found| schema::refuse_triggers(&found.rows)) {
        Ok(()) => {
            let good = format!("the table onelock_locks has version {}", schema::VERSION);
            Finding::new("schema", Level::Good, good)
        }
        Err(e) => Finding::of_failure("schema", &e),
    }
}

fn boot_id(trust: BootId) -> Finding {
    match (time::must_be_the_machines(), trust) {
        (Ok(()), _) => Finding::new("boot id", Level::Good, time::BOOT_ID_ORIGIN),
        (Err(_), BootId::OfTheContainer) => Finding::new(
            "boot id",
            Level::Warning,
            "made up by the manager of this container, accepted by boot=trust: no process outside may use this file",
        ),
        (Err(e), BootId::OfTheMachine) => Finding::new("boot id", Level::Bad, e.message()),
    }
}

fn waiters(table: &SqliteTable) -> Finding {
    match table.wakes().obstacle() {
        None => Finding::new("waiters", Level::Good, "processes see whether other processes wait"),
        Some(e) => Finding::new(
            "waiters",
            Level::Warning,
            format!(
                "the file {}-waiters can't be used, and hand-overs are less fair: {e}",
                table.file.path().display()
            ),
        ),
    }
}

async fn writable(table: &SqliteTable, call: &Call) -> Finding {
    match write(table, call).await {
        Ok(()) => Finding::new("writable", Level::Good, "this user may write to the file"),
        Err(e) => Finding::of_failure("writable", &e),
    }
}

async fn write(table: &SqliteTable, call: &Call) -> Result<()> {
    for statement in WRITES {
        table.writes.ask(call, Writes::InTime, move |_| sqlx::query(statement)).await?;
    }
    Ok(())
}

fn file_system(file: &File, trust: Trust) -> Finding {
    let found = match file.file_system() {
        Ok(found) => found,
        Err(e) => return Finding::new("file system", Level::Unknown, e.message()),
    };
    match (found, trust) {
        (FileSystem::Local(kind), _) => Finding::new("file system", Level::Good, format!("local: {kind}")),
        (FileSystem::Foreign(kind), Trust::Anything) => Finding::new(
            "file system",
            Level::Warning,
            format!("{kind}, accepted by fs=trust: no other machine may use this file"),
        ),
        (FileSystem::Foreign(kind), Trust::Local) => Finding::new(
            "file system",
            Level::Bad,
            format!("{} is now on {kind}: other machines may use this file", file.folder().display()),
        ),
        (FileSystem::NotKnown, _) => Finding::new(
            "file system",
            Level::Unknown,
            "it must be a local disk, but this system can't tell whether it is",
        ),
    }
}
