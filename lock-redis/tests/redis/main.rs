//! The rules that are particular to Redis, on a real server. The conformance suite tests what every backend promises.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod access;
mod acks;
mod cluster;
mod cluster_members;
mod cluster_moves;
mod copies;
mod failovers;
mod fair;
mod fair_clock;
mod fair_keys;
mod fair_model;
mod fence;
mod foreign;
mod grant;
mod harm;
mod layout;
mod reaching;
mod redisson;
mod redisson_read_write;
mod refusals;
mod rights;
mod sentinels;
mod server;
mod shards;
#[cfg(feature = "tls")]
mod tls;
mod together;
mod trouble;
mod wakes;

use std::process::ExitCode;

use libtest_mimic::Arguments;
use lock_conformance::rules;
use lock_test_servers::{self as servers, judged_on};

rules! {
    fn();
    access {
        a_user_without_channels_releases_and_polls,
        one_forbidden_channel_does_not_deafen_the_others,
        a_missing_right_is_named,
        a_user_limited_to_keys_has_side_keys,
        a_check_of_the_rights_leaves_nothing_behind,
    }
    acks {
        a_returned_grant_is_on_the_requested_replicas,
        a_grant_that_no_replica_acknowledges_is_taken_back,
        a_holder_without_acknowledged_renewals_learns_in_time,
        every_request_of_a_holder_writes,
        opening_says_what_is_missing,
        an_attempt_that_is_given_up_leaves_nothing,
        batched_calls_share_one_wait_within_their_patience,
        an_ended_runtime_leaves_no_unsent_queue,
        a_members_replica_acknowledges_on_a_cluster,
        a_node_of_redlock_has_no_acknowledgements,
    }
    cluster {
        each_lock_is_at_its_slots_member,
        a_release_wakes_a_waiter_of_another_client,
        a_moving_slot_keeps_the_lock_and_waiter,
        a_replica_takes_a_killed_primarys_place,
        a_redirected_attempt_has_one_patience_for_all_members,
        a_dead_named_member_costs_part_of_the_patience,
    }
    cluster_members {
        redirections_without_a_host_are_followed,
        acknowledgements_need_no_member_that_is_down,
        names_that_redisson_keeps_in_two_slots_are_refused,
    }
    cluster_moves {
        a_lock_whose_slot_moves_is_renewed_and_released,
    }
    copies {
        the_primary_is_found_wherever_it_stands,
        no_replica_is_written_to,
        clients_meet_a_killed_primarys_successor_and_waiters_wake,
        clients_and_wake_ups_leave_a_demoted_primary,
        a_client_that_only_listens_leaves_a_demoted_primary,
        clients_leave_a_stalled_primary_for_its_replica,
        a_silent_host_costs_a_part_of_the_patience,
        what_all_hosts_refuse_is_rejected_without_a_password,
        a_user_without_info_still_learns_the_role,
        a_list_is_no_node_of_redlock,
        hosts_that_are_two_primaries_are_found_by_check,
    }
    failovers {
        sentinels_replace_the_primary_again_and_again,
        a_clusters_primaries_are_replaced_again_and_again,
    }
    fair {
        processes_are_served_in_order_of_arrival,
        a_try_neither_queues_nor_passes_a_waiter,
        a_leaving_waiter_leaves_nothing_and_wakes_the_next,
        any_number_of_dead_waiters_costs_one_grace,
        a_waiter_that_asks_keeps_its_place,
        dead_waiters_queue_positions_end_after_the_grace,
        only_the_first_waiter_is_woken,
        an_own_layout_client_is_excluded_but_overtakes_waiters,
    }
    fair_keys {
        a_lost_or_changed_key_stops_no_waiter,
        a_changed_queue_stops_no_try,
        a_changed_lock_is_left_alone_and_named,
        waiters_keep_their_order_when_their_times_are_lost,
    }
    fair_model {
        random_steps_have_the_models_answers,
    }
    fence {
        a_stale_token_writes_nothing,
        tokens_are_compared_to_their_last_bit,
        a_value_that_is_refused_leaves_its_token,
    }
    foreign {
        a_key_without_lease_is_refused_and_kept,
        a_token_that_is_none_leaves_the_lock_free,
        another_librarys_locks_and_ours_exclude_each_other,
        what_looks_like_ours_is_shown_in_one_line,
        a_silent_holder_is_known_by_its_value,
        a_waiter_soon_gets_a_silently_released_lock,
    }
    grant {
        a_token_rises_whatever_is_lost,
        a_token_ahead_of_the_clock_sets_no_time,
        a_handed_over_lock_has_a_whole_lease,
        the_script_refuses_an_attempt_after_its_deadline,
        an_attempt_read_after_its_patience_takes_nothing,
        a_slow_question_puts_no_deadline_beyond_patience,
        a_token_ahead_puts_no_deadline_beyond_patience,
        an_attempt_with_a_stale_estimate_is_resent,
        renewals_never_shorten,
        a_renewal_takes_nothing_and_reports_the_locks_fate,
        a_repeated_attempt_keeps_token_and_time,
        a_look_at_a_held_lock_writes_nothing,
        an_own_lock_is_not_mistaken_for_another_owners,
        every_call_survives_a_server_that_forgets_its_scripts,
    }
    harm {
        an_unwritable_server_grants_nothing_and_its_holders_learn,
        a_server_without_memory_keeps_and_frees_locks,
        a_full_server_refuses_only_new_clients,
        a_holder_that_loses_its_rights_knows_in_time,
        a_lock_stripped_of_its_expiry_regains_one,
        a_look_restores_an_expiry_that_was_removed,
        a_promoted_lagging_replica_grants_a_higher_token,
    }
    layout {
        a_lock_is_its_key_and_its_token,
        an_empty_label_leaves_the_owner_alone,
        a_revoked_lock_says_so_until_its_deadline,
        the_keys_of_a_lock_share_a_slot,
    }
    reaching {
        a_unix_socket_a_database_and_a_prefix,
        a_sockets_user_and_password_are_the_urls,
        a_user_and_a_password_that_are_never_shown,
        redis_own_options,
        opening_waits_for_the_server_unless_it_is_lazy,
        opening_waits_for_a_server_not_yet_up,
        a_peer_that_never_answers_costs_one_patience,
        the_patience_is_the_urls,
        a_slow_connection_serves_the_next_call,
    }
    redisson {
        a_lock_is_redissons_hash_and_leaves_its_token,
        the_next_renewal_writes_the_hold_count,
        without_memory_a_reentrant_holder_is_renewed,
        older_redissons_and_ours_exclude_and_wake_each_other,
        redissons_fair_lock_and_ours_exclude_each_other,
        a_resent_release_has_the_same_answer,
        fenced_tokens_share_one_order_with_redissons,
        a_string_for_a_hash_is_refused_and_kept,
    }
    refusals {
        a_missing_right_is_bad_and_named_alone,
        an_error_names_a_missing_command,
        a_server_that_takes_no_writes_is_bad,
        a_full_server_is_not_taken_for_another_kind,
        a_list_among_many_keys_has_patience_per_request,
    }
    redisson_read_write {
        a_read_write_lock_is_named_and_left_alone,
        a_read_write_lock_over_ours_ends_ours,
        a_release_takes_its_own_field_alone,
    }
    rights {
        an_attempt_that_fails_leaves_nothing,
        a_refused_waiter_leaves_no_place_for_ever,
        a_holder_without_a_right_keeps_what_it_can,
        a_revoke_that_fails_changes_nothing,
        without_memory_holders_of_every_layout_renew_and_release,
    }
    sentinels {
        a_sentinel_is_not_believed_before_the_server,
        a_name_unknown_to_sentinels_is_a_clear_error,
        both_sides_have_a_password_and_neither_is_shown,
        a_user_of_the_sentinels_needs_few_rights,
        without_sentinels_errors_are_prompt_and_open_clients_continue,
        all_clients_meet_a_killed_primarys_successor,
        a_stalled_primarys_successor_wakes_its_waiter,
        a_failover_ends_calls_on_a_stalled_primary,
        the_resource_refuses_a_cut_off_primarys_holder,
        a_failover_by_command_loses_nothing,
    }
    shards {
        releases_stay_at_the_members_that_have_the_slot,
        a_fair_lock_wakes_only_its_first_waiter,
        a_moving_slot_wakes_only_its_waiters,
        releasing_a_moving_lock_wakes_its_waiter,
        a_returned_slot_is_listened_to_again,
        a_user_without_sharded_channels_releases_and_polls,
    }
    #[cfg(feature = "tls")]
    tls {
        the_roots_and_the_clients_certificate_are_the_urls,
        sentinels_and_servers_are_reached_with_the_same_certificates,
        files_that_are_none_are_named,
        a_ca_used_as_server_certificate_is_explained,
    }
    trouble {
        a_server_is_unavailable_while_without_memory,
        a_server_that_evicts_locks_says_so,
        a_demoted_primary_is_left_and_its_successor_met,
        a_replica_that_takes_writes_locks_nothing,
        a_blocking_script_grants_no_longer_lease,
        a_connection_that_was_cut_is_replaced,
        many_calls_open_one_connection,
        a_restarted_server_is_described_anew,
    }
    wakes {
        a_release_and_a_revoke_wake_listeners,
        a_waiter_behind_others_looks_before_it_asks,
        a_release_knows_whether_others_wait,
        a_holder_takes_no_wake_ups_from_waiters,
        one_connection_serves_all_claims_and_unsubscribes_unused_channels,
        frequent_hand_overs_cause_no_new_subscription,
        a_broken_subscription_is_restored_and_all_listeners_look,
        a_command_does_not_hide_its_gap,
        listening_fails_in_time_without_a_server,
    }
    together {
        calls_of_one_moment_share_a_write,
        an_ended_runtime_leaves_no_unsent_queue,
        an_error_answer_fails_only_its_own_call,
        a_cut_connection_fails_only_calls_in_flight,
    }
}

/// A test that returns `Err` with the reason if it can't be run.
type OptionalTest = (&'static str, fn() -> Result<(), String>);

/// The tests that are not run where no server's clock can be set.
const OF_CLOCKS: [OptionalTest; 3] = [
    (
        "fair_clock::set_back_a_dead_waiter_costs_one_grace",
        fair_clock::set_back_a_dead_waiter_costs_one_grace,
    ),
    ("fair_clock::set_back_it_costs_no_waiter_its_place", fair_clock::set_back_it_costs_no_waiter_its_place),
    ("fair_clock::set_forward_it_lets_a_dead_waiter_go", fair_clock::set_forward_it_lets_a_dead_waiter_go),
];

fn main() -> ExitCode {
    let mut tests = judged_on(&servers::Redis, tests());
    tests.extend(judged_on(&servers::Redis, OF_CLOCKS));
    libtest_mimic::run(&Arguments::from_args(), tests).exit_code()
}
