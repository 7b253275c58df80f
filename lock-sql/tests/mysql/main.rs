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
        a_missing_table_is_made_or_its_maker_is_named,
        a_table_of_another_version_owner_or_engine_is_left_alone,
        a_missing_right_is_named,
        a_table_and_a_database_of_the_users_choice,
        a_password_is_never_shown,
        a_database_that_is_missing_is_named,
    }
    claims {
        a_free_name_is_one_statement_and_a_held_one_is_looked_at,
        an_attempt_that_waited_past_its_deadline_takes_nothing,
        a_new_name_that_waited_past_its_deadline_is_not_held,
        an_attempt_again_has_what_the_row_has_left,
        a_look_waits_for_no_transaction,
        a_renewal_never_shortens_and_revives_nothing,
        a_token_ahead_of_the_clock_is_followed_and_not_taken_for_the_time,
        a_release_knows_whether_others_wait,
        a_process_that_waits_for_long_asks_five_times_a_second_at_most,
    }
    fence {
        a_stale_token_writes_nothing,
        a_fence_may_have_a_table_in_any_database,
        the_statement_is_every_drivers,
        transactions_of_two_holders_come_one_after_the_other,
    }
    reaching {
        opening_waits_for_the_server_unless_it_is_lazy,
        the_first_call_of_a_lazy_client_refuses_what_opening_would,
        the_patience_is_the_urls,
        a_client_opens_as_many_connections_as_its_url_allows,
        a_socket_leads_to_the_server,
    }
    renewals {
        renewals_in_one_moment_share_statements,
        each_renewal_of_a_shared_statement_has_an_answer_of_its_own,
        a_row_that_another_transaction_has_locked_delays_no_other_renewal,
    }
    rows {
        a_lock_is_one_row_under_its_prefix_and_name,
        names_are_bytes,
        rows_unused_for_a_day_are_deleted_and_others_stay,
    }
    sessions {
        whatever_the_servers_defaults_are,
        whatever_the_servers_time_zone_is,
        whatever_a_session_begins_with,
        a_session_that_begins_in_another_database_finds_the_same_table,
        a_session_whose_clock_was_set_is_refused,
        a_server_whose_sysdate_stands_still_is_refused,
        a_users_transaction_that_stays_open_costs_no_lock,
    }
    takeovers {
        it_has_a_token_of_its_own_and_a_whole_lease,
        a_token_far_ahead_of_the_clock_is_followed,
        a_predecessor_that_does_not_hold_the_lock_has_no_successor,
        it_is_one_statement,
        one_that_waited_past_its_deadline_takes_nothing,
        a_lease_that_ends_while_it_waits_for_the_row_is_over,
        one_whose_connection_broke_is_followed_by_a_release_and_an_attempt,
        it_knows_whether_others_wait_and_leaves_their_mark,
    }
    tls {
        the_roots_verify_the_server_and_its_name,
    }
    trouble {
        a_deadlock_is_repeated_and_no_contention,
        a_lock_wait_that_runs_out_is_repeated_and_no_contention,
        a_server_that_is_read_only_is_left_and_its_successor_met,
        a_server_without_room_for_a_client_says_so,
        a_connection_killed_at_any_call_costs_one_call_at_most,
        a_statement_that_is_killed_is_not_known_to_be_undone,
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
