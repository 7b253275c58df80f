//! Whatever a backend is asked, in whatever order, it answers as lock-memory does.

use std::sync::{Arc, Mutex};

use lock_core::Random;
use lock_core::driver::{Fair, Lease, Wakes};
use tokio::task::JoinSet;

use crate::case::{Case, case};
use crate::model::{self, Happened};
use crate::setting::Setting;

pub(crate) const CASES: &[Case] = &[
    case!(random_steps_have_the_models_answers, "model", [B3, B4, B9, B10, B12, B13, B15]; load Heavy; if |s| model::has(&s.info)),
];

/// The number of plays that run at the same time.
const AT_ONCE: usize = 3;
const STEPS: usize = 100;
/// If something rare has not happened yet, plans continue up to this multiple of their usual number.
const LONGEST: usize = 10;

/// The environment variable that repeats a run with its seed.
const SEED: &str = "LOCK_TEST_SEED";

async fn random_steps_have_the_models_answers(s: Setting) {
    let plans = s.size("random plans on the model, too", 12, 1000);
    let seed = seed();
    let happened = Arc::new(Mutex::new(Happened::new()));
    let mut tasks = JoinSet::new();
    for first in 0..AT_ONCE.min(plans) {
        let (s, happened) = (s.clone(), happened.clone());
        tasks.spawn(async move {
            for n in (first..plans * LONGEST).step_by(AT_ONCE) {
                if n >= plans && never(&s, &happened).is_empty() {
                    return;
                }
                match model::compare(&s, seed + n as u64, STEPS).await {
                    Ok(also) => {
                        happened.lock().expect("no code panics while it holds this mutex").extend(also);
                    }
                    Err(disagreement) => panic!("{disagreement}{SEED}={} shows it again", seed + n as u64),
                }
            }
        });
    }
    tasks.join_all().await;
    let never = never(&s, &happened);
    assert!(never.is_empty(), "seed {seed}: this never happened: {never:?}; of {happened:?}");
}

/// Returns what a run must have seen and has not seen so far.
fn never(s: &Setting, happened: &Mutex<Happened>) -> Vec<&'static str> {
    let happened = happened.lock().expect("no code panics while it holds this mutex");
    expected(s).into_iter().filter(|what| !happened.contains(what)).collect()
}

fn seed() -> u64 {
    if let Some(seed) = std::env::var(SEED).ok().and_then(|seed| seed.parse().ok()) {
        return seed;
    }
    let mut bytes = [0; 4];
    Random::system().fill(&mut bytes);
    u32::from_be_bytes(bytes).into()
}

/// Returns what a run must have seen.
fn expected(s: &Setting) -> Vec<&'static str> {
    let mut all = vec!["granted", "granted again", "busy", "held", "released", "not held"];
    all.extend(["shown", "no holder shown", "gone", "revoked"]);
    all.extend(["revoked at the deadline", "revoked now", "nothing revoked"]);
    if s.info.lease == Lease::Lock {
        // In a queue, an owner that does not hold the lock is not told which one does.
        all.extend(["taken", "outlived"]);
    }
    if s.info.wakes == Wakes::Pushed && s.info.fair == Fair::No {
        all.extend(["listens", "woken"]);
    }
    all
}
