//! Rules that are specific to etcd, tested on real servers. The promises that all backends make are in the conformance
//! suite.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod access;
mod cluster;
mod foreign;
mod grant;
mod late;
mod loss;
mod reaching;
mod refusals;
mod revoke;
mod server;
mod tls;
mod watch;

use std::process::ExitCode;

use libtest_mimic::Arguments;
use lock_conformance::rules;
use lock_test_servers::{self as servers, judged_on};

rules! {
    fn() -> Result<(), String>;
    access {
        a_missing_write_right_is_named,
        a_right_to_the_prefix_is_enough,
        a_right_to_one_name_is_enough_for_it,
        a_wrong_password_is_told_and_not_shown,
        user_and_password_may_be_parameters,
        rights_that_change_cost_no_lock,
        check_says_what_the_server_is,
        a_proxy_answering_keep_alives_is_unsupported,
        a_permanently_refused_release_ends_its_session,
    }
    cluster {
        a_keep_alive_without_a_majority_does_not_count,
        a_new_term_moves_everything_to_a_fresh_lease,
        one_lost_key_stops_no_batched_move,
        leaders_that_change_under_load_cost_no_exclusion,
        a_killed_member_costs_no_lock,
        a_member_that_is_cut_off_is_left,
    }
    foreign {
        etcds_own_lock_and_ours_exclude_each_other,
        a_foreign_holder_can_be_revoked,
        a_foreign_lookalike_value_is_shown_in_one_line,
        deeper_names_are_other_names,
        many_deeper_names_delay_no_client,
        a_search_that_was_cut_short_goes_on,
        a_foreign_place_is_found_among_many_deeper_names,
        what_others_keys_hold_is_not_asked_for,
        a_key_without_a_lease_is_rejected,
    }
    grant {
        acquire_and_release_take_one_transaction_each,
        a_locks_token_is_its_keys_create_revision,
        keys_are_used_again,
        taken_keys_are_passed_over_one_by_one,
        a_claim_costs_the_same_however_many_there_are,
        two_claims_of_one_client_have_two_keys,
        a_lease_for_each_ttl_and_no_more,
        an_unanswered_lease_grant_is_settled,
        an_idle_session_is_closed,
        a_client_that_goes_takes_its_leases_with_it,
        ttls_have_their_bounds,
    }
    late {
        an_attempt_whose_answer_is_lost_is_undone,
        an_attempt_whose_answer_cannot_be_read_is_undone,
        a_late_attempt_finds_its_tombstone,
        a_tombstone_lies_under_the_attempts_own_lease,
        a_key_with_attempts_in_flight_is_not_reused,
        a_cut_short_claim_leaves_its_key_to_sessions,
        a_release_undoes_an_attempt_dropped_in_flight,
    }
    loss {
        a_deleted_key_is_told_at_once,
        a_revoked_lease_is_told_at_once,
        a_waiter_whose_key_is_gone_queues_again,
        a_proof_covers_the_lock_not_the_session,
    }
    reaching {
        opening_waits_for_a_server_unless_it_is_lazy,
        the_patience_is_the_urls,
        a_port_that_closes_every_connection_is_told_soon,
    }
    refusals {
        a_server_whose_quota_is_used_up_is_bad,
        a_user_without_rights_is_told_at_once,
        a_list_among_many_keys_has_patience_per_request,
    }
    revoke {
        a_revoked_key_is_on_a_lease_without_heartbeats,
        a_release_removes_only_its_revoked_key,
        a_holder_is_told_that_it_was_revoked,
        what_was_revoked_is_not_moved_back,
    }
    tls {
        the_roots_and_the_clients_certificate_are_the_urls,
    }
    watch {
        a_hand_over_is_quick_while_others_write,
        each_waiter_has_two_watches_and_leaves_none,
        only_the_next_in_the_queue_is_woken,
        a_move_wakes_no_waiter,
        a_compaction_costs_no_wake_up,
        a_connection_that_breaks_costs_no_wake_up,
    }
}

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // Each test has servers of its own, and some tests have three.
    arguments.test_threads.get_or_insert(3);
    libtest_mimic::run(&arguments, judged_on(&servers::Etcd, tests())).exit_code()
}
