//! The checker's own tests: it reports each broken promise and nothing else.

use std::time::Duration;

use lock_core::{Ending, LossReason};
use lock_simulation::{Claim, Invariant, Kind, Terms, Verdict, Wait, What, Why, check};

use crate::logs::*;

#[test]
fn a_history_without_fault_is_left_alone() {
    let writes = vec![wrote(0, 7, true), wrote(1, 8, true), wrote(0, 7, false)];
    let end = vec![
        told_late(0),
        What::ReleaseArrived { of: Some(0), before: Some(1), after: Some(1) },
        What::ShutDown { client: 0, left: 0 },
    ];
    let parts = [asked_and_granted(), succeeded(8), writes, end];
    let Verdict { violations, opportunities, .. } = verdict(parts);
    assert_eq!(violations, []);
    for (invariant, expected) in Invariant::ALL.into_iter().zip([5, 1, 1, 2, 1, 3, 0, 0, 0, 2, 0, 0, 1]) {
        assert_eq!(opportunities[invariant as usize], expected, "{invariant}");
    }
}

#[test]
fn writes_out_of_order_are_caught() {
    let stale_accepted = vec![wrote(1, 8, true), wrote(0, 7, true)];
    catches(Invariant::FencedExclusion, [asked_and_granted(), succeeded(8), stale_accepted]);
    let refused_for_nothing = vec![wrote(0, 7, true), wrote(1, 8, false)];
    catches(Invariant::FencedExclusion, [asked_and_granted(), succeeded(8), refused_for_nothing]);
    catches(Invariant::FencedExclusion, [asked_and_granted(), vec![wrote(0, 6, true)]]);
}

#[test]
fn a_token_of_two_acquisitions_is_caught() {
    let ask_before = vec![asked(1, 1), asked(0, 0)];
    catches(Invariant::FencedExclusion, [ask_before, vec![granted(0, 7)], succeeded(7)]);
}

#[test]
fn a_token_that_falls_is_caught() {
    catches(
        Invariant::TokenOrder,
        [vec![asked(0, 0), granted(0, 7), let_go(0)], vec![asked(1, 1), granted(1, 6)]],
    );
}

#[test]
fn two_that_hold_at_once_are_caught() {
    // Its machine stands still when the other call is granted the lock. It can't be told, and its guard must not say
    // that it is held.
    let stale = vec![begins(Kind::Pause(0), 4, 100), granted(1, 8), held(0)];
    catches(Invariant::Exclusion, [asked_and_granted(), stale]);
}

#[test]
fn a_loss_told_late_is_caught() {
    catches(Invariant::LossInTime, [asked_and_granted(), vec![told_late(50)]]);
    catches(Invariant::LossInTime, [asked_and_granted(), vec![granted(1, 8), told_late(0)]]);
    catches(Invariant::LossInTime, [vec![asked(0, 0), What::Granted { call: 0, token: 7, late: true }]]);
}

#[test]
fn locks_are_apart() {
    let other =
        vec![What::Asked { call: 2, client: 2, lock: 1, terms: TERMS, waits: Wait::Ever }, granted(2, 3)];
    let busy = vec![What::Asked { call: 3, client: 3, lock: 1, terms: TERMS, waits: Wait::Ever }];
    let refused = vec![not_granted(3, Why::Busy)];
    leaves_alone([asked_and_granted(), other, vec![wrote(0, 7, true), wrote(2, 3, true)]]);
    catches(Invariant::TruthfulRefusal, [asked_and_granted(), busy, vec![holder(Some(1))], refused]);
}

#[test]
fn a_process_that_was_killed_says_nothing() {
    let killed = || begins(Kind::Death(0), 4, 4);
    let ghost = vec![killed(), granted(1, 8), held(0), told_late(50)];
    leaves_alone([asked_and_granted(), ghost]);
    // A write that it had sent before arrives.
    let stale = vec![killed(), granted(1, 8), wrote(1, 8, true), wrote(0, 7, true)];
    catches(Invariant::FencedExclusion, [asked_and_granted(), stale]);
}

#[test]
fn a_hold_beyond_its_terms_is_caught() {
    let (ttl, most) = (Duration::from_micros(2_000), Some(Duration::from_micros(2_000)));
    let holds = || vec![granted(0, 7), held(0), held(0)];
    let by_hand = vec![granted(0, 7), What::Renews(0), held(0), held(0)];
    let late = || vec![held(0)];
    let fixed = vec![asked_on(0, 0, Terms { ttl, fixed: true, ..TERMS })];
    let capped = vec![asked_on(0, 0, Terms { max_hold: most, ..TERMS })];
    for terms in [&fixed, &capped] {
        leaves_alone([terms.clone(), holds()]);
        catches(Invariant::Terms, [terms.clone(), holds(), late()]);
    }
    leaves_alone([fixed, by_hand]);
}

#[test]
fn a_release_before_its_time_is_caught() {
    let terms = Terms { min_hold: Some(Duration::from_millis(4)), ..TERMS };
    let holds = || vec![asked_on(0, 0, terms), granted(0, 7)];
    catches(Invariant::Terms, [holds(), vec![released(0)]]);
    leaves_alone([holds(), vec![let_go(0), wrote(0, 7, true), released(0)]]);
    let lost = What::ClaimLost(Claim { client: 0, lock: 0 });
    leaves_alone([holds(), vec![lost, released(0)]]);
}

#[test]
fn a_refusal_without_a_holder_is_caught() {
    let claims = |client| What::ClaimBegins(Claim { client, lock: 0 });
    for why in [Why::Busy, Why::Timeout] {
        let refused = || vec![not_granted(0, why)];
        let alone = vec![asked(0, 0), holder(Some(0))];
        catches(Invariant::TruthfulRefusal, [alone, refused()]);
        let another = vec![asked(0, 0), holder(Some(1))];
        leaves_alone([another, vec![holder(None)], refused()]);
        // A release that was not answered may not have ended the hold.
        let unanswered = vec![claims(0), asked(0, 0)];
        leaves_alone([unanswered.clone(), refused()]);
        let elsewhere = vec![claims(1), asked(0, 0)];
        catches(Invariant::TruthfulRefusal, [elsewhere, refused()]);
        let ended = vec![claims(0), What::ClaimEnds(Claim { client: 0, lock: 0 })];
        catches(Invariant::TruthfulRefusal, [ended, vec![asked(0, 0)], refused()]);
    }
    let unexpected = vec![asked(0, 0)];
    let refused = vec![not_granted(0, Why::Unexpected)];
    catches(Invariant::TruthfulRefusal, [unexpected, refused]);
}

#[test]
fn a_claim_that_ends_now_still_refuses() {
    let claim = Claim { client: 0, lock: 0 };
    let ended = |ends| {
        let claimed = vec![(1, What::ClaimBegins(claim)), (ends, What::ClaimEnds(claim))];
        [claimed, vec![(5, asked(0, 0)), (9, not_granted(0, Why::Timeout))]]
    };
    leaves_alone(ended(5));
    catches(Invariant::TruthfulRefusal, ended(4));
}

#[test]
fn a_release_that_ends_anothers_hold_is_caught() {
    let late = vec![What::ReleaseArrived { of: Some(0), before: Some(1), after: None }];
    catches(Invariant::HonestRelease, [asked_and_granted(), succeeded(8), late]);
    let unheard = vec![let_go(0), What::Ended { call: 0, ending: Ending::Released }];
    catches(Invariant::HonestRelease, [asked_and_granted(), unheard]);
}

#[test]
fn a_release_while_the_work_goes_on_is_caught() {
    let revoked = |left| {
        let told = What::Told { call: 0, cause: Some(LossReason::Revoked), late: 0, left };
        vec![held(0), revokes(0), told]
    };
    let given_back = || vec![What::GivenBack(0)];
    catches(Invariant::LossInTime, [asked_and_granted(), revoked(9_000), given_back()]);
    leaves_alone([asked_and_granted(), revoked(9_000), vec![let_go(0)], given_back()]);
    // Its lease is over, or it was not told.
    leaves_alone([asked_and_granted(), revoked(500), given_back()]);
    leaves_alone([asked_and_granted(), vec![let_go(0)], given_back()]);
    let wiped = What::Shortened { call: 0, token: 7, until: 600_000 };
    // The server no longer had it.
    leaves_alone([asked_and_granted(), vec![held(0), wiped, told(LossReason::Gone, 9)], given_back()]);
}

#[test]
fn a_claim_that_stays_is_caught() {
    catches(Invariant::Ends, [vec![What::ShutDown { client: 2, left: 1 }]]);
}

#[test]
fn the_log_around_a_violation_is_about_it() {
    let stranger = vec![asked(5, 3), not_granted(5, Why::Cancelled)];
    let log = log([stranger, asked_and_granted(), vec![told_late(50)], succeeded(8)]);
    let violation = check(&log).violations.remove(0);
    let slice = violation.slice(&log);
    assert!(slice.iter().all(|entry| !matches!(entry.what, What::Asked { call: 1 | 5, .. })), "{slice:?}");
    assert_eq!(slice.last().unwrap().what, told_late(50));
    assert_eq!(slice.first().unwrap().what, asked(0, 0));
}
