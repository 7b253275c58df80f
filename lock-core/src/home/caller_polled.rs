//! A future that always runs to completion. Its caller polls it while it waits for it, so that no thread has to wake
//! another one for an answer. At all other times tasks on the client's home poll it, one task each time it is woken.
//!
//! `docs/decisions/0002` says why a claim's life is run like this and not as a task: two hand-overs between tasks cost
//! more than a third of a round trip to a server on the same machine.

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
pub(crate) struct CallerPolled {
    home: Handle,
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
    /// This caller polls the work while it waits.
    Here(Waker),
}

/// Where a caller runs.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Caller {
    /// On the client's own runtime.
    Here,
    /// On another runtime, or on none.
    Elsewhere,
}

impl Caller {
    /// Returns whether the caller runs on the client's runtime. Has to be called before another runtime is entered.
    pub(crate) fn of(home: &Handle) -> Caller {
        match Handle::try_current() {
            Ok(current) if current.id() == home.id() => Caller::Here,
            _ => Caller::Elsewhere,
        }
    }
}

/// The work has ended without an answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gone;

impl CallerPolled {
    /// Makes work that has not begun. The caller has to wait for its answer or wake it.
    pub(crate) fn new(home: &Handle, work: impl Future<Output = ()> + Send + 'static) -> Arc<CallerPolled> {
        let stage = Stage::Idle(Box::pin(work));
        let state = State { stage, woken: true, poller: Poller::NoCaller, scheduled: false };
        Arc::new(CallerPolled { home: home.clone(), state: Mutex::new(state) })
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
            self.home.spawn(PollTask { future: self.clone(), over: false });
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // The work is not polled under this lock, and nothing else panics under it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wake for CallerPolled {
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

impl fmt::Debug for CallerPolled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CallerPolled")
    }
}

/// A caller that polls the work itself while it waits.
struct Polling(Arc<CallerPolled>);

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
    future: Arc<CallerPolled>,
    /// This task has ended. Another one may have been spawned since.
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
        drop(left);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::sync::mpsc;

    use super::*;
    use crate::clock::Clock;

    /// Answers each question, after a few yields.
    async fn echo(mut questions: mpsc::UnboundedReceiver<(u32, oneshot::Sender<u32>)>) {
        while let Some((question, reply)) = questions.recv().await {
            for _ in 0..question % 3 {
                tokio::task::yield_now().await;
            }
            let _: Result<(), u32> = reply.send(question);
        }
    }

    async fn ask(
        future: &Arc<CallerPolled>,
        questions: &mpsc::UnboundedSender<(u32, oneshot::Sender<u32>)>,
        n: u32,
    ) -> u32 {
        let (reply, answer) = oneshot::channel();
        let send = || questions.send((n, reply)).map_err(drop).unwrap();
        future.answer(Caller::Here, send, answer).await.unwrap()
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn every_question_is_answered_whether_a_caller_or_a_task_polls() {
        let mut askers = tokio::task::JoinSet::new();
        for _ in 0..8 {
            askers.spawn(async {
                let (questions, asked) = mpsc::unbounded_channel();
                let future = CallerPolled::new(&Handle::current(), echo(asked));
                for n in 0..5000 {
                    if n % 7 == 0 {
                        // Asked and left: a spawned task polls the work, while the next caller already attends.
                        let _: Option<u32> =
                            Clock::system().timeout(Duration::ZERO, ask(&future, &questions, n)).await;
                    }
                    assert_eq!(ask(&future, &questions, n).await, n);
                }
            });
        }
        let done = async { while askers.join_next().await.transpose().unwrap().is_some() {} };
        Clock::system().timeout(Duration::from_secs(30), done).await.expect("no wake-up is lost");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn work_that_its_caller_leaves_goes_on() {
        for polls in 1..6 {
            let (done, told) = oneshot::channel();
            let (reply, answer) = oneshot::channel::<()>();
            let future = CallerPolled::new(&Handle::current(), async move {
                for _ in 0..4 {
                    tokio::task::yield_now().await;
                }
                let _: Result<(), ()> = reply.send(());
                Clock::system().sleep(Duration::from_millis(5)).await;
                done.send(()).unwrap();
            });
            let mut asking = Box::pin(future.answer(Caller::Here, || (), answer));
            for _ in 0..polls {
                let poll = poll_fn(|context| Poll::Ready(asking.as_mut().poll(context))).await;
                if poll.is_ready() {
                    break;
                }
            }
            drop(asking);
            Clock::system().timeout(Duration::from_secs(5), told).await.expect("it goes on").unwrap();
        }
    }

    /// A question that comes between the end of a visit and the drop of its task must not be taken for the end of the
    /// runtime.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_visit_that_ends_does_not_end_the_work() {
        let (questions, asked) = mpsc::unbounded_channel();
        let future = CallerPolled::new(&Handle::current(), echo(asked));
        future.wake_by_ref();
        let asker = std::thread::spawn(move || {
            for n in 0..200_000 {
                let (reply, mut answer) = oneshot::channel();
                questions.send((3 * n, reply)).map_err(drop).expect("the work goes on");
                // Spins instead of parking: the next question has to come as soon as this one is answered.
                while answer.try_recv() == Err(TryRecvError::Empty) {
                    std::hint::spin_loop();
                }
            }
        });
        tokio::task::spawn_blocking(|| asker.join()).await.unwrap().expect("every question was taken");
    }

    #[test]
    fn work_ends_with_its_runtime() {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (reply, answer) = oneshot::channel();
        let (held, gone) = oneshot::channel::<()>();
        let future = runtime.block_on(async {
            let future = CallerPolled::new(&Handle::current(), async move {
                let _: Result<(), ()> = reply.send(());
                Clock::system().sleep(Duration::from_secs(60)).await;
                drop(held);
            });
            future.answer(Caller::Here, || (), answer).await.unwrap();
            future
        });
        drop(runtime);
        assert!(gone.blocking_recv().is_err(), "what it owned is gone");
        drop(future);
    }
}
