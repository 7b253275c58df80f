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
        a_ttl_outside_the_servers_bounds_is_invalid,
        a_permanently_refused_release_ends_its_session,
    }
    cluster {
        a_follower_without_leader_costs_no_exclusion,
        a_leader_that_stands_still_costs_no_exclusion,
        a_lost_leader_costs_no_lock,
        no_other_server_accepts_a_late_attempt,
    }
    foreign {
        curators_nodes_are_respected_and_shown,
        kazoos_nodes_are_respected_and_shown,
        an_unreadable_node_is_waited_for,
        a_foreign_holder_is_only_broken_now,
        a_holder_asked_to_release_is_notified,
        a_revoked_node_goes_at_its_holders_deadline,
    }
    layout {
        a_lock_is_curators_directory,
        locks_without_a_folder_are_in_locks,
        names_are_escaped_into_one_component,
        nodes_beyond_the_counter_are_ordered_by_creation,
        an_overflown_counter_costs_no_exclusion,
        what_no_session_keeps_is_no_ticket,
        what_looks_like_a_ticket_and_stays_is_rejected,
        the_folder_stays_and_the_directory_goes,
    }
    place {
        an_owner_finds_its_unanswered_node,
        a_late_attempt_makes_no_node,
        a_release_is_sent_on_the_resumed_session,
        a_claim_that_does_not_wait_leaves_nothing,
        a_waiter_whose_node_was_removed_queues_again,
        a_cut_short_claim_leaves_its_node_to_sessions,
        a_cut_short_attempt_leaves_its_node_to_sessions,
        a_release_undoes_an_attempt_dropped_in_flight,
    }
    reaching {
        a_server_without_room_for_a_client_says_so,
        opening_waits_for_a_server_unless_it_is_lazy,
        the_patience_is_the_urls,
        a_prefix_stands_before_every_name,
    }
    session {
        one_heartbeat_serves_all_locks_of_a_session,
        each_ttls_session_is_closed_when_idle,
        a_holder_whose_session_is_ended_is_told,
        a_waiter_survives_its_sessions_end_in_another,
        an_uncertain_session_takes_no_claims,
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
