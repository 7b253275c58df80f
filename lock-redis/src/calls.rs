//! The calls on one connection. Those that come while others are under way share a write: what many claims ask in the
//! same moment reaches the server as one packet.

use std::mem;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redis::aio::MultiplexedConnection;
use redis::{Cmd, ErrorKind, RedisError, RedisResult, Value};
use tokio::sync::oneshot;

/// A connection that many claims use at once.
#[derive(Debug)]
pub(crate) struct Calls {
    connection: MultiplexedConnection,
    under_way: AtomicUsize,
    queue: Mutex<Vec<Queued>>,
}

#[derive(Debug)]
struct Queued {
    command: Cmd,
    reply: oneshot::Sender<RedisResult<Value>>,
}

impl Calls {
    pub(crate) fn new(connection: MultiplexedConnection) -> Arc<Calls> {
        Arc::new(Calls { connection, under_way: AtomicUsize::new(0), queue: Mutex::default() })
    }

    /// Sends a command and waits for the answer; an error that the server answered is an error here. Cancel safe: the
    /// connection stays in step, and the command may or may not be carried out.
    pub(crate) async fn send(self: &Arc<Self>, command: &Cmd) -> RedisResult<Value> {
        let _under_way = UnderWay(&self.under_way);
        if self.under_way.fetch_add(1, Ordering::Relaxed) == 0 {
            // Alone: waiting for company would only cost time.
            return self.connection.clone().send_packed_command(command).await?.extract_error();
        }
        let (reply, answer) = oneshot::channel();
        let first = {
            let mut queue = self.queue();
            queue.push(Queued { command: command.clone(), reply });
            queue.len() == 1
        };
        if first {
            tokio::spawn(self.clone().flush());
        }
        answer.await.unwrap_or_else(|_| Err(unsent()))
    }

    /// Sends what has been queued by the time that everybody who is ready to run has run.
    async fn flush(self: Arc<Self>) {
        tokio::task::yield_now().await;
        let mut batch = redis::pipe();
        batch.ignore_errors();
        let mut replies = Vec::new();
        for Queued { command, reply } in mem::take(&mut *self.queue()) {
            batch.add_command(command);
            replies.push(reply);
        }
        let answers: RedisResult<Vec<RedisResult<Value>>> =
            batch.query_async(&mut self.connection.clone()).await;
        let answers = match answers {
            Ok(answers) => answers,
            // The connection has failed, and all of them with it.
            Err(e) => vec![Err(e); replies.len()],
        };
        for (reply, answer) in replies.into_iter().zip(answers) {
            // Whoever asked may have gone.
            drop(reply.send(answer));
        }
    }

    fn queue(&self) -> MutexGuard<'_, Vec<Queued>> {
        // Nothing that can panic runs under this lock.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call that is under way until this is dropped.
struct UnderWay<'a>(&'a AtomicUsize);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The task that was to send it has ended with its runtime. It may have been about to.
fn unsent() -> RedisError {
    RedisError::from((ErrorKind::Io, "the connection's runtime has ended"))
}
