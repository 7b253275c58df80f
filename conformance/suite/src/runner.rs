//! Selects the cases that a backend can run, runs them, and says which were not run.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::process::{ExitCode, Termination};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use libtest_mimic::{Failed, Trial};
use lock_core::{Info, Options};

use crate::cases;
use crate::failure::{Failure, Panics};
use crate::harness::{Harness, Need};
use crate::judging::{Again, Judge, Load};
use crate::selection::Selection;
use crate::setting::{Setting, is_full_run};

/// A case hangs if it takes longer than this. In full size, one case has a thousand rounds of a thousand contenders, on
/// the slowest server too.
fn longest_case() -> Duration {
    Duration::from_secs(if is_full_run() { 1800 } else { 60 })
}

/// Cases wait most of the time, so this many run side by side.
const LIGHT_ONES: usize = 6;
/// This many of the cases that have to be punctual run side by side.
const MEDIUM_ONES: usize = 3;

/// One case of the suite.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    pub(crate) topic: &'static str,
    pub(crate) name: &'static str,
    /// The classes of real bugs (docs/bug-classes.md) that it guards against.
    pub(crate) classes: &'static [&'static str],
    pub(crate) needs: &'static [Need],
    pub(crate) applies: fn(&Info) -> bool,
    pub(crate) load: Load,
    pub(crate) run: fn(Setting) -> Pin<Box<dyn Future<Output = ()> + Send>>,
}

/// What a test program's `main` returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "return it from `main`: otherwise a failure is not seen"]
pub enum Verdict {
    /// No case failed.
    Passed,
    /// A case failed, or no case could be run although it was required.
    Failed,
}

impl Verdict {
    /// Returns `Failed` if either failed, for a backend that is tested in two forms.
    pub fn and(self, other: Verdict) -> Verdict {
        if self == Verdict::Failed { self } else { other }
    }
}

impl Termination for Verdict {
    fn report(self) -> ExitCode {
        match self {
            Verdict::Passed => ExitCode::SUCCESS,
            Verdict::Failed => ExitCode::FAILURE,
        }
    }
}

/// Runs the suite on `harness`, with the arguments of `cargo test`. A backend's `tests/conformance.rs` calls this.
///
/// Fails if a case fails, and if none ran although none was filtered out.
pub fn run(harness: impl Harness) -> Verdict {
    #[cfg(all(unix, feature = "servers"))]
    crate::signals::pass_on();
    #[cfg(feature = "servers")]
    if let Some(part) = crate::part::Order::from_env() {
        return part.play(&harness);
    }
    let selection = Selection::from_args();
    let mut arguments = selection.arguments.clone();
    let harness: Arc<dyn Harness> = Arc::new(harness);
    let info = block_on(async { harness.open(Options::default()).await.map(|client| client.info()) });
    let info = match info {
        Ok(info) => info,
        Err(e) => {
            eprintln!("{}: the server under test can't be used: {e:?}", harness.name());
            return Verdict::Failed;
        }
    };
    let setting = Setting { harness, info };
    println!("\nconformance of {}", setting.harness.name());

    let ran = Arc::new(Mutex::new(Vec::new()));
    let (mut trials, mut not_run) = (<[Vec<Trial>; 3]>::default(), Vec::new());
    for case in cases::all() {
        match reason_not_to(case, &setting) {
            Some(reason) => not_run.push((case, reason)),
            None => trials[case.load as usize].push(trial(case, &setting, &ran)),
        }
    }
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
        note(&format!("{}: {}::{}", setting.harness.name(), case.topic, case.name), reason);
    }
    println!("{}: {} cases ran, {} not run", setting.harness.name(), ran.len(), not_run.len());
    println!("cases per bug class: {}\n", per_class(&ran));
    if failed || (ran.is_empty() && !selection.is_partial()) { Verdict::Failed } else { Verdict::Passed }
}

/// Reports that the suite was not run on `backend`, and why. The report never says that it passed.
pub fn not_run(backend: &str, why: &str) -> Verdict {
    note(&format!("conformance of {backend}"), why);
    Verdict::Passed
}

fn note(what: &str, why: &str) {
    println!("not run: {what}: {why}");
    #[cfg(feature = "servers")]
    crate::servers::record::not_run(what, why);
}

/// Reports that the suite could not be run on `backend` although that was required.
pub fn failed(backend: &str, why: &str) -> Verdict {
    println!("\nconformance of {backend}: FAILED: {why}\n");
    Verdict::Failed
}

fn reason_not_to(case: &Case, setting: &Setting) -> Option<String> {
    if !(case.applies)(&setting.info) {
        return Some("it is about what this backend does not promise".into());
    }
    case.needs.iter().find_map(|need| setting.harness.can(*need).err())
}

/// A case that ran, and how long it took.
type Played = (&'static Case, Duration);

fn trial(case: &'static Case, setting: &Setting, ran: &Arc<Mutex<Vec<Played>>>) -> Trial {
    let (setting, ran) = (setting.clone(), ran.clone());
    Trial::test(format!("{}::{}", case.topic, case.name), move || {
        let began = Instant::now();
        let again = |why: &Again| note_again(case, &setting, why);
        let outcome = JUDGE.judge(case.load, || outcome_of(case, &setting), again);
        ran.lock().expect("no case panics under this lock").push((case, began.elapsed()));
        #[cfg(feature = "servers")]
        if let Err(why) = &outcome {
            let what = format!("{}: {}::{}", setting.harness.name(), case.topic, case.name);
            crate::servers::record::failed(&what, why);
        }
        outcome.map_err(Failed::from)
    })
}

/// The judge of all suites of this program.
static JUDGE: Judge = Judge::new();

fn note_again(case: &Case, setting: &Setting, why: &Again) {
    why.note(&format!("{}: {}::{}", setting.harness.name(), case.topic, case.name));
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
    panics.judge(played.and(ended))
}

/// Runs the body of a case. The error says why it failed.
async fn play(case: &'static Case, setting: Setting) -> Result<(), Failure> {
    // In a task: the thread that calls `block_on` would see wake-ups in another order than users do.
    let body = tokio::spawn((case.run)(setting));
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

pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    block_on_and_end("beside the cases", future).0
}

/// Also returns whether everything that was left in the runtime could be ended. A task that waits for something can be
/// ended; one that blocks a thread cannot.
fn block_on_and_end<T>(threads: &str, future: impl Future<Output = T>) -> (T, Result<(), Failure>) {
    const LONGEST: Duration = Duration::from_secs(3);
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).thread_name(threads).enable_all().build();
    let runtime = runtime.expect("the machine has room for two threads");
    let out = runtime.block_on(future);
    let asked = Instant::now();
    runtime.shutdown_timeout(LONGEST);
    let hangs = asked.elapsed() >= LONGEST;
    let ended = match hangs {
        true => Err(Failure::Wrong(format!("what it left behind has not ended after {LONGEST:?}"))),
        false => Ok(()),
    };
    (out, ended)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_keeps_a_thread_is_noticed_and_what_waits_is_not() {
        let waits = async {
            drop(tokio::spawn(std::future::pending::<()>()));
        };
        assert_eq!(block_on_and_end("waits", waits).1, Ok(()));
        let keeps = async {
            drop(tokio::spawn(async { std::thread::sleep(Duration::from_secs(5)) }));
            tokio::time::sleep(Duration::from_millis(50)).await;
        };
        assert!(block_on_and_end("keeps", keeps).1.is_err());
    }
}
