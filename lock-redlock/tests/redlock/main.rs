//! The rules that are particular to a majority of nodes, on real servers. The conformance suite tests what every
//! backend promises.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod guard;
mod minority;
mod model;
#[path = "../nodes/mod.rs"]
mod nodes;
mod older_state;
mod reaching;
mod tls;
mod token;
mod tries;

use std::process::ExitCode;
use std::time::Duration;

use libtest_mimic::Arguments;
use lock_conformance::rules;
use lock_core::Options;
use lock_test_servers::{Redis, Settings, judged_on};

use lock_conformance::timing::released;
use nodes::{FIVE, Nodes};

rules! {
    fn();
    guard {
        a_new_node_votes_only_after_its_operators_approval,
        a_node_that_was_flushed_has_no_vote,
        a_restarted_node_grants_nothing_that_it_has_forgotten,
        clients_agree_on_the_longest_ttl,
        a_node_that_evicts_has_no_vote,
        a_node_with_replicas_has_no_vote,
        a_node_with_unreadable_history_has_no_vote,
        one_server_under_two_names_is_refused,
        what_a_majority_has_forgotten_is_lost,
        a_rolling_restart_costs_no_holder_its_lock,
    }
    minority {
        two_of_five_may_be_dead_or_silent,
        two_of_five_nodes_may_be_slow_or_silent,
        a_lacking_majority_is_an_error_without_grant,
        a_node_that_comes_back_is_refilled,
        a_slow_node_without_the_lock_is_refilled,
        a_try_that_came_to_nothing_leaves_nothing,
        nodes_returning_meanwhile_are_not_released,
        a_revoke_now_is_not_undone_by_renewals,
        a_revoked_lock_is_free_when_a_majority_is,
    }
    model {
        the_simulations_node_answers_as_the_scripts_do,
    }
    older_state {
        a_node_that_followed_another_server_has_no_vote,
        a_database_swapped_and_restored_has_no_vote,
        databases_that_were_swapped_have_no_vote,
        a_writable_replica_has_no_vote,
    }
    reaching {
        opening_waits_for_a_majority_unless_it_is_lazy,
        a_database_a_prefix_and_the_longest_ttl,
        the_patience_is_the_urls,
        a_silent_node_costs_a_nodes_patience,
    }
    tls {
        the_roots_and_the_clients_certificate_are_every_nodes,
    }
    token {
        a_majority_shows_the_token_that_was_granted,
        it_rises_over_every_change_of_the_majority,
        an_attempt_that_arrives_twice_is_one_grant,
        a_raise_is_for_one_grant_alone,
        a_token_that_is_none_leaves_the_lock_free,
        what_an_earlier_try_left_is_taken_over,
        a_late_copy_of_an_attempt_is_another_grant,
        a_try_needs_one_round,
        a_proposal_raises_the_token_of_lower_nodes,
        a_proposal_counts_up_to_a_second_ahead,
    }
    tries {
        a_try_released_on_all_nodes_is_not_rereleased,
        a_possible_late_vote_is_released_in_background,
        a_node_beyond_the_majority_is_released_too,
        a_vote_after_the_release_is_taken_back,
        what_can_not_be_given_up_keeps_no_lock,
        a_try_not_released_anywhere_is_not_forgotten,
        a_node_asked_ahead_is_not_forgotten,
        a_deferring_candidate_sees_the_majority_try,
        a_deferring_candidate_awaits_only_deciding_nodes,
        a_candidate_deferring_twice_asks_all_nodes,
        waiters_are_notified_of_a_withdrawn_majority,
        a_minority_is_taken_back_in_silence,
    }
}

/// The one test that is not run where no server's clock can be set.
const OF_CLOCKS: (&str, fn() -> Result<(), String>) =
    ("token::it_rises_with_clocks_an_hour_apart", token::it_rises_with_clocks_an_hour_apart);

fn main() -> ExitCode {
    let mut tests = judged_on(&Redis, tests());
    tests.extend(judged_on(&Redis, [OF_CLOCKS]));
    libtest_mimic::run(&Arguments::from_args(), tests).exit_code()
}

fn run<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(test)
}

/// The clients' patience.
const PATIENCE: Duration = Duration::from_millis(600);

const TTL: Duration = Duration::from_secs(2);

/// Starts five nodes that have their votes.
fn five(max_ttl: Duration) -> Nodes {
    Nodes::start(FIVE, max_ttl, &Settings::default()).unwrap()
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn options() -> Options {
    Options::default().patience(PATIENCE)
}
