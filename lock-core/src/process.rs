//! The process to which a client belongs. A fork has a copy of everything but the threads, and must not use any of it.

use std::fmt;
use std::mem;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use crate::error::{Error, Result};
use crate::os;

/// The process that opened a client, by its id.
#[derive(Clone, Copy, Debug)]
pub struct Process(u32);

impl Process {
    /// Returns the current process.
    pub fn this() -> Process {
        Process(os::process())
    }

    /// Returns whether the current process is another one, that is, a fork. What the client has opened is then a copy,
    /// which owns nothing, and nothing must be sent for it.
    pub fn is_another(self) -> bool {
        self.0 != os::process()
    }

    /// Checks that no parent of this process has used what `first` stands for: a client crate with state that a fork can't use,
    /// such as threads, which it has not got, or mutexes, which threads of its parent held.
    ///
    /// # Errors
    ///
    /// `Unsupported` in a fork, with `why`.
    pub fn must_be_first(first: &OnceLock<Process>, why: &str) -> Result<()> {
        match first.get_or_init(Process::this).is_another() {
            false => Ok(()),
            true => Err(Error::unsupported(format!(
                "this process is a fork of one that has opened such a client, and can't open one: {why}; start a program \
                 instead (exec), or fork before the first client is opened"
            ))),
        }
    }

    /// Resolves in this process, and never in a fork that goes on with a copy of its runtime. Has to be awaited before
    /// every request to the server.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn only(self) {
        if self.is_another() {
            std::future::pending::<()>().await;
        }
    }

    /// Returns a process that is not the current one.
    #[cfg(test)]
    pub(crate) fn another() -> Process {
        Process(!os::process())
    }
}

/// A value that each process has for itself: a fork begins with a new one. Meant for a driver's statics, which may have a
/// mutex that a thread of the parent held at the fork: it stays locked in the child.
///
/// ```
/// use std::sync::Mutex;
///
/// use lock_core::toolkit::PerProcess;
///
/// static OPEN: PerProcess<Mutex<Vec<String>>> = PerProcess::new();
///
/// OPEN.get().lock().unwrap().push("a file".to_owned());
/// ```
#[derive(Debug, Default)]
pub struct PerProcess<T> {
    value: OnceLock<(Process, T)>,
    of_forks: OnceLock<Box<PerProcess<T>>>,
}

impl<T: Default> PerProcess<T> {
    /// Has no value before it is asked for it.
    pub const fn new() -> PerProcess<T> {
        PerProcess { value: OnceLock::new(), of_forks: OnceLock::new() }
    }

    /// Returns the current process's value.
    pub fn get(&self) -> &T {
        let (process, value) = self.value.get_or_init(|| (Process::this(), T::default()));
        match process.is_another() {
            false => value,
            true => self.of_forks.get_or_init(Box::default).get(),
        }
    }
}

/// The state that the client, its locks and its guards share. A fork never drops the last reference to it: that could
/// wait for a lock which a thread of the parent holds, or end what the parent still uses.
pub(crate) struct Shares<T> {
    process: Process,
    value: Arc<T>,
}

impl<T> Shares<T> {
    /// Shares a value of this process.
    pub(crate) fn new(value: T) -> Shares<T> {
        Shares { process: Process::this(), value: Arc::new(value) }
    }

    /// Returns whether the current process is a fork of the one that has made the value.
    pub(crate) fn is_inherited(&self) -> bool {
        self.process.is_another()
    }
}

impl<T> Clone for Shares<T> {
    fn clone(&self) -> Shares<T> {
        Shares { process: self.process, value: self.value.clone() }
    }
}

impl<T> Deref for Shares<T> {
    type Target = Arc<T>;

    fn deref(&self) -> &Arc<T> {
        &self.value
    }
}

impl<T> Drop for Shares<T> {
    fn drop(&mut self) {
        if self.is_inherited() {
            mem::forget(self.value.clone());
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for Shares<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value.fmt(f)
    }
}

/// A boxed future of one process. A fork neither polls it nor drops it: there it is ready, with `None`.
pub(crate) struct OnlyHere<F> {
    process: Process,
    /// `None` once it is done.
    future: Option<Pin<Box<F>>>,
}

impl<F: Future> OnlyHere<F> {
    pub(crate) fn new(process: Process, future: F) -> OnlyHere<F> {
        OnlyHere { process, future: Some(Box::pin(future)) }
    }
}

impl<F: Future> Future for OnlyHere<F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<F::Output>> {
        if self.process.is_another() {
            return Poll::Ready(None);
        }
        let Some(future) = &mut self.future else { return Poll::Ready(None) };
        let poll = future.as_mut().poll(context);
        if poll.is_ready() {
            self.future = None;
        }
        poll.map(Some)
    }
}

impl<F> Drop for OnlyHere<F> {
    fn drop(&mut self) {
        if self.future.is_some() && self.process.is_another() {
            mem::forget(self.future.take());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use futures_util::FutureExt;

    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn a_fork_has_a_value_of_its_own() {
        let of_parent = PerProcess::<Mutex<u8>>::new();
        assert!(of_parent.value.set((Process::another(), Mutex::new(1))).is_ok());
        let _held_for_ever = of_parent.value.get().unwrap().1.lock().unwrap();
        *of_parent.get().lock().unwrap() = 2;
        assert_eq!(*of_parent.get().lock().unwrap(), 2);
        let fresh = PerProcess::<Mutex<u8>>::new();
        *fresh.get().lock().unwrap() = 3;
        assert_eq!(*fresh.get().lock().unwrap(), 3);
    }

    #[test]
    fn a_fork_drops_nothing_that_it_has_inherited() {
        let (value, process) = (Arc::new(()), Process::this());
        for (process, dropped) in [(process, true), (Process::another(), false)] {
            let is_dropped = |value: &Arc<()>| Arc::strong_count(value) == 1;
            let mut shares = Shares::new(value.clone());
            shares.process = process;
            drop(shares.clone());
            assert!(!is_dropped(&value));
            drop(shares);
            assert_eq!(is_dropped(&value), dropped);
            if !dropped {
                continue;
            }
            let kept = value.clone();
            drop(OnlyHere::new(process, async move { drop(kept) }));
            assert!(is_dropped(&value));
        }
        let kept = Arc::new(());
        let held = kept.clone();
        let mut forked = OnlyHere::new(Process::another(), async move { drop(held) });
        assert_eq!((&mut forked).now_or_never(), Some(None), "a fork does not poll it");
        drop(forked);
        assert_eq!(Arc::strong_count(&kept), 2);
    }

    #[test]
    fn a_fork_opens_nothing_beside_its_parent() {
        let (ours, parents) = (OnceLock::new(), OnceLock::from(Process::another()));
        assert!(Process::must_be_first(&ours, "").is_ok() && Process::must_be_first(&ours, "").is_ok());
        let error = Process::must_be_first(&parents, "it has no thread").unwrap_err();
        assert!(
            error.kind() == ErrorKind::Unsupported && error.message().contains("it has no thread"),
            "{error}"
        );
    }

    #[test]
    fn this_process_goes_on_and_a_fork_does_not() {
        assert!(!Process::this().is_another() && Process::this().only().now_or_never().is_some());
        assert!(Process::another().is_another() && Process::another().only().now_or_never().is_none());
    }
}
