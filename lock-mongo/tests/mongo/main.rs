//! Tests of the rules that are particular to MongoDB, on real servers. The conformance suite tests what every backend
//! promises.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod access;
mod documents;
mod fence;
mod grant;
mod link;
mod reaching;
mod renewals;
mod server;
mod sessions;
mod set;
mod takeovers;
mod tls;
mod wakes;

use std::process::ExitCode;

use libtest_mimic::Arguments;
use lock_conformance::rules;
use lock_test_servers::{self as servers, judged_on};

rules! {
    fn();
    access {
        a_read_only_user_learns_the_needed_role,
        a_wrong_password_is_told_and_not_shown,
        a_collection_of_another_version_is_left_alone,
        a_user_without_index_rights_takes_locks,
        check_says_what_the_server_is,
    }
    documents {
        a_list_among_many_documents_has_patience_per_request,
        a_list_looks_at_no_lock_that_was_released,
        a_lock_is_a_document_under_its_bytes,
        the_index_forgets_a_day_after_the_token,
        what_no_lock_client_has_written_is_rejected,
    }
    fence {
        a_stale_token_writes_nothing,
        one_of_two_concurrent_transactions_is_aborted,
        one_document_can_be_its_own_fence,
    }
    grant {
        a_late_attempts_deadline_refuses_it_without_trace,
        a_late_attempt_is_refused_by_its_number,
        an_attempt_with_a_stale_estimate_is_resent,
        of_many_claims_that_create_a_document_one_wins,
        a_lease_that_has_ended_is_not_brought_back,
        a_busy_look_is_not_in_the_oplog,
        an_answer_that_the_server_kept_is_understood,
        every_write_waits_for_a_majority_and_its_journal,
        what_a_majority_has_not_acknowledged_is_unknown,
    }
    link {
        an_early_answer_keeps_no_dead_link,
        a_document_that_others_keep_costs_no_link,
        connections_that_died_together_cost_one_patience,
        a_silent_server_costs_one_patience_and_few_connections,
        a_client_dropped_last_ends_silently,
    }
    reaching {
        a_server_without_room_for_a_client_says_so,
        opening_waits_for_the_server_unless_it_is_lazy,
        the_patience_is_the_urls,
        a_database_a_collection_and_a_prefix,
    }
    renewals {
        renewals_in_one_moment_share_requests,
        each_batched_renewal_request_has_its_own_answer,
        an_open_transaction_delays_only_its_own_document,
        a_batched_request_awaits_a_majority_and_its_journal,
        what_a_majority_has_not_acknowledged_renews_nothing,
    }
    sessions {
        a_long_held_lock_keeps_no_session,
    }
    set {
        a_killed_primary_costs_no_exclusion,
        a_primary_that_steps_down_costs_no_lock,
    }
    takeovers {
        a_takeover_has_its_own_token_and_lease,
        a_predecessor_without_the_lock_has_no_successor,
        a_late_one_is_refused_by_its_deadline,
        a_late_one_is_refused_by_its_number,
        one_refused_for_an_old_estimate_is_sent_again,
        an_answer_that_the_server_kept_is_understood,
        what_a_majority_has_not_acknowledged_is_unknown,
        a_takeover_wakes_no_waiter_but_its_release_does,
    }
    tls {
        the_roots_and_the_clients_certificate_are_the_urls,
    }
    wakes {
        a_release_and_a_revoke_wake_listeners,
        a_stream_that_was_killed_is_opened_again,
        without_listeners_there_is_no_stream,
        a_standalone_server_is_looked_at,
        a_release_knows_whether_others_wait,
        a_mark_waits_for_no_transaction_beyond_its_call,
        waiters_count_releases_and_the_earliest_attempts_first,
    }
}

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // Each test has servers of its own, and some tests have three.
    arguments.test_threads.get_or_insert(3);
    libtest_mimic::run(&arguments, judged_on(&servers::MongoDb::Standalone, tests())).exit_code()
}
