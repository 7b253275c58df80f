//! A backend's own tests of what is particular to one server, on real servers. They run beside the suite, in a program
//! of their own (`harness = false`).

use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use libtest_mimic::{Completion, Failed, Trial};

use crate::failure::{Failure, Panics};
use crate::lateness::{Load, judge};
use crate::record;
pub use crate::runtime::block_on;
use crate::selection::Selection;
use crate::verdict::Verdict;

/// `rules! { fn(); module { test, … } … }` makes `tests()`, which lists `("module::test", module::test)`. The type is
/// that of all tests.
#[macro_export]
macro_rules! rules {
    ($type:ty; $($(#[$attribute:meta])? $module:ident { $($test:ident,)+ })+) => {
        fn tests() -> Vec<(&'static str, $type)> {
            let mut tests: Vec<(&'static str, $type)> = Vec::new();
            $($(#[$attribute])? tests.extend([$(
                (concat!(stringify!($module), "::", stringify!($test)), $module::$test as $type)
            ),+]);)+
            tests
        }
    };
}

/// A test hangs if it takes longer than this, which is more than any of its own limits. The other tests are reported
/// all the same.
const LONGEST: Duration = Duration::from_secs(120);

/// The return value of a test that doesn't panic.
pub trait Outcome {
    /// Returns whether the test was run.
    ///
    /// # Errors
    ///
    /// The reason, if it could not be run.
    fn ran(self) -> Result<(), String>;
}

impl Outcome for () {
    fn ran(self) -> Result<(), String> {
        Ok(())
    }
}

impl Outcome for Result<(), String> {
    fn ran(self) -> Result<(), String> {
        self
    }
}

/// Runs tests with the arguments of `cargo test`, so many at a time.
pub fn run(tests: Vec<Trial>, at_once: usize) -> Verdict {
    let selection = Selection::from_args();
    let mut arguments = selection.arguments.clone();
    arguments.test_threads = Some(at_once);
    match libtest_mimic::run(&arguments, selection.of(tests)).has_failed() {
        true => Verdict::Failed,
        false => Verdict::Passed,
    }
}

/// Returns the tests for `libtest_mimic`, each of which is *not run* for this reason. `of` is what they test.
pub fn not_run<N: Into<String>, T>(
    of: &str,
    why: &str,
    tests: impl IntoIterator<Item = (N, T)>,
) -> Vec<Trial> {
    record::not_run(&rules_of(of), why);
    let not_run = |(test, _)| {
        let why = why.to_owned();
        Trial::ignorable_test(test, move || Ok(Completion::ignored_with(why)))
    };
    tests.into_iter().map(not_run).collect()
}

/// Returns the only test of `of` where its tests could not be run although they were required: it fails for this
/// reason.
pub fn failed(of: &str, why: String) -> Vec<Trial> {
    vec![Trial::test(rules_of(of), || Err(Failed::from(why)))]
}

fn rules_of(of: &str) -> String {
    format!("the rules of {of}")
}

/// Returns the tests of `of` for `libtest_mimic`. A test that was too late beside others is run again alone.
pub fn judged<N, T, O: Outcome>(of: &'static str, tests: impl IntoIterator<Item = (N, T)>) -> Vec<Trial>
where
    N: Into<String>,
    T: Fn() -> O + Clone + Send + 'static,
{
    #[cfg(unix)]
    crate::signals::pass_on();
    let trial = |(name, test): (N, T)| {
        let name = name.into();
        let what = format!("{of}: {name}");
        Trial::ignorable_test(name, move || {
            let ran = judge(Load::Light, &what, || in_time(test.clone()));
            let ran = ran.inspect_err(|why| record::failed(&what, why))?;
            if let Completion::Ignored { reason: Some(why) } = &ran {
                record::not_run(&what, why);
            }
            Ok(ran)
        })
    };
    tests.into_iter().map(trial).collect()
}

/// Runs a test on a thread that is left behind if the test hangs. The error says why it failed.
fn in_time<O: Outcome>(test: impl FnOnce() -> O + Send + 'static) -> Result<Completion, Failure> {
    let panics = Panics::watch();
    let (told, ended) = mpsc::channel();
    let thread = thread::Builder::new().name(panics.threads().to_owned()).spawn(move || {
        let ran = test().ran().map_or_else(Completion::ignored_with, |()| Completion::Completed);
        // The receiver has gone if the test has hung.
        let _: Result<(), _> = told.send(ran);
    });
    let thread = thread.expect("the machine has room for a thread");
    let outcome = match ended.recv_timeout(LONGEST) {
        Ok(ran) => Ok(ran),
        Err(RecvTimeoutError::Timeout) => {
            Err(Failure::Wrong(format!("it hangs: not done after {LONGEST:?}")))
        }
        Err(RecvTimeoutError::Disconnected) => match thread.join() {
            Err(panic) => Err(Failure::of(&*panic)),
            Ok(()) => Err(Failure::wrong("it ended without a result")),
        },
    };
    panics.judge(outcome)
}
