//! Tasks that have requests answered, one after the other, each on one connection at a time.
//!
//! The future of a statement must never be dropped half-way: sqlx would leave the connection between two messages. So
//! the statement does not run in its caller's future, which may be dropped, or put aside without being polled.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use lock_core::toolkit::Call;
use lock_core::{Effect, Error, Result};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::dialect::{Answer, Dialect};
use super::link::{Link, Moment, Ran};
use super::pool::Shared;
use super::request_queue::{LockWait, Use};

/// A statement that a caller waits for.
pub(super) struct Request<D: Dialect> {
    pub(super) call: Call,
    /// Builds the statement for the moment of sending.
    pub(super) make: Make<D>,
    pub(super) reply: Reply<D>,
}

/// Builds a statement for the moment of sending.
pub(super) type Make<D> = Arc<dyn Fn(Moment) -> <D as Dialect>::Statement + Send + Sync>;

/// The outcome of a statement.
pub(super) enum StatementOutcome<R> {
    Answered(Answer<R>),
    /// The server undid it, because other transactions were in the way.
    Undone(Error),
}

type Outcome<D> = Result<StatementOutcome<<D as Dialect>::Row>>;
type Reply<D> = oneshot::Sender<Outcome<D>>;

/// A request that has a connection to use, for a task that has nothing to do.
pub(super) struct Job<D: Dialect> {
    pub(super) shared: Arc<Shared<D>>,
    pub(super) used: Use,
    pub(super) request: Request<D>,
}

/// The time beyond its patience that a statement may take before its connection is closed.
const GRACE: Duration = Duration::from_secs(1);

/// A task that has nothing to do. It ends with the pool.
pub(super) type Resting<D> = oneshot::Sender<Job<D>>;

impl<D: Dialect> Job<D> {
    /// Has a task answer the request, and then those that wait. `task` had nothing to do, if there is one.
    pub(super) fn start(self, task: Option<Resting<D>>) {
        // A task has gone if its runtime has.
        let left = match task {
            Some(task) => task.send(self).err(),
            None => Some(self),
        };
        if let Some(job) = left {
            tokio::spawn(work(job));
        }
    }
}

/// Answers requests. Ends with the pool.
async fn work<D: Dialect>(first: Job<D>) {
    let mut next = Ok(first);
    while let Ok(job) = next {
        let serving = Serving { shared: job.shared, used: Some(job.used), link: None, was_at_once: false };
        next = serving.answer_all(job.request).await.await;
    }
}

/// The use of a connection. The next request gets it, whatever ends this use.
struct Serving<D: Dialect> {
    shared: Arc<Shared<D>>,
    /// The connection's present use; `None` if it is not used any more.
    used: Option<Use>,
    /// The connection of the last request, if it can be used again.
    link: Option<Link<D>>,
    /// The last answer was there as soon as its statement was sent.
    was_at_once: bool,
}

impl<D: Dialect> Serving<D> {
    /// Answers `request` and those that wait, and returns what brings this task its next job.
    async fn answer_all(mut self, request: Request<D>) -> oneshot::Receiver<Job<D>> {
        let mut request = request;
        loop {
            let reply = self.answer(request).await;
            let next = self.next();
            // The connection is there for others before the caller goes on: otherwise its next request would open one.
            if let Some((reply, outcome)) = reply {
                // The caller may have gone.
                drop(reply.send(outcome));
            }
            request = match next {
                Ok(next) => next,
                Err(rest) => return rest,
            };
            // A server on the same processor can answer before this task goes on. The next one then would, too, and the
            // answers on other connections would wait, and those of the server with them.
            if self.was_at_once {
                tokio::task::yield_now().await;
            }
        }
    }

    /// Returns the reply, unless the caller has it, or has gone.
    async fn answer(&mut self, request: Request<D>) -> Option<(Reply<D>, Outcome<D>)> {
        // The caller has gone while it waited. Nothing is sent.
        if request.reply.is_closed() {
            return None;
        }
        let mut link = match self.link.take() {
            Some(link) => link,
            None => match self.shared.link(&request.call, self.lock_wait()).await {
                Ok(link) => link,
                Err(error) => return Some((request.reply, Err(error))),
            },
        };
        let Request { call, make, reply } = request;
        let mut reply = Some(reply);
        let ran = self.count_polls(run(&mut link, &call, &*make, &mut reply)).await?;
        let outcome = self.keep(link, ran);
        Some((reply?, outcome))
    }

    /// Returns the kind of connection that is used.
    fn lock_wait(&self) -> LockWait {
        self.used.map_or(LockWait::Never, |used| used.lock_wait)
    }

    /// Returns what `running` returns, and records whether that was there at its first poll.
    async fn count_polls<T>(&mut self, running: impl Future<Output = T>) -> T {
        let (mut running, mut polls) = (pin!(running), 0_u64);
        let out = poll_fn(|context| {
            polls += 1;
            running.as_mut().poll(context)
        });
        let out = out.await;
        self.was_at_once = polls == 1;
        out
    }

    /// Keeps the connection if it can be used again. Returns the outcome of its statement.
    fn keep(&mut self, link: Link<D>, ran: Ran<D::Row>) -> Outcome<D> {
        let outcome = match ran {
            Ran::Answered(answer) => Ok(StatementOutcome::Answered(answer)),
            Ran::Undone(error) => Ok(StatementOutcome::Undone(error)),
            Ran::Failed(error) => Err(error),
            Ran::Broken(error) => {
                // What broke this connection has usually broken the others too. Otherwise each would cost another call.
                self.shared.state().idle.clear();
                return Err(error);
            }
        };
        self.link = Some(link);
        outcome
    }

    /// Returns the next request for the connection. Without one, puts the connection and this task aside.
    fn next(&mut self) -> std::result::Result<Request<D>, oneshot::Receiver<Job<D>>> {
        let mut state = self.shared.state();
        if let Some((used, request)) = self.used.take().and_then(|done| state.queue.next(done)) {
            self.used = Some(used);
            return Ok(request);
        }
        let (task, rest) = oneshot::channel();
        state.idle.extend(self.link.take());
        state.resting.push(task);
        Err(rest)
    }
}

impl<D: Dialect> Drop for Serving<D> {
    /// A panic, or the end of the runtime, must not leave the queue without this connection.
    fn drop(&mut self) {
        let next = self.used.take().and_then(|done| self.shared.state().queue.next(done));
        // Without a runtime, no request is answered: their callers see that.
        if let (Some((used, request)), Ok(_)) = (next, Handle::try_current()) {
            Job { shared: self.shared.clone(), used, request }.start(None);
        }
    }
}

/// Runs the statement. When the call is over, the caller is told so, and the statement may go on for a moment. `None` if
/// it does not end in that time: then the connection has to be closed.
async fn run<D: Dialect>(
    link: &mut Link<D>,
    call: &Call,
    make: &(impl Fn(Moment) -> D::Statement + Sync + ?Sized),
    reply: &mut Option<Reply<D>>,
) -> Option<Ran<D::Row>> {
    let mut running = pin!(link.run(call, make));
    if let Some(ran) = call.within(&mut running).await {
        return Some(ran);
    }
    drop(reply.take().map(|reply| reply.send(Err(call.out_of_time(Effect::Unknown)))));
    call.clock().timeout(GRACE, running).await
}
