//! Tests of the rules that are particular to ZooKeeper, on real servers. The conformance suite tests what every backend
//! promises.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod access;
mod cluster;
mod common;
mod foreign;
mod layout;
mod place;
mod reaching;
mod server;
mod session;
#[cfg(feature = "tls")]
mod tls;

use std::process::ExitCode;

use libtest_mimic::Arguments;
use lock_conformance::rules;
use lock_test_servers::{self as servers, judged_on};

rules! {
    fn() -> Result<(), String>;
    access {
        what_we_make_is_ours_alone,
        a_password_is_never_shown,
        check_says_what_the_server_is,
        a_ttl_outside_of_what_the_server_grants_is_invalid,
        a_release_that_is_refused_for_good_ends_its_session,
    }
    cluster {
        a_follower_cut_off_from_its_leader_costs_no_exclusion,
        a_leader_that_stands_still_costs_no_exclusion,
        a_lost_leader_costs_no_lock,
        a_late_attempt_is_not_heard_by_another_server_either,
    }
    foreign {
        curators_nodes_are_respected_and_shown,
        kazoos_nodes_are_respected_and_shown,
        a_node_that_is_not_ours_to_read_is_waited_for,
        a_foreign_holder_is_only_broken_now,
        a_holder_that_is_asked_to_give_up_is_told,
        a_revoked_node_goes_at_its_holders_deadline,
    }
    layout {
        a_lock_is_curators_directory,
        locks_without_a_folder_are_in_locks,
        names_are_escaped_into_one_component,
        what_the_counter_numbers_no_more_is_ordered_by_its_making,
        an_overflown_counter_costs_no_exclusion,
        what_no_session_keeps_is_no_ticket,
        what_looks_like_a_ticket_and_stays_is_rejected,
        the_folder_stays_and_the_directory_goes,
    }
    place {
        a_node_whose_making_was_not_answered_is_found_by_its_owner,
        a_late_attempt_makes_no_node,
        a_release_is_sent_on_the_resumed_session,
        a_claim_that_does_not_wait_leaves_nothing,
        a_waiter_whose_node_was_removed_queues_again,
        a_claim_that_was_cut_short_leaves_its_node_to_the_session,
        an_attempt_that_was_cut_short_leaves_its_node_to_the_session,
        an_attempt_that_was_dropped_on_its_way_is_undone_by_its_release,
    }
    reaching {
        a_server_without_room_for_a_client_says_so,
        opening_waits_for_a_server_unless_it_is_lazy,
        the_patience_is_the_urls,
        a_prefix_stands_before_every_name,
    }
    session {
        a_heartbeat_is_one_write_for_all_locks_of_a_session,
        each_ttl_has_a_session_that_is_closed_when_idle,
        a_holder_whose_session_is_ended_is_told,
        a_waiter_whose_session_is_ended_waits_on_in_another,
        a_session_that_is_not_certain_any_more_takes_no_claims,
        a_renewal_asks_for_the_node,
        an_outage_is_not_the_servers_word,
        a_waiter_looks_again_on_the_next_connection,
        what_keeps_a_session_may_be_gone,
        a_connection_that_is_slow_costs_no_lock,
    }
    #[cfg(feature = "tls")]
    tls {
        the_roots_and_the_clients_certificate_are_the_urls,
    }
}

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // Each test has servers of its own, and some tests have three.
    arguments.test_threads.get_or_insert(3);
    libtest_mimic::run(&arguments, judged_on(&servers::ZooKeeper, tests())).exit_code()
}
