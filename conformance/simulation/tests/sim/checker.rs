//! The checker's own tests: it reports each broken promise and nothing else.

use std::time::Duration;

use lock_core::driver::When;
use lock_core::{Ending, LossReason};
use lock_simulation::{Entry, Fault, Invariant, Kind, Terms, Wait, What, Why, check};

use crate::logs::*;

#[test]
fn a_history_without_fault_is_left_alone() {
    let writes = vec![wrote(0, 7, true), wrote(1, 8, true), wrote(0, 7, false)];
    let end = vec![
        told(0),
        What::ReleaseArrived { of: Some(0), before: Some(1), after: Some(1) },
        What::ShutDown { client: 0, left: 0 },
    ];
    let parts = [asked_and_granted(), succeeded(8), writes, end];
    assert_eq!(violations(parts.clone()), []);
    let opportunities = check(&log(parts)).opportunities;
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
    let pause = Fault { kind: Kind::Pause(0), begins: 4_000, ends: 100_000 };
    let stale = vec![What::Begins(pause), granted(1, 8), held(0)];
    catches(Invariant::Exclusion, [asked_and_granted(), stale]);
}

#[test]
fn a_loss_told_late_is_caught() {
    catches(Invariant::LossInTime, [asked_and_granted(), vec![told(50)]]);
    catches(Invariant::LossInTime, [asked_and_granted(), vec![granted(1, 8), told(0)]]);
    catches(Invariant::LossInTime, [vec![asked(0, 0), What::Granted { call: 0, token: 7, late: true }]]);
}

#[test]
fn locks_are_apart() {
    let other =
        vec![What::Asked { call: 2, client: 2, lock: 1, terms: TERMS, waits: Wait::Ever }, granted(2, 3)];
    let busy = vec![What::Asked { call: 3, client: 3, lock: 1, terms: TERMS, waits: Wait::Ever }];
    let refused = vec![What::NotGranted { call: 3, why: Why::Busy }];
    assert_eq!(
        violations([asked_and_granted(), other.clone(), vec![wrote(0, 7, true), wrote(2, 3, true)]]),
        []
    );
    catches(Invariant::TruthfulRefusal, [asked_and_granted(), busy, vec![holder(Some(1))], refused]);
}

#[test]
fn a_process_that_was_killed_says_nothing() {
    let killed = Fault { kind: Kind::Death(0), begins: 4_000, ends: 4_000 };
    let ghost = vec![What::Begins(killed), granted(1, 8), held(0), told(50)];
    assert_eq!(violations([asked_and_granted(), ghost]), []);
    // A write that it had sent before arrives.
    let stale = vec![What::Begins(killed), granted(1, 8), wrote(1, 8, true), wrote(0, 7, true)];
    catches(Invariant::FencedExclusion, [asked_and_granted(), stale]);
}

#[test]
fn a_hold_beyond_its_terms_is_caught() {
    let (ttl, most) = (Duration::from_micros(2_000), Some(Duration::from_micros(2_000)));
    let holds = || vec![granted(0, 7), held(0), held(0)];
    let by_hand = vec![granted(0, 7), What::Renews { call: 0 }, held(0), held(0)];
    let late = || vec![held(0)];
    let fixed = vec![asked_on(0, 0, Terms { ttl, fixed: true, ..TERMS })];
    let capped = vec![asked_on(0, 0, Terms { max_hold: most, ..TERMS })];
    for terms in [&fixed, &capped] {
        assert_eq!(violations([terms.clone(), holds()]), []);
        catches(Invariant::Terms, [terms.clone(), holds(), late()]);
    }
    assert_eq!(violations([fixed, by_hand]), []);
}

#[test]
fn a_release_before_its_time_is_caught() {
    let terms = Terms { min_hold: Some(Duration::from_millis(4)), ..TERMS };
    let holds = || vec![asked_on(0, 0, terms), granted(0, 7)];
    let released = || vec![What::ReleaseArrived { of: Some(0), before: Some(0), after: None }];
    catches(Invariant::Terms, [holds(), released()]);
    assert_eq!(violations([holds(), vec![let_go(0), wrote(0, 7, true)], released()]), []);
    let lost = vec![What::ClaimLost { client: 0, lock: 0 }];
    assert_eq!(violations([holds(), lost, released()]), []);
}

#[test]
fn a_refusal_without_a_holder_is_caught() {
    for why in [Why::Busy, Why::Timeout] {
        let refused = || vec![What::NotGranted { call: 0, why }];
        let alone = vec![asked(0, 0), holder(Some(0))];
        catches(Invariant::TruthfulRefusal, [alone, refused()]);
        let another = vec![asked(0, 0), holder(Some(1))];
        assert_eq!(violations([another, vec![holder(None)], refused()]), []);
        // A release that was not answered may not have ended the hold.
        let unanswered = vec![What::ClaimBegins { client: 0, lock: 0 }, asked(0, 0)];
        assert_eq!(violations([unanswered.clone(), refused()]), []);
        let elsewhere = vec![What::ClaimBegins { client: 1, lock: 0 }, asked(0, 0)];
        catches(Invariant::TruthfulRefusal, [elsewhere, refused()]);
        let ended = vec![What::ClaimBegins { client: 0, lock: 0 }, What::ClaimEnds { client: 0, lock: 0 }];
        catches(Invariant::TruthfulRefusal, [ended, vec![asked(0, 0)], refused()]);
    }
    let unexpected = vec![asked(0, 0)];
    let refused = vec![What::NotGranted { call: 0, why: Why::Unexpected }];
    catches(Invariant::TruthfulRefusal, [unexpected, refused]);
}

#[test]
fn a_claim_that_ends_now_still_refuses() {
    let entry = |at, what| Entry { at, what };
    let ended = |ends| {
        let refused = What::NotGranted { call: 0, why: Why::Timeout };
        check(&[
            entry(1, What::ClaimBegins { client: 0, lock: 0 }),
            entry(ends, What::ClaimEnds { client: 0, lock: 0 }),
            entry(5, asked(0, 0)),
            entry(9, refused),
        ])
    };
    assert_eq!(ended(5).violations, []);
    assert_eq!(ended(4).violations.len(), 1);
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
        let revokes = What::Revokes { call: 5, client: 3, lock: 0, when: When::HoldersDeadline };
        vec![held(0), revokes, told]
    };
    let given_back = || vec![What::GivenBack { call: 0 }];
    catches(Invariant::LossInTime, [asked_and_granted(), revoked(9_000), given_back()]);
    assert_eq!(violations([asked_and_granted(), revoked(9_000), vec![let_go(0)], given_back()]), []);
    assert_eq!(violations([asked_and_granted(), revoked(500), given_back()]), [], "its lease is over");
    assert_eq!(violations([asked_and_granted(), vec![let_go(0)], given_back()]), [], "it was not told");
    let wiped = What::Shortened { call: 0, token: 7, until: 600_000 };
    let told = What::Told { call: 0, cause: Some(LossReason::Gone), late: 0, left: 9_000 };
    let gone = vec![held(0), wiped, told];
    assert_eq!(violations([asked_and_granted(), gone, given_back()]), [], "the server no longer had it");
}

#[test]
fn a_claim_that_stays_is_caught() {
    catches(Invariant::Ends, [vec![What::ShutDown { client: 2, left: 1 }]]);
}

#[test]
fn the_log_around_a_violation_is_about_it() {
    let stranger = vec![asked(5, 3), What::NotGranted { call: 5, why: Why::Cancelled }];
    let log = log([stranger, asked_and_granted(), vec![told(50)], succeeded(8)]);
    let violation = check(&log).violations.remove(0);
    let slice = violation.slice(&log);
    assert!(slice.iter().all(|entry| !matches!(entry.what, What::Asked { call: 1 | 5, .. })), "{slice:?}");
    assert_eq!(slice.last().unwrap().what, told(50));
    assert_eq!(slice.first().unwrap().what, asked(0, 0));
}
