//! Tests of the rules that are particular to SQLite. The conformance suite tests what every backend promises.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod fence;
#[cfg(target_os = "linux")]
mod index;
mod lease;
mod opening;
mod renewals;
mod rows;
mod statements;
mod takeovers;
mod wakes;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use libtest_mimic::Arguments;
use lock_conformance::claims::{self, Terms};
use lock_conformance::rules;
use lock_core::driver::{Claim, Predecessor, Queueing};
use lock_core::{Client, Options};
use lock_sql::sqlite::Sqlite;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{AssertSqlSafe, ConnectOptions, Executor};
use tempfile::TempDir;

rules! {
    fn();
    fence {
        a_stale_token_writes_nothing,
        a_transaction_that_was_rolled_back_leaves_no_token,
        no_other_holder_writes_between_check_and_commit,
    }
    lease {
        another_boots_lease_is_over_but_its_token_counts,
        a_lease_that_has_ended_is_not_brought_back,
        a_token_ahead_of_the_clock_is_followed,
        a_holder_learns_of_either_revoke,
        a_label_is_shown_in_one_line,
    }
    #[cfg(target_os = "linux")]
    index {
        a_removed_index_is_recreated_under_load,
        an_index_without_its_log_is_ignored,
    }
    #[cfg(target_os = "linux")]
    lease {
        leases_end_by_the_clock_since_boot,
    }
    #[cfg(unix)]
    lease {
        a_file_that_was_deleted_holds_nothing,
        a_file_deleted_under_a_statement_takes_no_lock,
        a_removed_log_makes_no_second_holder,
    }
    opening {
        opening_opens_the_file_unless_it_is_lazy,
        opening_waits_for_a_file_locked_elsewhere,
        the_file_is_created_and_its_folder_is_not,
        what_is_no_database_is_left_alone,
        a_damaged_file_is_said_to_be_damaged,
        a_table_of_another_version_or_owner_is_untouched,
        an_unwritable_file_is_reported_as_read_only,
        a_database_in_memory_is_refused,
        a_connections_temporary_table_is_not_the_files,
        a_trigger_at_the_table_is_refused,
        the_key_of_an_encrypted_file_is_not_shown,
    }
    #[cfg(target_os = "linux")]
    opening {
        a_possibly_remote_file_system_needs_trust,
        a_file_replaced_during_opening_takes_no_locks,
    }
    #[cfg(unix)]
    opening {
        a_link_leads_to_the_file_and_its_waiters,
        a_link_that_leads_nowhere_is_refused,
        a_file_by_two_names_is_refused,
        a_path_without_a_file_is_refused_at_once,
    }
    renewals {
        renewals_in_one_moment_share_statements,
        each_batched_renewal_has_its_own_answer,
    }
    rows {
        only_rows_unused_for_a_day_are_deleted,
        a_lock_is_one_row_per_prefix_and_name,
        an_existing_database_keeps_its_own_settings,
        names_are_bytes,
    }
    statements {
        an_attempt_done_after_its_patience_takes_nothing,
        a_renewal_done_after_its_patience_renews_nothing,
        a_losing_attempt_knows_the_holder_and_lease,
        looks_need_no_write_right_and_writes_fail_promptly,
        a_look_waits_for_no_own_write,
        a_write_is_refused_in_time_to_hear_it,
        a_write_waits_for_other_processes_within_its_time,
        the_patience_is_the_urls,
        a_grant_that_does_not_take_effect_is_none,
    }
    takeovers {
        a_takeover_has_its_own_token_and_lease,
        a_token_ahead_of_the_clock_is_followed,
        a_predecessor_without_the_lock_has_no_successor,
        one_that_is_done_after_its_patience_takes_nothing,
        one_that_does_not_take_effect_is_none,
        another_process_that_writes_is_waited_for,
        a_takeover_wakes_no_waiter_but_its_release_does,
    }
    wakes {
        a_release_wakes_another_clients_waiters_in_this_process,
        only_the_waiters_of_that_lock_are_woken,
        a_lock_broken_now_wakes_its_waiters,
    }
}

/// A test that may be *not run*, with its name; the error says why.
type OptionalTest = (&'static str, fn() -> Result<(), String>);

/// Tests that are not run if the programs with other drivers are missing.
const WITH_OTHER_DRIVERS: [OptionalTest; 1] =
    [("fence::the_statement_is_every_drivers", fence::the_statement_is_every_drivers)];

fn main() -> ExitCode {
    let mut trials = rules::judged("the rules of sqlite", tests());
    trials.extend(rules::judged("the rules of sqlite", WITH_OTHER_DRIVERS));
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// Runs a test on two threads; SQLite has more of its own.
fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(test);
}

/// The file of one test.
struct File {
    folder: TempDir,
}

impl File {
    fn new() -> File {
        File { folder: TempDir::new().unwrap() }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("locks.db")
    }

    fn url(&self) -> String {
        format!("sqlite://{}", self.path().display())
    }

    fn options(&self) -> SqliteConnectOptions {
        SqliteConnectOptions::new().filename(self.path()).create_if_missing(true).disable_statement_logging()
    }

    async fn client(&self) -> Client {
        Sqlite::from(self.options()).open(Options::default()).await.unwrap()
    }

    async fn admin(&self) -> SqliteConnection {
        self.options().connect().await.unwrap()
    }

    /// Runs a statement that the test has made.
    async fn execute(&self, sql: &str) -> u64 {
        self.admin().await.execute(AssertSqlSafe(sql.to_owned())).await.unwrap().rows_affected()
    }

    async fn number(&self, sql: &str) -> i64 {
        sqlx::query_scalar(AssertSqlSafe(sql.to_owned())).fetch_one(&mut self.admin().await).await.unwrap()
    }
}

const TTL: Duration = Duration::from_secs(10);

fn claim(client: &Client, name: &str, patience: Duration) -> Box<dyn Claim> {
    claims::claim(client, name, terms(patience))
}

/// Acquires a lock, and returns what a successor of its holder has to name.
async fn held(client: &Client, name: &str, patience: Duration) -> (Box<dyn Claim>, Predecessor, u64) {
    let (mut holder, named) = claims::predecessor(client, name, terms(patience));
    let token = granted(&mut holder).await;
    (holder, named, token)
}

fn terms(patience: Duration) -> Terms<'static> {
    Terms { ttl: TTL, patience, waits: Queueing::No, label: "a test" }
}

async fn granted(claim: &mut Box<dyn Claim>) -> u64 {
    claims::granted(claim).await.token.get()
}
