//! Tests of the rules that are particular to MySQL and MariaDB, on both. The conformance suite tests what every backend
//! promises.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod access;
mod claims;
mod fence;
mod reaching;
mod renewals;
mod rows;
mod server;
mod sessions;
mod takeovers;
mod tls;
mod trouble;

use std::process::ExitCode;

use libtest_mimic::Arguments;
use lock_conformance::rules;
use lock_test_servers::{MySql, Product, judged_on};

/// MySQL or MariaDB.
type On = &'static MySql;

rules! {
    fn(On);
    access {
        a_missing_table_is_created_or_its_creator_named,
        a_table_of_other_version_owner_engine_is_untouched,
        a_missing_right_is_named,
        a_table_and_a_database_of_the_users_choice,
        a_password_is_never_shown,
        a_database_that_is_missing_is_named,
    }
    claims {
        free_names_take_one_statement_held_ones_a_look,
        an_attempt_that_waited_past_its_deadline_takes_nothing,
        a_new_name_past_its_deadline_is_not_held,
        an_attempt_again_has_what_the_row_has_left,
        a_look_waits_for_no_transaction,
        a_renewal_never_shortens_and_revives_nothing,
        a_token_ahead_of_the_clock_sets_no_time,
        a_release_knows_whether_others_wait,
        a_long_waiter_attempts_five_times_a_second,
    }
    fence {
        a_stale_token_writes_nothing,
        a_fence_may_have_a_table_in_any_database,
        the_statement_is_every_drivers,
        transactions_of_two_holders_come_one_after_the_other,
    }
    reaching {
        opening_waits_for_the_server_unless_it_is_lazy,
        a_lazy_clients_first_call_refuses_like_opening,
        the_patience_is_the_urls,
        a_client_opens_the_connections_its_url_allows,
        a_socket_leads_to_the_server,
    }
    renewals {
        renewals_in_one_moment_share_statements,
        each_batched_renewal_has_its_own_answer,
        a_locked_row_delays_no_other_renewal,
    }
    rows {
        a_lock_is_one_row_per_prefix_and_name,
        names_are_bytes,
        only_rows_unused_for_a_day_are_deleted,
    }
    sessions {
        whatever_the_servers_defaults_are,
        whatever_the_servers_time_zone_is,
        whatever_a_session_begins_with,
        a_session_from_another_database_finds_the_table,
        a_session_whose_clock_was_set_is_refused,
        a_server_whose_sysdate_stands_still_is_refused,
        a_users_transaction_that_stays_open_costs_no_lock,
    }
    takeovers {
        a_takeover_has_its_own_token_and_lease,
        a_token_far_ahead_of_the_clock_is_followed,
        a_predecessor_without_the_lock_has_no_successor,
        it_is_one_statement,
        one_that_waited_past_its_deadline_takes_nothing,
        a_lease_ending_in_a_row_wait_is_over,
        a_broken_takeover_becomes_a_release_and_attempt,
        it_knows_whether_others_wait_and_leaves_their_mark,
    }
    tls {
        the_roots_verify_the_server_and_its_name,
    }
    trouble {
        a_deadlock_is_repeated_and_no_contention,
        a_timed_out_lock_wait_is_retried_without_contention,
        clients_leave_a_read_only_server_for_its_successor,
        a_server_without_room_for_a_client_says_so,
        a_killed_connection_costs_one_call_at_most,
        a_killed_statement_has_unknown_effect,
        rows_that_are_locked_keep_no_connection,
    }
}

/// A test that may be *not run*, with its name; the error says why.
type OptionalTest = (&'static str, fn(On) -> Result<(), String>);

/// Tests that are not run where a server can't have a clock of its own.
const WITH_A_CLOCK: [OptionalTest; 1] = [(
    "takeovers::one_refused_for_an_old_estimate_is_sent_again",
    takeovers::one_refused_for_an_old_estimate_is_sent_again,
)];

fn main() -> ExitCode {
    let trials = [&MySql::MariaDb, &MySql::MySql].into_iter().flat_map(|on| {
        let name = on.listing().name;
        let named = move |test: &str| format!("{name}::{test}");
        let mut trials = judged_on(on, tests().into_iter().map(|(test, run)| (named(test), move || run(on))));
        trials.extend(judged_on(on, WITH_A_CLOCK.map(|(test, run)| (named(test), move || run(on)))));
        trials
    });
    let conclusion = libtest_mimic::run(&Arguments::from_args(), trials.collect());
    server::end_shared();
    conclusion.exit_code()
}
