//! The core under simulation: histories that hold, and one seed that makes one history.

#![allow(clippy::unwrap_used, reason = "what fails here is the test")]

mod checker;

use lock_conformance::sim::{FamilyName, STORIES, What, family_of, play, play_many, tell};

/// Split over both families.
const HISTORIES: u64 = 2_000;
const MANY_SERVERS: u64 = 200;

#[test]
fn two_thousand_histories_hold() {
    let report = play_many(HISTORIES, 1, None);
    assert!(report.holds(), "{report}");
    assert_eq!(report.untested(), Vec::<String>::new(), "{report}");
}

/// Several servers ask for ten times the messages.
#[test]
fn two_hundred_histories_of_a_majority_hold() {
    let report = play_many(MANY_SERVERS, 1, Some(FamilyName::Redlock));
    assert!(report.holds(), "{report}");
    assert_eq!(report.untested(), Vec::<String>::new(), "{report}");
}

/// With nothing but tokens between a lock that is broken and what it protects.
#[test]
fn no_story_makes_a_resource_with_tokens_take_a_stale_write() {
    for story in &STORIES {
        let told = tell(story, 5, 1);
        assert_eq!(told.stale_writes_taken, 0, "{story:?}");
    }
}

#[test]
fn one_seed_makes_one_history() {
    for family in [FamilyName::Lease, FamilyName::Queue, FamilyName::Redlock] {
        for seed in 0..if family == FamilyName::Redlock { 10 } else { 100 } {
            let (once, again) = (play(family, seed), play(family, seed));
            assert!(once == again, "seed {seed} in the {family} family plays differently the second time");
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
