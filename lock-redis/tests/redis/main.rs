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
        a_user_without_channels_releases_and_looks_instead_of_being_woken,
        one_forbidden_channel_does_not_deafen_the_others,
        a_missing_right_is_named,
        a_user_held_to_some_keys_has_the_side_keys_too,
        a_check_of_the_rights_leaves_nothing_behind,
    }
    acks {
        a_grant_is_on_as_many_replicas_as_asked_when_it_returns,
        a_grant_that_no_replica_acknowledges_is_taken_back,
        a_holder_whose_renewals_no_replica_acknowledges_is_told_in_time,
        every_request_of_a_holder_writes,
        opening_says_what_is_missing,
        an_attempt_that_is_given_up_leaves_nothing,
        calls_of_one_moment_share_their_wait_and_keep_their_patience,
        a_runtime_that_ends_leaves_no_queue_that_no_task_sends,
        a_members_replica_acknowledges_on_a_cluster,
        a_node_of_redlock_has_no_acknowledgements,
    }
    cluster {
        each_lock_is_at_the_member_that_has_its_slot,
        a_release_wakes_a_waiter_of_another_client,
        a_slot_moves_under_a_held_lock_and_its_waiter,
        a_replica_takes_a_killed_primarys_place,
        a_redirected_attempt_has_one_patience_for_all_members,
        a_member_that_is_named_and_dead_costs_a_part_of_the_patience,
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
        the_successor_of_a_killed_primary_is_met_and_its_waiters_are_woken,
        a_primary_that_was_demoted_is_left_and_wake_ups_with_it,
        a_client_that_only_listens_leaves_a_demoted_primary,
        a_primary_that_stands_still_is_left_for_a_replica_that_is_promoted,
        a_silent_host_costs_a_part_of_the_patience,
        what_all_hosts_refuse_is_rejected_without_a_password,
        a_user_without_info_is_told_the_role_all_the_same,
        a_list_is_no_node_of_redlock,
        hosts_that_are_two_primaries_are_found_by_check,
    }
    failovers {
        sentinels_replace_the_primary_again_and_again,
        a_clusters_primaries_are_replaced_again_and_again,
    }
    fair {
        processes_are_served_in_the_order_in_which_they_came,
        a_try_neither_queues_nor_passes_a_waiter,
        a_waiter_that_goes_leaves_no_trace_and_wakes_the_next,
        dead_waiters_cost_one_grace_once_however_many_there_are,
        a_waiter_that_asks_keeps_its_place,
        the_places_of_waiters_that_all_died_are_gone_after_the_grace,
        only_the_first_waiter_is_woken,
        a_client_of_the_own_layout_is_excluded_and_passes_the_waiters,
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
        a_key_that_is_no_lease_is_refused_and_left_alone,
        a_token_that_is_none_leaves_the_lock_free,
        another_librarys_lock_excludes_ours_and_the_other_way_round,
        what_looks_like_ours_is_shown_in_one_line,
        a_holder_that_tells_no_waiter_is_known_by_its_value,
        a_waiter_has_soon_what_another_library_released_in_silence,
    }
    grant {
        a_token_rises_whatever_is_lost,
        a_token_ahead_of_the_clock_is_followed_and_not_taken_for_the_time,
        a_lock_that_is_handed_over_has_a_whole_lease,
        the_script_refuses_an_attempt_after_its_deadline,
        an_attempt_that_the_server_reads_after_its_patience_takes_nothing,
        a_question_that_took_long_puts_no_deadline_beyond_the_patience,
        a_token_ahead_of_the_clock_puts_no_deadline_beyond_the_patience,
        an_attempt_refused_for_an_old_estimate_is_sent_again,
        renewals_never_shorten,
        a_renewal_takes_nothing_and_says_what_became_of_the_lock,
        an_attempt_again_has_the_same_token_and_never_less_time,
        a_look_that_finds_it_held_writes_nothing_and_costs_little,
        an_own_lock_is_not_mistaken_for_another_owners,
        every_call_survives_a_server_that_forgets_its_scripts,
    }
    harm {
        a_server_that_cannot_write_takes_no_locks_and_its_holders_know,
        a_server_without_memory_keeps_what_is_held_and_frees_it,
        a_full_server_refuses_new_clients_and_keeps_the_connected_ones,
        a_holder_that_loses_its_rights_knows_in_time,
        a_lock_whose_end_an_administrator_took_away_has_one_again,
        a_look_gives_back_a_whole_lease_whose_end_was_taken_away,
        a_replica_that_lagged_and_was_promoted_hands_out_a_higher_token,
    }
    layout {
        a_lock_is_its_name_and_a_token_beside_it,
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
        opening_waits_for_a_server_that_is_not_up_yet,
        a_peer_that_never_answers_costs_one_patience,
        the_patience_is_the_urls,
        a_connection_that_takes_longer_than_a_call_is_there_for_the_next,
    }
    redisson {
        a_lock_is_a_hash_as_redisson_writes_it_and_leaves_nothing_but_its_token,
        the_number_of_holds_is_written_by_the_next_renewal,
        without_memory_a_reentrant_holder_is_renewed,
        older_redissons_and_ours_exclude_and_wake_each_other,
        redissons_fair_lock_and_ours_exclude_each_other,
        a_release_that_is_sent_again_has_the_same_answer,
        tokens_of_the_fenced_form_are_in_one_order_with_redissons,
        a_string_where_a_hash_should_be_is_refused_and_left_alone,
    }
    refusals {
        a_missing_right_is_bad_and_named_alone,
        a_command_that_is_not_there_is_said_to_be_missing,
        a_server_that_takes_no_writes_is_bad,
        a_server_without_room_for_a_client_is_no_other_kind_of_server,
        a_list_beside_many_keys_has_a_patience_for_each_request,
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
        a_name_that_they_do_not_know_is_a_clear_error,
        both_sides_have_a_password_and_neither_is_shown,
        a_user_of_the_sentinels_needs_few_rights,
        without_sentinels_an_error_comes_in_time_and_an_open_client_goes_on,
        a_primary_that_is_killed_under_load_has_a_successor_that_all_meet,
        a_waiter_on_a_primary_that_stands_still_is_woken_through_its_successor,
        a_call_on_a_primary_that_stands_still_ends_with_the_failover,
        a_holder_that_is_cut_off_with_its_primary_is_refused_at_the_resource,
        a_failover_by_command_loses_nothing,
    }
    shards {
        releases_stay_at_the_members_that_have_the_slot,
        only_the_first_waiter_of_a_fair_lock_is_woken,
        a_slot_that_moves_wakes_its_waiters_and_leaves_the_others,
        a_release_of_a_lock_on_its_way_wakes_its_waiter,
        a_slot_that_has_come_back_is_listened_to_again,
        a_user_without_sharded_channels_releases_and_looks_instead_of_being_woken,
    }
    #[cfg(feature = "tls")]
    tls {
        the_roots_and_the_clients_certificate_are_the_urls,
        sentinels_and_servers_are_reached_with_the_same_certificates,
        files_that_are_none_are_named,
        a_ca_that_is_shown_as_a_servers_certificate_is_explained,
    }
    trouble {
        a_server_without_memory_is_unavailable_until_it_has_some,
        a_server_that_evicts_locks_says_so,
        a_demoted_primary_is_left_and_its_successor_met,
        a_replica_that_takes_writes_locks_nothing,
        a_script_that_blocks_the_server_costs_no_longer_lease,
        a_connection_that_was_cut_is_replaced,
        many_calls_open_one_connection,
        a_restarted_server_is_found_again_with_what_it_is_now,
    }
    wakes {
        a_release_and_a_revoke_wake_listeners,
        a_waiter_behind_others_looks_before_it_asks,
        a_release_knows_whether_others_wait,
        a_holder_takes_no_wake_ups_from_waiters,
        one_connection_listens_for_all_claims_and_unsubscribes_unused_channels,
        a_name_that_is_handed_over_often_is_not_subscribed_anew,
        a_broken_subscription_is_restored_and_all_listeners_look,
        an_order_in_a_gap_does_not_hide_the_gap,
        listening_fails_in_time_without_a_server,
    }
    together {
        calls_of_one_moment_share_a_write,
        a_runtime_that_ends_leaves_no_queue_that_no_task_sends,
        an_answer_that_is_an_error_is_only_its_own,
        a_cut_connection_fails_all_that_is_under_way_and_none_after,
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
