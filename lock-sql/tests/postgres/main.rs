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
        an_attempt_refused_for_an_old_estimate_is_sent_again,
        a_server_in_any_time_zone_whose_clock_jumps_over_an_hour_keeps_leases,
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
        a_table_of_fences_in_another_schema_is_not_doubled,
    }
    grant {
        an_attempt_that_waited_for_a_row_past_its_patience_takes_nothing,
        an_attempt_at_a_new_name_that_arrives_after_its_patience_takes_nothing,
        an_attempt_that_waited_for_a_row_within_its_patience_takes_it,
        an_attempt_that_lost_a_race_knows_the_holder_and_its_lease,
        a_busy_look_writes_nothing_and_waits_for_no_row,
        an_attempt_again_has_the_same_token_and_what_the_row_has_left,
        renewals_never_shorten_and_bring_nothing_back,
        a_token_ahead_of_the_clock_is_followed_and_not_taken_for_the_time,
        names_are_bytes,
        a_revoked_holder_is_told_in_either_way,
        rows_of_a_day_ago_are_swept_and_those_in_use_stay,
    }
    opening {
        the_table_is_created_where_it_was_named_and_only_once,
        a_table_that_comes_up_during_the_first_question_is_ours,
        a_table_of_another_version_or_owner_is_left_alone,
        a_user_that_may_not_create_the_table_is_told_what_to_do,
        a_missing_right_is_named,
        sessions_that_take_no_writes_are_bad,
        row_level_security_that_rejects_a_grant_is_told_of,
        a_schema_that_is_missing_is_named,
        a_table_that_is_gone_is_said_to_be_and_made_anew,
        a_password_is_never_shown,
        a_slow_server_is_not_taken_for_one_that_refuses,
    }
    paths {
        users_with_schemas_of_their_own_share_one_table,
        a_role_with_any_search_path_finds_the_same_table,
        what_another_client_left_on_a_lent_session_changes_nothing,
        a_table_in_another_schema_is_told_of_and_not_doubled,
        a_user_whose_path_leads_to_an_older_table_is_told_which_there_are,
        a_table_that_does_not_last_is_refused,
    }
    pooler {
        behind_a_transaction_pooler_locks_work_and_waiters_look,
    }
    reaching {
        opening_waits_for_the_server_unless_it_is_lazy,
        the_first_call_of_a_lazy_client_creates_the_table,
        the_patience_is_the_urls,
        a_client_opens_as_many_connections_as_its_url_allows,
        a_lock_is_one_row_under_its_prefix_and_name,
        what_is_the_drivers_is_passed_on,
    }
    renewals {
        renewals_in_one_moment_share_statements,
        each_renewal_of_a_shared_statement_has_an_answer_of_its_own,
        a_row_that_another_transaction_has_locked_delays_no_other_renewal,
        a_shared_statement_without_an_answer_is_unknown_for_each,
    }
    session {
        whatever_a_role_sets_changes_nothing,
        a_user_whose_own_transaction_is_open_keeps_its_locks,
        the_users_pool_may_be_full,
    }
    standbys {
        a_log_reader_is_no_standby,
    }
    takeovers {
        it_has_a_token_of_its_own_and_a_whole_lease,
        a_predecessor_that_does_not_hold_the_lock_has_no_successor,
        one_that_waited_for_a_row_past_its_patience_takes_nothing,
        the_lease_counts_from_before_a_wait_for_the_row,
        a_lease_that_ends_while_it_waits_for_the_row_is_over,
        one_refused_for_an_old_estimate_is_sent_again,
        it_wakes_no_waiter_and_the_release_after_it_does,
    }
    #[cfg(feature = "tls")]
    tls {
        the_servers_certificate_and_name_are_verified,
        roots_under_libpqs_name_are_verified_with,
    }
    trouble {
        a_server_without_room_for_a_client_says_so,
        what_the_server_undid_is_asked_again_and_never_contention,
        another_error_is_no_contention,
        a_server_set_to_read_only_is_unavailable,
        a_connection_that_was_killed_is_replaced_at_every_call,
        a_statement_that_is_killed_while_it_waits_takes_nothing_that_stays,
        a_standby_takes_no_locks,
    }
    wakes {
        a_release_and_a_revoke_wake_listeners,
        a_release_without_waiters_sends_no_notification,
        waiters_count_releases_and_those_that_came_first_ask_first,
        a_mark_is_kept_up_and_never_shortened,
        a_table_is_heard_by_whatever_name,
        a_broken_feed_is_restored_and_all_claims_look,
        a_dropped_client_closes_its_connections,
        a_table_that_was_made_anew_is_heard,
        a_table_that_was_made_anew_is_looked_for,
        a_waiter_hears_in_a_table_that_was_made_anew,
    }
}

fn main() -> ExitCode {
    let trials = judged_on(&servers::Postgres::Installed, tests());
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}
