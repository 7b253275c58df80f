//! Tests of the rules that are particular to PostgreSQL, on a real server. The conformance suite tests what every
//! backend promises.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod clock;
mod commits;
mod fence;
mod grant;
mod opening;
mod paths;
mod pooler;
mod reaching;
mod renewals;
mod server;
mod session;
mod standbys;
mod takeovers;
#[cfg(feature = "tls")]
mod tls;
mod trouble;
mod wakes;

use std::process::ExitCode;

use libtest_mimic::Arguments;
use lock_conformance::rules;
use lock_test_servers::{self as servers, judged_on};

/// The outcome of a test. `Err` says why the test was not run.
pub(crate) type Outcome = Result<(), String>;

rules! {
    fn() -> Outcome;
    clock {
        an_attempt_with_a_stale_estimate_is_resent,
        leases_survive_time_zones_and_clock_changes,
    }
    commits {
        a_grant_whose_commit_comes_late_is_given_back,
        a_takeover_whose_commit_comes_late_is_given_back,
    }
    fence {
        a_stale_token_writes_nothing,
        the_statement_is_every_drivers,
        transactions_of_two_holders_come_in_order,
        a_transaction_that_was_rolled_back_leaves_no_token,
        a_fence_is_one_whatever_the_search_path,
        a_fence_table_in_another_schema_is_reused,
    }
    grant {
        an_attempt_past_its_patience_at_a_row_fails,
        a_late_attempt_at_a_new_name_takes_nothing,
        an_attempt_waiting_within_its_patience_takes_the_row,
        a_losing_attempt_knows_the_holder_and_lease,
        a_busy_look_neither_writes_nor_waits,
        a_repeated_attempt_has_its_token_and_remaining_lease,
        renewals_never_shorten_and_bring_nothing_back,
        a_token_ahead_of_the_clock_sets_no_time,
        names_are_bytes,
        a_revoked_holder_is_told_in_either_way,
        only_unused_rows_a_day_old_are_swept,
    }
    opening {
        the_table_is_created_once_where_named,
        a_table_appearing_during_the_first_question_is_ours,
        a_table_of_another_version_or_owner_is_untouched,
        a_user_without_create_right_gets_advice,
        a_missing_right_is_named,
        sessions_that_take_no_writes_are_bad,
        row_level_security_that_rejects_grants_is_reported,
        a_schema_that_is_missing_is_named,
        a_missing_table_is_reported_and_created_anew,
        a_password_is_never_shown,
        a_slow_server_is_no_refusing_server,
    }
    paths {
        users_with_schemas_of_their_own_share_one_table,
        any_search_path_finds_the_same_table,
        leftovers_on_a_lent_session_change_nothing,
        a_table_in_another_schema_is_reported_not_doubled,
        an_older_table_on_the_path_is_reported,
        a_table_that_does_not_last_is_refused,
    }
    pooler {
        behind_a_transaction_pooler_locks_work_and_waiters_look,
    }
    reaching {
        opening_waits_for_the_server_unless_it_is_lazy,
        a_lazy_clients_first_call_creates_the_table,
        the_patience_is_the_urls,
        a_client_opens_the_connections_its_url_allows,
        a_lock_is_one_row_per_prefix_and_name,
        what_is_the_drivers_is_passed_on,
    }
    renewals {
        renewals_in_one_moment_share_statements,
        each_batched_renewal_has_its_own_answer,
        a_locked_row_delays_no_other_renewal,
        an_unanswered_batch_is_unknown_for_each_renewal,
    }
    session {
        whatever_a_role_sets_changes_nothing,
        an_open_transaction_of_the_user_keeps_locks,
        the_users_pool_may_be_full,
    }
    standbys {
        a_log_reader_is_no_standby,
    }
    takeovers {
        a_takeover_has_its_own_token_and_lease,
        a_predecessor_without_the_lock_has_no_successor,
        a_takeover_past_its_patience_takes_nothing,
        the_lease_counts_from_before_the_row_wait,
        a_lease_ending_in_a_row_wait_is_over,
        one_refused_for_an_old_estimate_is_sent_again,
        a_takeover_wakes_no_waiter_but_its_release_does,
    }
    #[cfg(feature = "tls")]
    tls {
        the_servers_certificate_and_name_are_verified,
        roots_under_libpqs_name_are_verified_with,
    }
    trouble {
        a_server_without_room_for_a_client_says_so,
        an_undone_statement_is_retried_and_never_contention,
        another_error_is_no_contention,
        a_server_set_to_read_only_is_unavailable,
        every_call_replaces_a_killed_connection,
        a_waiting_statement_that_is_killed_takes_nothing,
        a_standby_takes_no_locks,
    }
    wakes {
        a_release_and_a_revoke_wake_listeners,
        a_release_without_waiters_sends_no_notification,
        waiters_count_releases_and_the_earliest_attempts_first,
        a_mark_is_kept_up_and_never_shortened,
        a_table_is_heard_by_whatever_name,
        a_broken_feed_is_restored_and_all_claims_look,
        a_dropped_client_closes_its_connections,
        a_table_that_was_made_anew_is_heard,
        a_table_that_was_made_anew_is_looked_for,
        a_waiter_is_notified_in_a_recreated_table,
    }
}

fn main() -> ExitCode {
    let trials = judged_on(&servers::Postgres::Installed, tests());
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}
