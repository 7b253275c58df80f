//! Why a test failed, and what else of it failed. A panic is noted in every thread of the test.

use std::any::Any;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, Once, PoisonError};

/// Why a test failed. A test panics with it if it is not wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Failure {
    /// It is wrong whenever it happens, whatever the machine did meanwhile.
    #[error("{0}")]
    Wrong(String),
    /// Something took too long, and nothing else is wrong.
    #[error("too late: {0}")]
    Late(String),
    /// The event that it tests has not happened.
    #[error("void: {0}")]
    Void(String),
}

impl Failure {
    /// Returns the failure that a panic stands for.
    pub(crate) fn of(payload: &(dyn Any + Send)) -> Failure {
        if let Some(failure) = payload.downcast_ref::<Failure>() {
            return failure.clone();
        }
        let text = payload.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| payload.downcast_ref::<&str>().copied());
        Failure::Wrong(text.unwrap_or("it panicked").to_owned())
    }

    pub(crate) fn wrong(what: impl Into<String>) -> Failure {
        Failure::Wrong(what.into())
    }
}

/// Returns how a test fails, if it does.
#[cfg(test)]
pub(crate) fn of_test(test: impl FnOnce()) -> Option<Failure> {
    let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(test));
    ended.err().map(|panic| Failure::of(&*panic))
}

/// The panics of one test, in all threads that have its name. They include those of tasks that the test doesn't wait
/// for. A panic that was late does not hide another one that is wrong.
#[derive(Debug)]
pub(crate) struct Panics {
    threads: String,
}

/// By the name of the threads.
static NOTED: Mutex<Option<HashMap<String, Noted>>> = Mutex::new(None);

#[derive(Debug, Default)]
struct Noted {
    failures: Vec<Failure>,
    /// True if the test's runtime is being shut down. A library's task may then miss another task that was ended before
    /// it, and panic. That says nothing about the test. A panic of the workspace's own code counts as before.
    ending: bool,
}

impl Panics {
    /// Watches threads that have not been started yet.
    pub(crate) fn watch() -> Panics {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        hook();
        let threads = format!("test {}", NEXT.fetch_add(1, Ordering::Relaxed));
        with_noted(|noted| noted.insert(threads.clone(), Noted::default()));
        Panics { threads }
    }

    /// Returns the name that the test's threads must have.
    pub(crate) fn threads(&self) -> &str {
        &self.threads
    }

    /// Notes that the test has come to its end, and that its remaining tasks are ended now.
    pub(crate) fn ending(&self) {
        with_noted(|noted| noted.get_mut(&self.threads).map(|noted| noted.ending = true));
    }

    /// Returns the worst of the test's own outcome and all of its panics.
    pub(crate) fn judge<T>(self, outcome: Result<T, Failure>) -> Result<T, Failure> {
        let noted = with_noted(|noted| noted.get_mut(&self.threads).map(std::mem::take)).unwrap_or_default();
        let worse = noted.failures.into_iter().filter(|failure| match (&outcome, failure) {
            (Ok(_), _) => true,
            (Err(Failure::Wrong(_)), _) => false,
            (Err(_), failure) => matches!(failure, Failure::Wrong(_)),
        });
        match worse.reduce(|worst, other| if matches!(worst, Failure::Wrong(_)) { worst } else { other }) {
            Some(worse) => Err(worse),
            None => outcome,
        }
    }
}

impl Drop for Panics {
    fn drop(&mut self) {
        with_noted(|noted| noted.remove(&self.threads));
    }
}

impl Noted {
    fn note(&mut self, failure: &Failure, is_ours: bool) {
        if is_ours || !self.ending {
            self.failures.push(failure.clone());
        }
    }
}

/// Cargo names files of the workspace by their path from its root, and those of other packages by an absolute path.
fn is_of_this_workspace(file: &str) -> bool {
    !std::path::Path::new(file).is_absolute()
}

fn with_noted<T>(work: impl FnOnce(&mut HashMap<String, Noted>) -> T) -> T {
    work(NOTED.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default())
}

/// Notes each panic of a watched thread. Prints a payload that is no text as text.
fn hook() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let print = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let failure = Failure::of(panic.payload());
            let is_ours = panic.location().is_none_or(|at| is_of_this_workspace(at.file()));
            if let Some(thread) = std::thread::current().name() {
                with_noted(|noted| noted.get_mut(thread).map(|noted| noted.note(&failure, is_ours)));
            }
            match (failure, panic.location()) {
                (Failure::Wrong(_), _) | (_, None) => print(panic),
                (failure, Some(at)) => eprintln!("at {at}: {failure}"),
            }
        }));
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn late() -> Failure {
        Failure::Late("an answer".to_owned())
    }

    fn in_its_thread(panics: &Panics, work: impl FnOnce() + Send + 'static) -> Option<Failure> {
        let thread = std::thread::Builder::new().name(panics.threads().to_owned()).spawn(work);
        thread.expect("there is room for a thread").join().err().map(|panic| Failure::of(&*panic))
    }

    #[test]
    fn wrong_counts_more_than_late() {
        let panics = Panics::watch();
        assert_eq!(in_its_thread(&panics, || std::panic::panic_any(late())), Some(late()));
        in_its_thread(&panics, || panic!("two at a time"));
        let judged = panics.judge(Err::<(), _>(late()));
        assert_eq!(judged, Err(Failure::wrong("two at a time")));
    }

    #[test]
    fn a_task_that_no_test_waits_for_fails_it() {
        let (panics, others) = (Panics::watch(), Panics::watch());
        in_its_thread(&panics, || std::panic::panic_any(late()));
        assert_eq!(panics.judge(Ok(())), Err(late()));
        assert_eq!(others.judge(Ok(())), Ok(()), "it is another test's");
    }

    #[test]
    fn library_panics_at_a_runtimes_end_do_not_count() {
        let (ours, theirs) = (file!(), "/home/user/.cargo/registry/src/index/driver-1.0.0/src/pool.rs");
        for (file, ending, counts) in
            [(ours, false, 1), (ours, true, 1), (theirs, false, 1), (theirs, true, 0)]
        {
            let mut noted = Noted { failures: Vec::new(), ending };
            noted.note(&Failure::wrong("the other half has gone"), is_of_this_workspace(file));
            assert_eq!(noted.failures.len(), counts, "{file}, {ending}");
        }
        let panics = Panics::watch();
        panics.ending();
        in_its_thread(&panics, || panic!("two at a time"));
        assert_eq!(panics.judge(Ok(())), Err(Failure::wrong("two at a time")));
    }
}
