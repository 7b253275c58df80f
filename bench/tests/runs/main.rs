//! The program itself: that every workload runs, and that a program can read what it prints.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod backends;
mod holding;
mod one_run;
mod other_commands;
mod program;

use libtest_mimic::Arguments;
use lock_conformance::rules;

/// Why a case could not be run.
type NotRun = String;

type Case = fn() -> Result<(), NotRun>;

fn main() {
    let cases: [(&str, Case); 22] = [
        ("memory_has_neither_floor_nor_hand_over", backends::memory),
        ("on_redis_every_workload_has_its_subjects_and_leaves_no_lock", backends::redis),
        ("on_redis_peers_are_measured_beside_the_library", other_commands::peers),
        ("on_redlock_one_of_five_may_be_lost", backends::redlock),
        ("no_argument_makes_a_resource_with_tokens_take_a_stale_write", other_commands::argue),
        ("on_sqlite_there_is_a_floor_where_no_client_waits", backends::sqlite),
        ("on_mariadb_waiters_look_and_renewals_are_timed_beside_them", backends::mariadb),
        ("on_mysql_too", backends::mysql),
        ("on_postgres_releases_are_pushed_and_commits_are_timed_beside_loops", backends::postgres),
        ("on_a_replica_set_of_mongodb_a_change_stream_pushes_releases", backends::mongodb),
        ("on_etcd_the_next_one_is_told", backends::etcd),
        ("on_zookeeper_too", backends::zookeeper),
        ("the_driver_is_compared_with_redis_benchmark", other_commands::calibrate_redis),
        ("the_driver_is_compared_with_pgbench", other_commands::calibrate_postgres),
        ("held_locks_are_renewed_and_none_is_lost", holding::hold),
        ("a_lock_that_is_lost_meanwhile_is_an_error", holding::loss),
        ("a_server_that_is_not_there_is_an_error", other_commands::absent_server),
        ("what_fails_is_told_and_the_rest_is_measured", one_run::failed_workload),
        ("what_locks_and_renewals_cost_is_that_of_another_process", holding::held),
        ("without_the_program_lock_there_is_no_first_lock", one_run::without_lock),
        ("two_runs_are_compared_in_a_document", one_run::measured),
        ("another_process_that_waits_ends_with_the_one_that_started_it", other_commands::orphan),
    ];
    let mut arguments = Arguments::from_args();
    // Each case waits for half of its time. More of them at once would disturb each other's measurements.
    arguments.test_threads.get_or_insert(3);
    libtest_mimic::run(&arguments, rules::judged("lock-bench", cases)).exit();
}
