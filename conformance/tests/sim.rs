//! The core under simulation: histories that hold, one seed that makes one history, and a checker that catches.

#![allow(clippy::unwrap_used, reason = "what fails here is the test")]

use lock_conformance::sim::{
    CallId, Entry, FamilyName, Fault, Invariant, Kind, Violation, What, Why, check, family_of, play,
    play_many,
};
use lock_core::Ending;

/// Split over both families.
const HISTORIES: u64 = 2_000;

#[test]
fn two_thousand_histories_hold() {
    let report = play_many(HISTORIES, 1, None);
    assert!(report.holds(), "{report}");
    assert!(report.mishaps.lost > 0 && report.mishaps.doubled > 0 && report.mishaps.late > 0, "{report}");
}

#[test]
fn one_seed_makes_one_history() {
    for family in [FamilyName::Lease, FamilyName::Queue] {
        for seed in 0..20 {
            let (once, again) = (play(family, seed), play(family, seed));
            assert!(once == again, "seed {seed} in the {family:?} family plays differently the second time");
            assert_ne!(once.log, play(family, seed + 1).log, "another seed is another history");
        }
    }
}

#[test]
fn a_history_has_what_makes_it_one() {
    for seed in 0..100 {
        let log = play(family_of(seed), seed).log;
        let count = |which: fn(&What) -> bool| log.iter().filter(|entry| which(&entry.what)).count();
        assert_eq!(count(|what| matches!(what, What::Asked { .. })), 40, "seed {seed}");
        assert_eq!(count(|what| matches!(what, What::ShutDown { .. })), 4, "seed {seed}");
        assert!(count(|what| matches!(what, What::Begins(_))) >= 3, "seed {seed}");
    }
}

// ---- the checker's own tests ----------------------------------------------------------------------------------------

/// Two calls of two clients: the first has the lock, then the second.
fn asked_and_granted() -> Vec<What> {
    vec![
        What::Asked { call: 0, client: 0 },
        What::Holder { call: Some(0) },
        granted(0, 7),
        What::Asked { call: 1, client: 1 },
    ]
}

fn granted(call: CallId, token: u64) -> What {
    What::Granted { call, token }
}

fn succeeded(token: u64) -> Vec<What> {
    vec![
        What::LetGo { call: 0 },
        What::ReleaseArrived { of: Some(0), before: Some(0), after: None },
        What::Ended { call: 0, ending: Ending::Released },
        What::Holder { call: Some(1) },
        granted(1, token),
    ]
}

fn told(late: u64) -> What {
    What::Told { call: 0, cause: None, late }
}

fn wrote(call: CallId, token: u64, accepted: bool) -> What {
    What::Wrote { call, token, accepted }
}

/// One millisecond apart.
fn log(parts: impl IntoIterator<Item = Vec<What>>) -> Vec<Entry> {
    parts.into_iter().flatten().zip(1..).map(|(what, n)| Entry { at: n * 1000, what }).collect()
}

fn violations(parts: impl IntoIterator<Item = Vec<What>>) -> Vec<Violation> {
    check(&log(parts)).violations
}

/// Exactly one, of this invariant.
fn catches(invariant: Invariant, parts: impl IntoIterator<Item = Vec<What>>) {
    let found = violations(parts);
    assert!(matches!(&found[..], [one] if one.invariant == invariant), "{invariant}: {found:?}");
}

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
    for (invariant, expected) in Invariant::ALL.into_iter().zip([5, 1, 1, 1, 0, 2, 1]) {
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
    let ask_before = vec![What::Asked { call: 1, client: 1 }, What::Asked { call: 0, client: 0 }];
    catches(Invariant::FencedExclusion, [ask_before, vec![granted(0, 7)], succeeded(7)]);
}

#[test]
fn a_token_that_falls_is_caught() {
    catches(
        Invariant::TokenOrder,
        [
            vec![What::Asked { call: 0, client: 0 }, granted(0, 7), What::LetGo { call: 0 }],
            vec![What::Asked { call: 1, client: 1 }, granted(1, 6)],
        ],
    );
}

#[test]
fn two_that_hold_at_once_are_caught() {
    // Its machine stands still when the other one is granted: it can't be told, and must not believe.
    let pause = Fault { kind: Kind::Pause(0), begins: 4_000, ends: 100_000 };
    let stale = vec![What::Begins(pause), granted(1, 8), What::Held { call: 0 }];
    catches(Invariant::Exclusion, [asked_and_granted(), stale]);
}

#[test]
fn a_loss_told_late_is_caught() {
    catches(Invariant::LossInTime, [asked_and_granted(), vec![told(50)]]);
    catches(Invariant::LossInTime, [asked_and_granted(), vec![granted(1, 8), told(0)]]);
}

#[test]
fn a_servers_clock_set_forward_excuses_the_time_but_not_the_tokens() {
    let step = |by| vec![What::Begins(Fault { kind: Kind::Step(by), begins: 0, ends: 0 })];
    let overlap = || vec![granted(1, 8), What::Held { call: 0 }];
    assert_eq!(violations([step(5), asked_and_granted(), overlap()]), []);
    assert_eq!(check(&log([step(5), asked_and_granted(), overlap()])).excused, 2);
    assert_eq!(violations([step(-5), asked_and_granted(), overlap()]).len(), 2);
    let stale = vec![wrote(1, 8, true), wrote(0, 7, true)];
    catches(Invariant::FencedExclusion, [step(5), asked_and_granted(), overlap(), stale]);
}

#[test]
fn a_refusal_without_a_holder_is_caught() {
    for why in [Why::Busy, Why::Timeout] {
        let refused = || vec![What::NotGranted { call: 0, why }];
        let alone = vec![What::Asked { call: 0, client: 0 }, What::Holder { call: Some(0) }];
        catches(Invariant::TruthfulRefusal, [alone, refused()]);
        let holder = vec![What::Asked { call: 0, client: 0 }, What::Holder { call: Some(1) }];
        assert_eq!(violations([holder, vec![What::Holder { call: None }], refused()]), []);
        // Nobody knows what became of a release that was not answered.
        let unanswered = vec![What::ClaimBegins { client: 0 }, What::Asked { call: 0, client: 0 }];
        assert_eq!(violations([unanswered.clone(), refused()]), []);
        let elsewhere = vec![What::ClaimBegins { client: 1 }, What::Asked { call: 0, client: 0 }];
        catches(Invariant::TruthfulRefusal, [elsewhere, refused()]);
        let ended = vec![What::ClaimBegins { client: 0 }, What::ClaimEnds { client: 0 }];
        catches(Invariant::TruthfulRefusal, [ended, vec![What::Asked { call: 0, client: 0 }], refused()]);
    }
    let unexpected = vec![What::Asked { call: 0, client: 0 }];
    let refused = vec![What::NotGranted { call: 0, why: Why::Unexpected }];
    catches(Invariant::TruthfulRefusal, [unexpected, refused]);
}

#[test]
fn a_release_that_ends_anothers_hold_is_caught() {
    let late = vec![What::ReleaseArrived { of: Some(0), before: Some(1), after: None }];
    catches(Invariant::HonestRelease, [asked_and_granted(), succeeded(8), late]);
    let unheard = vec![What::LetGo { call: 0 }, What::Ended { call: 0, ending: Ending::Released }];
    catches(Invariant::HonestRelease, [asked_and_granted(), unheard]);
}

#[test]
fn a_claim_that_stays_is_caught() {
    catches(Invariant::Ends, [vec![What::ShutDown { client: 2, left: 1 }]]);
}

#[test]
fn the_log_around_a_violation_is_about_it() {
    let stranger =
        vec![What::Asked { call: 5, client: 3 }, What::NotGranted { call: 5, why: Why::Cancelled }];
    let log = log([stranger, asked_and_granted(), vec![told(50)], succeeded(8)]);
    let violation = check(&log).violations.remove(0);
    let slice = violation.slice(&log);
    assert!(slice.iter().all(|entry| !matches!(entry.what, What::Asked { call: 1 | 5, .. })), "{slice:?}");
    assert_eq!(slice.last().unwrap().what, told(50));
    assert_eq!(slice.first().unwrap().what, What::Asked { call: 0, client: 0 });
}
