//! A future that always runs to completion. Its caller polls it while it waits for it, so that no thread has to wake
//! another one for an answer. At all other times tasks on the client's home poll it, one task each time it is woken.
//!
//! `docs/decisions/0002` says why a claim's life is run like this and not as a task: two hand-overs between tasks cost
//! more than a third of a round trip to a server on the same machine.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::mem;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;

type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Work that runs to completion even if its caller goes away.
pub(crate) struct RunToCompletion {
    runtime: Handle,
    state: Mutex<State>,
}

struct State {
    stage: Stage,
    /// The work has something to do.
    woken: bool,
    poller: Poller,
    /// A spawned task is going to poll the work.
    scheduled: bool,
}

enum Stage {
    Idle(Work),
    /// A caller or a task is polling it, or its poll has panicked.
    Running,
    Over,
}

/// The caller that is woken when the work has something to do. Without one, a task is spawned.
enum Poller {
    /// No caller: a spawned task polls the work.
    NoCaller,
    /// A caller is about to poll.
    Coming,
    /// The caller polls the work while it waits.
    Here(Waker),
}

/// The place where a caller runs.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Caller {
    /// On the client's own runtime.
    Here,
    /// On another runtime, or on none.
    Elsewhere,
}

impl Caller {
    /// Returns whether the caller runs on the client's runtime. Has to be called before another runtime is entered.
    pub(crate) fn of(runtime: &Handle) -> Caller {
        match Handle::try_current() {
            Ok(current) if current.id() == runtime.id() => Caller::Here,
            _ => Caller::Elsewhere,
        }
    }
}

/// The work has ended without an answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gone;

impl RunToCompletion {
    /// Makes work that has not begun. The caller has to wait for its answer or wake it.
    pub(crate) fn new(
        runtime: &Handle,
        work: impl Future<Output = ()> + Send + 'static,
    ) -> Arc<RunToCompletion> {
        let stage = Stage::Idle(Box::pin(work));
        let state = State { stage, woken: true, poller: Poller::NoCaller, scheduled: false };
        Arc::new(RunToCompletion { runtime: runtime.clone(), state: Mutex::new(state) })
    }

    /// Waits for what the work sends to `answer`; returns `Gone` if it never will. If this future is dropped, the work
    /// goes on.
    ///
    /// A caller on the client's own runtime polls the work itself. `ask` makes the work answer, if waiting alone does
    /// not.
    pub(crate) async fn answer<T>(
        self: &Arc<Self>,
        caller: Caller,
        ask: impl FnOnce(),
        answer: oneshot::Receiver<T>,
    ) -> Result<T, Gone> {
        match caller {
            Caller::Here => {
                let attending = self.start_polling();
                ask();
                attending.answer(answer).await
            }
            Caller::Elsewhere => {
                ask();
                self.wake_by_ref();
                answer.await.map_err(|_| Gone)
            }
        }
    }

    fn start_polling(self: &Arc<Self>) -> Polling {
        self.state().poller = Poller::Coming;
        Polling(self.clone())
    }

    /// Polls the work if it has something to do, unless it is being polled.
    fn work(self: &Arc<Self>) {
        let mut state = self.state();
        if !state.woken {
            return;
        }
        let mut work = match mem::replace(&mut state.stage, Stage::Running) {
            Stage::Idle(work) => work,
            stage => return state.stage = stage,
        };
        state.woken = false;
        drop(state);
        let waker = Waker::from(self.clone());
        let poll = work.as_mut().poll(&mut Context::from_waker(&waker));
        let (stage, over) = match poll {
            Poll::Pending => (Stage::Idle(work), None),
            Poll::Ready(()) => (Stage::Over, Some(work)),
        };
        let mut state = self.state();
        state.stage = stage;
        if let (true, Poller::Here(poller)) = (state.woken, &state.poller) {
            poller.wake_by_ref();
        }
        drop(state);
        // Dropped outside of the lock, because what the work owned may wake a task.
        drop(over);
    }

    fn schedule(self: &Arc<Self>, mut state: MutexGuard<'_, State>) {
        let due = state.woken && !state.scheduled && matches!(state.stage, Stage::Idle(_));
        if due && matches!(state.poller, Poller::NoCaller) {
            state.scheduled = true;
            drop(state);
            self.runtime.spawn(PollTask { future: self.clone(), over: false });
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // The work is not polled under this lock, and nothing else panics under it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wake for RunToCompletion {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let mut state = self.state();
        state.woken = true;
        match &state.poller {
            Poller::Here(poller) => poller.wake_by_ref(),
            Poller::Coming => {}
            Poller::NoCaller => self.schedule(state),
        }
    }
}

impl fmt::Debug for RunToCompletion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RunToCompletion")
    }
}

/// A caller that polls the work itself while it waits.
struct Polling(Arc<RunToCompletion>);

impl Polling {
    async fn answer<T>(self, mut answer: oneshot::Receiver<T>) -> Result<T, Gone> {
        poll_fn(|context| {
            let elsewhere = self.work(context);
            match answer.try_recv() {
                Ok(answer) => Poll::Ready(Ok(answer)),
                Err(TryRecvError::Closed) => Poll::Ready(Err(Gone)),
                Err(TryRecvError::Empty) if elsewhere => {
                    Pin::new(&mut answer).poll(context).map_err(|_| Gone)
                }
                // `answer` is not polled here: the caller's own poll of the work sends it, and would wake the caller
                // for nothing.
                Err(TryRecvError::Empty) => Poll::Pending,
            }
        })
        .await
    }

    /// Polls the work if it has something to do. Returns whether another caller or task is polling it.
    fn work(&self, context: &mut Context<'_>) -> bool {
        let mut state = self.0.state();
        match &state.poller {
            Poller::Here(known) if known.will_wake(context.waker()) => {}
            _ => state.poller = Poller::Here(context.waker().clone()),
        }
        drop(state);
        self.0.work();
        matches!(self.0.state().stage, Stage::Running)
    }
}

impl Drop for Polling {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.poller = Poller::NoCaller;
        self.0.schedule(state);
    }
}

/// A spawned task that polls the work until it has nothing to do, or until a caller does it again.
struct PollTask {
    future: Arc<RunToCompletion>,
    /// The task has ended. Another one may have been spawned since.
    over: bool,
}

impl Future for PollTask {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if matches!(self.future.state().poller, Poller::NoCaller) {
            self.future.work();
        }
        let mut state = self.future.state();
        if state.woken && matches!((&state.poller, &state.stage), (Poller::NoCaller, Stage::Idle(_))) {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        state.scheduled = false;
        drop(state);
        self.over = true;
        Poll::Ready(())
    }
}

impl Drop for PollTask {
    fn drop(&mut self) {
        if self.over {
            return;
        }
        // The runtime has ended, and the work with it. A caller that waits for the work learns it from what the work
        // owned.
        let mut state = self.future.state();
        let left = match mem::replace(&mut state.stage, Stage::Over) {
            Stage::Running => mem::replace(&mut state.stage, Stage::Running),
            left => left,
        };
        drop(state);
        drop_in_a_row(left);
    }
}

thread_local! {
    /// The work that this thread still has to drop, while it drops the work that a runtime has left.
    static ROW: RefCell<Option<VecDeque<Stage>>> = const { RefCell::new(None) };
}

/// Drops work that its runtime has left. That may wake other work of the same runtime, which is then left, too: of a
/// thousand waiters each would be dropped inside of the one before it, until the stack is full. So they are dropped one
/// after the other.
fn drop_in_a_row(left: Stage) {
    /// Ends the row, also if a drop panics.
    struct End;
    impl Drop for End {
        fn drop(&mut self) {
            drop(ROW.take());
        }
    }
    // A thread that is ending has no row any more: `left` is then dropped here.
    let is_first = ROW.try_with(|row| {
        let mut row = row.borrow_mut();
        let is_first = row.is_none();
        row.get_or_insert_default().push_back(left);
        is_first
    });
    if is_first == Ok(true) {
        let _end = End;
        while let Some(next) = ROW.with_borrow_mut(|row| row.as_mut()?.pop_front()) {
            drop(next);
        }
    }
}

#[cfg(test)]
mod tests;
