//! Selects the cases that a backend can run, runs them, and says which were not run.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use libtest_mimic::{Completion, Trial};
use lock_core::Options;

use crate::case::Case;
use crate::cases;
use crate::failure::{Failure, Panics};
use crate::harness::Harness;
use crate::lateness::judge;
use crate::part::Order;
use crate::record;
use crate::runtime::{block_on, block_on_and_end};
use crate::selection::Selection;
use crate::setting::{Setting, is_full_run};
use crate::verdict::Verdict;

/// A case hangs if it takes longer than this. In full size, one case has a thousand rounds of a thousand contenders, on
/// the slowest server too.
fn longest_case() -> Duration {
    Duration::from_secs(if is_full_run() { 1800 } else { 60 })
}

/// Cases wait most of the time, so this many run side by side.
const LIGHT_ONES: usize = 6;
/// This many of the cases that have to be punctual run side by side.
const MEDIUM_ONES: usize = 3;

/// Runs the suite on `harness`, with the arguments of `cargo test`. A backend's `tests/conformance.rs` calls this.
///
/// Fails if a case fails, if none ran although none was filtered out, and if the server under test ends.
pub fn run(harness: impl Harness) -> Verdict {
    #[cfg(unix)]
    crate::signals::pass_on();
    if let Some(part) = Order::from_env() {
        return part.play(&harness);
    }
    let harness: Arc<dyn Harness> = Arc::new(harness);
    match setting_of(harness.clone()) {
        Ok(setting) => run_on(&setting, &Selection::from_args()),
        Err(why) => {
            eprintln!("{}: {why}", harness.name());
            harness.server_ended().iter().for_each(|why| eprintln!("{}", server_ended(why)));
            Verdict::Failed
        }
    }
}

/// Opens a client, to learn what the server says of itself. The error says why it can't be opened.
fn setting_of(harness: Arc<dyn Harness>) -> Result<Setting, String> {
    let info = block_on(async { harness.open(Options::default()).await.map(|client| client.info()) });
    match info {
        Ok(info) => Ok(Setting::of(harness, info)),
        Err(e) => Err(format!("the server under test can't be used: {e:?}")),
    }
}

/// The outcome of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CaseOutcome {
    /// The backend did what the case asks for.
    Passed,
    /// It did not; the text says what is wrong.
    Failed(String),
    /// It was not run, for this reason: the backend does not promise it, or the harness is not able to test it.
    NotRun(String),
}

/// Runs the case `topic::name` on `harness`, and returns what became of it. Reports nothing. It is for tests that compare
/// this with what should become of it: of drivers with known flaws, for example.
///
/// Cases that are called from several threads at a time share the machine as in a run of the whole suite. The caller
/// must not be in a runtime: the case has one of its own.
///
/// # Panics
///
/// If there is no case of this name.
pub fn run_case(harness: Arc<dyn Harness>, name: &str) -> CaseOutcome {
    let case = cases::all().find(|case| name.split_once("::") == Some((case.topic, case.name)));
    let case = case.unwrap_or_else(|| panic!("there is no case {name}"));
    let setting = match setting_of(harness) {
        Ok(setting) => setting,
        Err(why) => return CaseOutcome::Failed(why),
    };
    match reason_not_to(case, &setting) {
        Some(reason) => CaseOutcome::NotRun(reason),
        None => judged(case, &setting).map_or_else(CaseOutcome::Failed, |()| CaseOutcome::Passed),
    }
}

/// Runs the selected cases, and reports them.
fn run_on(setting: &Setting, selection: &Selection) -> Verdict {
    let name = setting.harness.name();
    println!("\nconformance of {name}");
    let ran = Arc::new(Mutex::new(Vec::new()));
    let (mut trials, mut not_run) = (<[Vec<Trial>; 3]>::default(), Vec::new());
    for case in cases::all() {
        match reason_not_to(case, setting) {
            Some(reason) => not_run.push((case, reason)),
            None => trials[case.load as usize].push(trial(case, setting, &ran)),
        }
    }
    let mut arguments = selection.arguments.clone();
    let threads = arguments.test_threads.unwrap_or(LIGHT_ONES);
    let mut failed = false;
    for (trials, most) in trials.into_iter().zip([threads, MEDIUM_ONES, 1]) {
        arguments.test_threads = Some(threads.min(most));
        failed |= libtest_mimic::run(&arguments, selection.of(trials)).has_failed();
    }
    if arguments.list {
        return Verdict::Passed;
    }

    let ran = std::mem::take(&mut *ran.lock().expect("no case panics under this lock"));
    println!("the longest cases: {}", longest(&ran));
    for (case, reason) in &not_run {
        note(&what(case, setting), reason);
    }
    println!("{name}: {} cases ran, {} not run", ran.len(), not_run.len());
    println!("cases per bug class: {}\n", per_class(&ran));
    if let Some(why) = setting.harness.server_ended() {
        println!("{name}: FAILED: {}\n", server_ended(&why));
        record::failed(&name, &server_ended(&why));
        failed = true;
    }
    if failed || (ran.is_empty() && !selection.is_partial()) { Verdict::Failed } else { Verdict::Passed }
}

/// Reports that the suite was not run on `backend`, and why. The report never says that it passed.
pub fn not_run(backend: &str, why: &str) -> Verdict {
    note(&format!("conformance of {backend}"), why);
    Verdict::Passed
}

fn note(what: &str, why: &str) {
    println!("not run: {what}: {why}");
    record::not_run(what, why);
}

/// Reports that the suite could not be run on `backend` although that was required.
pub fn failed(backend: &str, why: &str) -> Verdict {
    println!("\nconformance of {backend}: FAILED: {why}\n");
    Verdict::Failed
}

fn reason_not_to(case: &Case, setting: &Setting) -> Option<String> {
    if !(case.applies)(setting) {
        return Some("it is about what this backend does not promise".into());
    }
    (case.begin)(setting.clone()).err().map(|missing| missing.to_string())
}

/// A case that ran, and how long it took.
type Played = (&'static Case, Duration);

fn trial(case: &'static Case, setting: &Setting, ran: &Arc<Mutex<Vec<Played>>>) -> Trial {
    let (setting, ran) = (setting.clone(), ran.clone());
    let name = format!("{}::{}", case.topic, case.name);
    Trial::ignorable_test(name, move || {
        let completed = complete(case, &setting, &ran);
        let completed = completed.inspect_err(|why| record::failed(&what(case, &setting), why));
        Ok(completed.map_err(|why| format!("{why}\nit is about: {}", case.promise))?)
    })
}

/// Runs a case until it is judged. After the server has ended, no case says anything about the backend.
fn complete(case: &'static Case, setting: &Setting, ran: &Mutex<Vec<Played>>) -> Result<Completion, String> {
    if let Some(why) = setting.harness.server_ended() {
        return Ok(Completion::ignored_with(server_ended(&why)));
    }
    let began = Instant::now();
    let outcome = judged(case, setting);
    ran.lock().expect("no case panics under this lock").push((case, began.elapsed()));
    outcome.map(|()| Completion::Completed)
}

/// Runs a case until it is judged. The error says why it failed.
fn judged(case: &'static Case, setting: &Setting) -> Result<(), String> {
    judge(case.load, &what(case, setting), || outcome_of(case, setting))
}

/// Returns what reports call this case.
fn what(case: &Case, setting: &Setting) -> String {
    format!("{}: {}::{}", setting.harness.name(), case.topic, case.name)
}

fn server_ended(why: &str) -> String {
    format!("the server under test has ended: {why}")
}

/// Runs a case. The error says why it failed.
fn outcome_of(case: &'static Case, setting: &Setting) -> Result<(), Failure> {
    let panics = Panics::watch();
    let played = async {
        let played = play(case, setting.clone()).await;
        panics.ending();
        played
    };
    let (played, ended) = block_on_and_end(panics.threads(), played);
    panics.judge(played.and(ended)).map_err(|failure| match setting.harness.server_ended() {
        // It would be late, or void, each time that it is asked again.
        Some(why) => Failure::Wrong(format!("{}; {failure}", server_ended(&why))),
        None => failure,
    })
}

/// Runs the body of a case. The error says why it failed.
async fn play(case: &'static Case, setting: Setting) -> Result<(), Failure> {
    // In a task: the thread that calls `block_on` would see wake-ups in another order than users do.
    let body = tokio::spawn((case.begin)(setting).map_err(|missing| Failure::Wrong(missing.to_string()))?);
    let limit = longest_case();
    match tokio::time::timeout(limit, body).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(e)) => Err(match e.try_into_panic() {
            Ok(panic) => Failure::of(&*panic),
            Err(_) => Failure::wrong("its task was cancelled"),
        }),
        Err(_) => Err(Failure::Wrong(format!("it hangs: not done after {limit:?}"))),
    }
}

/// Returns the cases that a run of the suite spends most of its time on.
fn longest(ran: &[Played]) -> String {
    let mut ran = ran.to_vec();
    ran.sort_by_key(|(_, took)| std::cmp::Reverse(*took));
    let longest = ran.iter().take(12).map(|(case, took)| format!("{}::{} {took:.1?}", case.topic, case.name));
    longest.collect::<Vec<_>>().join(", ")
}

fn per_class(ran: &[Played]) -> String {
    let mut classes: BTreeMap<(usize, &str), u32> = BTreeMap::new();
    for class in ran.iter().flat_map(|(case, _)| case.classes) {
        *classes.entry((class.len(), class)).or_default() += 1;
    }
    let counts: Vec<_> = classes.iter().map(|((_, class), n)| format!("{class} {n}")).collect();
    counts.join(", ")
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use async_trait::async_trait;
    use lock_core::{Client, Result};
    use lock_memory::Memory;

    use super::*;
    use crate::cases;

    /// A server that ends when it is first used, and says so.
    #[derive(Debug, Default)]
    struct Ends(AtomicBool);

    #[async_trait]
    impl Harness for Ends {
        fn name(&self) -> String {
            "a server that ends".to_owned()
        }

        async fn open(&self, _: Options) -> Result<Client> {
            self.0.store(true, Ordering::SeqCst);
            Err(lock_core::Error::rejected("it is gone"))
        }

        fn server_ended(&self) -> Option<String> {
            self.0.load(Ordering::SeqCst).then(|| "killed by signal 9".to_owned())
        }
    }

    #[test]
    fn an_ended_server_ends_the_run_and_tells_once() {
        let info = block_on(async { Memory::new().client().await.expect("it is here").info() });
        let setting = Setting::of(Arc::new(Ends::default()), info);
        // Each of them opens a client first.
        let (ran, mut cases) =
            (Mutex::new(Vec::new()), cases::all().filter(|case| case.topic == "exclusion"));
        let first = complete(cases.next().expect("there are cases"), &setting, &ran);
        let Err(why) = first else { panic!("its server has gone") };
        assert!(why.starts_with("the server under test has ended: killed by signal 9; "), "{why}");
        let next = complete(cases.next().expect("there are cases"), &setting, &ran);
        assert!(matches!(next, Ok(Completion::Ignored { reason: Some(why) }) if why.contains("signal 9")));
        assert_eq!(ran.lock().expect("no case panics under this lock").len(), 1);
    }
}
