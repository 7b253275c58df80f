//! The core under simulation: histories in which all promises are kept, and one seed that always makes the same
//! history.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod checker;
mod excuses;
mod logs;
mod waiters;

use std::io::Write;
use std::time::{Duration, SystemTime};

use lock_simulation::{FamilyName, Report, STORIES, What, family_of, play, play_many, play_story};

/// The number of histories that are played, split over both families.
const HISTORIES: u64 = 2_000;
const REGISTERS: u64 = 1_000;
const MANY_SERVERS: u64 = 200;

/// The number of seeds of each day. Two days share none.
const SEEDS_A_DAY: u64 = 1_000_000;
const HISTORIES_A_DAY: u64 = 1_000;
const REGISTERS_A_DAY: u64 = 500;
const MANY_SERVERS_A_DAY: u64 = 100;

#[test]
fn two_thousand_histories_hold() {
    hold(&play_many(HISTORIES, 1, None));
}

#[test]
fn a_thousand_histories_of_registers_hold() {
    hold(&play_many(REGISTERS, 1, Some(FamilyName::Register)));
}

/// Histories with several servers need ten times the messages.
#[test]
fn two_hundred_histories_of_a_majority_hold() {
    hold(&play_many(MANY_SERVERS, 1, Some(FamilyName::Redlock)));
}

/// Asserts that every promise was tested, and none was broken or excused too often.
fn hold(report: &Report) {
    assert!(report.holds(), "{report}");
    assert_eq!(report.excessive(), Vec::<String>::new(), "{report}");
    assert_eq!(report.untested(), Vec::<String>::new(), "{report}");
}

/// The seeds above never change, so they always test the same. These change every day.
#[test]
fn histories_that_no_day_has_seen_before_hold() {
    let seed = today() * SEEDS_A_DAY;
    for (histories, family) in [
        (HISTORIES_A_DAY, None),
        (REGISTERS_A_DAY, Some(FamilyName::Register)),
        (MANY_SERVERS_A_DAY, Some(FamilyName::Redlock)),
    ] {
        let named = family.map(|family| format!(" --family {family}")).unwrap_or_default();
        // Not through libtest's capture, which shows a test's output only when the test fails: a history that hangs has
        // to be played again, too.
        let again = format!("today's histories: sim --histories {histories} --seed {seed}{named}\n");
        std::io::stderr().write_all(again.as_bytes()).unwrap();
        let report = play_many(histories, seed, family);
        assert!(report.holds(), "{again}{report}");
        assert_eq!(report.excessive(), Vec::<String>::new(), "{again}{report}");
    }
}

/// Returns the days since 1970, or the day that `LOCK_TEST_DAY` names.
fn today() -> u64 {
    const DAY: Duration = Duration::from_secs(24 * 3600);
    match std::env::var("LOCK_TEST_DAY") {
        Ok(day) => day.parse().unwrap(),
        Err(_) => SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs() / DAY.as_secs(),
    }
}

/// Only tokens are between a broken lock and the resource that it protects. The story without the guard is left out:
/// there, the servers that grant may have forgotten the last token, or never had it.
#[test]
fn a_resource_with_tokens_takes_no_stale_write() {
    for story in STORIES.iter().filter(|story| story.on != "five, no guard") {
        let told = play_story(story, 5, 1);
        assert_eq!(told.stale_writes_taken, 0, "{story:?}");
    }
}

/// Two calls hold the lock only where that is excused. With one clock of five set, it is excused if the nodes that have
/// granted the lock and whose clocks were not set are no majority.
#[test]
fn one_wrong_clock_of_five_breaks_no_promise() {
    let story = STORIES.iter().find(|story| story.name == "one of the clocks is set forward").unwrap();
    let told = play_story(story, 100, 0);
    assert!(told.with_two_holders > 0, "{told:?}");
    assert_eq!(told.with_broken_promises, 0, "{told:?}");
}

#[test]
fn one_seed_makes_one_history() {
    for family in FamilyName::ALL {
        for seed in 0..if family == FamilyName::Redlock { 10 } else { 100 } {
            let (once, again) = (play(family, seed), play(family, seed));
            assert!(once == again, "seed {seed} in the {family} family plays differently the second time");
            assert_ne!(once.log, play(family, seed + 1).log, "another seed makes another history");
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
