//! The runtime of claims and connections: the one that opened the client, or a thread of their own. In both
//! cases it belongs to the process that opened the client, and not to a fork of it.

mod lacking;
mod run_to_completion;
mod suspend;
mod task_count;
mod waiting;

use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::{self, ThreadId};
use std::time::Duration;

use futures_util::FutureExt;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

use crate::clock::Clock;
use crate::error::{Effect, Error, Result};
use crate::process::Process;

pub(crate) use lacking::lacking;
pub(crate) use run_to_completion::{Caller, RunToCompletion};
pub(crate) use suspend::SuspendWatch;
pub(crate) use task_count::{CountedTask, TaskCount};
pub(crate) use waiting::Unanswered;

/// The time for which the drop of a dedicated client's last handle waits for pending releases.
const LAST_WAIT: Duration = Duration::from_secs(1);

/// The runtime of a client's claims. That of a dedicated client waits for pending releases when it is
/// dropped.
#[derive(Debug)]
pub(crate) struct RuntimeHandle {
    handle: Handle,
    task_count: Arc<TaskCount>,
    thread: Option<Thread>,
    process: Process,
}

#[derive(Debug)]
struct Thread {
    id: ThreadId,
    stop: Option<oneshot::Sender<()>>,
    ended: Mutex<mpsc::Receiver<()>>,
}

impl RuntimeHandle {
    /// Uses the caller's runtime: the fast path needs no hop to another thread.
    ///
    /// # Errors
    ///
    /// `Invalid` outside of a runtime, and in one that lacks the timers which `clock` needs.
    pub(crate) fn current(clock: &Clock) -> Result<RuntimeHandle> {
        let handle = Handle::try_current().map_err(|e| {
            Error::invalid(
                "there is no tokio runtime here: open the client inside one, or with a thread of its own (dedicated)",
            )
            .with_source(e)
        })?;
        lacking::must_have_timers(clock)?;
        Ok(RuntimeHandle { handle, task_count: Arc::default(), thread: None, process: Process::this() })
    }

    /// Starts a thread with a runtime of its own: leases survive a stalled application executor.
    pub(crate) fn dedicated(clock: Clock) -> Result<RuntimeHandle> {
        let failed = |e: std::io::Error| {
            Error::rejected(format!("the client's own thread could not be started: {e}")).with_source(e)
        };
        let runtime = Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let handle = runtime.handle().clone();
        let task_count = Arc::new(TaskCount::default());
        let (stop, stopped) = oneshot::channel();
        let (ending, ended) = mpsc::channel();
        let open_claims = task_count.clone();
        let thread = thread::Builder::new()
            .name("lock-keeper".into())
            .spawn(move || {
                runtime.block_on(async {
                    let _: Result<(), _> = stopped.await;
                    clock.timeout(LAST_WAIT, open_claims.wait_until_empty()).await;
                });
                runtime.shutdown_background();
                drop(ending);
            })
            .map_err(failed)?;
        let thread = Thread { id: thread.thread().id(), stop: Some(stop), ended: Mutex::new(ended) };
        Ok(RuntimeHandle { handle, task_count, thread: Some(thread), process: Process::this() })
    }

    /// Returns the process that opened the client.
    pub(crate) fn process(&self) -> Process {
        self.process
    }

    /// Returns whether this process is a fork of the one that opened the client. In a fork nothing keeps the claims
    /// alive, and they must not be asked for or released here.
    pub(crate) fn is_inherited(&self) -> bool {
        self.process.is_another()
    }

    /// Returns an error in a fork.
    pub(crate) fn is_here(&self) -> Result<()> {
        if self.is_inherited() { Err(inherited()) } else { Ok(()) }
    }

    /// Returns where the present caller runs.
    pub(crate) fn caller(&self) -> Caller {
        match &self.thread {
            None => Caller::of(&self.handle),
            // A client with its own thread must not depend on the application's executor.
            Some(_) => Caller::Elsewhere,
        }
    }

    /// Runs `work` on this runtime and returns its result. Gives up if the runtime stands still for `patience`: work that
    /// has not begun by then is not done later.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        clock: &Clock,
        patience: Duration,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        self.is_here()?;
        let work = Arc::new(Mutex::new(Some(Box::pin(work))));
        let take = |work: &Mutex<Option<_>>| work.lock().unwrap_or_else(PoisonError::into_inner).take();
        let to_begin = work.clone();
        let task = self.handle.spawn(async move {
            match take(&to_begin) {
                Some(work) => work.await,
                None => Err(runtime_ended()), // its caller has given up: no caller reads this
            }
        });
        match self.answer(clock, patience, task).await {
            Ok(done) => done.map_err(|e| match e.try_into_panic() {
                Ok(panic) => lacking(&*panic).unwrap_or_else(panicked),
                Err(e) => runtime_ended().with_source(e),
            })?,
            Err(why @ Unanswered::StandsStill) if take(&work).is_none() => {
                Err(self.unanswered(why, Effect::Unknown))
            }
            Err(why) => Err(self.unanswered(why, Effect::NotApplied)),
        }
    }

    /// Blocks this thread until `future` is done. Panics inside async code.
    #[track_caller]
    pub(crate) fn wait_for<F: Future>(&self, future: F) -> F::Output {
        // In a fork each call has its answer at once. It must not enter the parent's runtime.
        let mut future = pin!(future);
        if self.is_inherited()
            && let Some(answer) = future.as_mut().now_or_never()
        {
            return answer;
        }
        self.handle.block_on(future)
    }

    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }

    pub(crate) fn task_count(&self) -> &Arc<TaskCount> {
        &self.task_count
    }
}

impl Drop for RuntimeHandle {
    fn drop(&mut self) {
        let Some(thread) = &mut self.thread else { return };
        if self.process.is_another() {
            return; // a fork does not have the thread
        }
        drop(thread.stop.take());
        // The client's own thread must not wait for itself.
        if thread::current().id() != thread.id {
            let ended = thread.ended.get_mut().unwrap_or_else(PoisonError::into_inner);
            let _: Result<(), _> = ended.recv_timeout(LAST_WAIT + LAST_WAIT / 10);
        }
    }
}

/// The error for a caller of a client whose runtime has ended.
pub(crate) fn runtime_ended() -> Error {
    Error::unavailable(
        Effect::NotApplied,
        "the runtime that this client was opened on has ended; open the client on the runtime that uses it, or dedicated",
    )
}

/// The error for a caller of a driver that panicked. The panic's message may hold the server's address, with a password.
fn panicked() -> Error {
    Error::unavailable(Effect::Unknown, "the backend panicked, which is a bug")
}

/// The error for a caller in a fork of the process that opened the client.
fn inherited() -> Error {
    Error::unavailable(
        Effect::NotApplied,
        "this process is a fork of the one that opened this client; open another client in this process",
    )
}
