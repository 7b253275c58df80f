//! The process that tries everything on one server.

use std::collections::BTreeMap;
use std::panic::catch_unwind;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use lock_conformance::{CaseOutcome, run_case};
use tokio::io::{AsyncBufReadExt, BufReader};

use super::super::evidence::Of;
use super::super::list;
use super::super::trial::{Scene, Trial};
use super::harness::Tried;
use super::{MARK, scenes};
use crate::Outcome;
use crate::backend::Backend;
use crate::report::{Ended, Played};

/// So many trials run side by side. They wait most of the time.
const AT_ONCE: usize = 8;

/// Reads the server's URL, and tells the outcome of each trial in a line.
pub(crate) async fn run() -> Outcome<()> {
    let mut input = BufReader::new(tokio::io::stdin()).lines();
    let url = input.next_line().await?.ok_or("the input has ended")?;
    let backend = Backend::of(&url)?;
    // Each case has a runtime of its own, so no thread here may be one of this runtime's workers.
    tokio::task::spawn_blocking(move || all(backend, &url)).await?;
    Ok(())
}

fn all(backend: Backend, url: &str) {
    let mut trials = list::trials(backend);
    // The longest one first.
    trials.sort_by_key(|(_, trial)| *trial != Trial::Scene(Scene::DeadWaiters));
    let trials = Mutex::new(trials.into_iter());
    let next = || trials.lock().unwrap_or_else(PoisonError::into_inner).next();
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some((of, trial)) = next() {
                    say(&one(of, trial, url));
                }
            });
        }
    });
}

fn one(of: Of, trial: Trial, url: &str) -> Played {
    let tried = Tried::of(of, url);
    let played = |outcome, why: Option<String>, figures| Played {
        server: String::new(),
        subject: of.subject().to_owned(),
        case: trial.name().to_owned(),
        outcome,
        why,
        figures,
    };
    let without = BTreeMap::new();
    match trial {
        Trial::Case(name) => match run_case(Arc::new(tried), name) {
            CaseOutcome::Passed => played(Ended::Passed, None, without),
            CaseOutcome::Failed(why) => played(Ended::Failed, Some(why), without),
            CaseOutcome::NotRun(why) => played(Ended::NotRun, Some(why), without),
        },
        Trial::Scene(scene) => match catch_unwind(|| scenes::play(scene, &tried)) {
            Ok(Ok(figures)) => played(Ended::Measured, None, figures),
            Ok(Err(error)) => played(Ended::Failed, Some(error.to_string()), without),
            Err(_) => played(Ended::Failed, Some("the scene itself could not be played".to_owned()), without),
        },
    }
}

fn say(played: &Played) {
    match serde_json::to_string(played) {
        Ok(line) => println!("{MARK}{line}"),
        Err(error) => eprintln!("what became of {} can't be written: {error}", played.case),
    }
}
