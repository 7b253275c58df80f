//! The calls that wait for one connection. A task runs them one after the other, so that the connection's
//! thread gets the next statement as soon as it has answered one.

use std::collections::VecDeque;
use std::fmt;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lock_core::toolkit::Call;
use lock_core::{Effect, Error, Result};
use tokio::sync::oneshot;

use super::serial_connection::{Answer, IdleLink, Link, Route, Statement, Writes};
use super::time::Now;

/// The calls that wait for a connection.
#[derive(Debug)]
pub(super) struct CallQueue {
    route: Arc<Route>,
    link: Arc<IdleLink>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Queued>,
    /// A task runs the calls that wait.
    is_served: bool,
}

struct Queued {
    call: Call,
    writes: Writes,
    /// Builds the statement for the moment at which it starts.
    make: Box<dyn Fn(Now) -> Statement + Send + Sync>,
    reply: Reply,
}

type Reply = oneshot::Sender<Result<Answer>>;

/// The time beyond its call that a statement may take before its connection is given up.
const GRACE: Duration = Duration::from_secs(1);

impl CallQueue {
    pub(super) fn new(route: Arc<Route>, link: Arc<IdleLink>) -> CallQueue {
        CallQueue { route, link, state: Mutex::default() }
    }

    /// Runs the statement that `make` builds, after those that came before. It runs to its end, even if the returned
    /// future is dropped.
    pub(super) async fn run(
        self: &Arc<Self>,
        call: &Call,
        writes: Writes,
        make: impl Fn(Now) -> Statement + Send + Sync + 'static,
    ) -> Result<Answer> {
        let (reply, answer) = oneshot::channel();
        let queued = Queued { call: call.clone(), writes, make: Box::new(make), reply };
        if self.state().enter(queued) {
            tokio::spawn(Serving { queue: self.clone(), is_done: false }.run());
        }
        match call.within(answer).await {
            Some(answer) => answer.unwrap_or_else(|_| Err(ended_early())),
            None => Err(call.out_of_time(Effect::Unknown)),
        }
    }

    /// Returns whether no call runs or waits.
    pub(super) fn is_idle(&self) -> bool {
        !self.state().is_served
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing that can panic runs under this lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Returns whether a task has to be started for it.
    fn enter(&mut self, queued: Queued) -> bool {
        self.waiting.push_back(queued);
        !mem::replace(&mut self.is_served, true)
    }

    fn next(&mut self) -> Option<Queued> {
        let next = self.waiting.pop_front();
        self.is_served = next.is_some();
        next
    }
}

/// The task that runs the calls, for as long as calls wait.
struct Serving {
    queue: Arc<CallQueue>,
    /// No call waited any more. Another task may serve the queue since.
    is_done: bool,
}

impl Serving {
    async fn run(mut self) {
        let queue = self.queue.clone();
        let mut link = queue.link.lock().await;
        let mut answered: Option<(Reply, Result<Answer>)> = None;
        loop {
            let next = queue.state().next();
            self.is_done = next.is_none();
            // The connection is idle before the caller goes on: otherwise its next look would use the other one.
            if let Some((reply, outcome)) = answered.take() {
                // The caller may have gone.
                drop(reply.send(outcome));
            }
            let Some(queued) = next else { return };
            answered = queued.run(&queue.route, &mut link).await;
        }
    }
}

impl Drop for Serving {
    /// After a panic, and at the end of the runtime, the callers that still wait are told so, and the next call starts
    /// another task.
    fn drop(&mut self) {
        if !self.is_done {
            // Dropped outside of the lock, because a reply wakes its caller.
            let waiting = mem::take(&mut *self.queue.state());
            drop(waiting);
        }
    }
}

impl Queued {
    /// Returns the outcome, and to whom it has to be told; `None` if there is none, and the connection has
    /// been dropped.
    async fn run(self, route: &Route, link: &mut Option<Link>) -> Option<(Reply, Result<Answer>)> {
        let Queued { call, writes, make, reply } = self;
        let asking = Link::ask_on(link, route, &call, writes, &make);
        let outcome = call.clock().timeout(call.left() + GRACE, asking).await?;
        Some((reply, outcome))
    }
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State").field("waiting", &self.waiting.len()).finish_non_exhaustive()
    }
}

fn ended_early() -> Error {
    Error::unavailable(Effect::Unknown, "the call's task ended early")
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures_util::future::{join, join_all};
    use lock_core::Clock;
    use sqlx::sqlite::SqliteConnectOptions;

    use super::*;
    use crate::sqlite::serial_connection::SerialConnection;
    use crate::sqlite::settings::Sqlite;
    use crate::sqlite::table::SqliteTable;

    const PATIENCE: Duration = Duration::from_secs(5);

    fn connection(folder: &tempfile::TempDir) -> SerialConnection {
        let options =
            SqliteConnectOptions::new().filename(folder.path().join("locks.db")).create_if_missing(true);
        SqliteTable::new(Sqlite::from(options)).unwrap().writes
    }

    fn call() -> Call {
        Call::begin(&Clock::system(), PATIENCE)
    }

    async fn ask(connection: &SerialConnection, before: impl Fn() + Send + Sync + 'static) -> Result<Answer> {
        let make = move |_| {
            before();
            sqlx::query("SELECT 1")
        };
        connection.ask(&call(), Writes::Nothing, make).await
    }

    #[tokio::test]
    async fn calls_are_run_in_order_of_arrival() {
        let folder = tempfile::tempdir().unwrap();
        let (connection, run) = (connection(&folder), Arc::new(AtomicUsize::new(0)));
        let calls = (0..20).map(|nth| {
            let run = run.clone();
            ask(&connection, move || assert_eq!(run.fetch_add(1, Ordering::SeqCst), nth))
        });
        assert!(join_all(calls).await.iter().all(Result::is_ok));
        assert_eq!(run.load(Ordering::SeqCst), 20);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_connection_whose_answer_is_there_is_idle() {
        let folder = tempfile::tempdir().unwrap();
        let connection = connection(&folder);
        // This caller is on a thread of its own, and goes on as soon as it has the answer.
        for nth in 0..2000 {
            ask(&connection, || {}).await.unwrap();
            assert!(connection.is_idle(), "call {nth}");
        }
    }

    #[tokio::test]
    async fn a_panic_fails_only_waiting_calls() {
        let folder = tempfile::tempdir().unwrap();
        let connection = connection(&folder);
        let panics = || std::panic::resume_unwind(Box::new("as planned"));
        let (panicked, waited) = join(ask(&connection, panics), ask(&connection, || {})).await;
        assert!(panicked.unwrap_err().may_have_taken_effect());
        assert!(waited.unwrap_err().may_have_taken_effect());
        ask(&connection, || {}).await.unwrap();
    }
}
