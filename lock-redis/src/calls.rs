//! The calls on one connection. Calls that come while others are under way share a write: what many claims ask at the
//! same moment reaches the server as one packet.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use lock_core::toolkit::{Batch, Batcher};
use redis::aio::MultiplexedConnection;
use redis::{Cmd, ErrorKind, Pipeline, RedisError, RedisResult, Value};
use tokio::sync::oneshot;

/// A connection that many claims use at once.
#[derive(Debug)]
pub(crate) struct Calls {
    connection: MultiplexedConnection,
    under_way: AtomicUsize,
    queue: Batcher<Queued>,
}

/// The way in which requests reach a member of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Straight,
    /// As requests about a key that is on its way to the member.
    Asking,
}

impl Way {
    /// Adds a command that is sent in this way. The answers are those of the commands alone.
    pub(crate) fn add_to(self, batch: &mut Pipeline, command: Cmd) {
        if self == Way::Asking {
            batch.cmd("ASKING").ignore();
        }
        batch.add_command(command);
    }
}

#[derive(Debug)]
struct Queued {
    command: Cmd,
    reply: oneshot::Sender<RedisResult<Value>>,
}

/// While fewer calls than this are under way, each is sent by itself. Two, because a server whose answer no majority
/// needs still has the call of the grant when that of the release comes.
const FEW: usize = 2;

impl Calls {
    pub(crate) fn new(connection: MultiplexedConnection) -> Arc<Calls> {
        Arc::new(Calls { connection, under_way: AtomicUsize::new(0), queue: Batcher::default() })
    }

    /// Sends a command and waits for the answer. An error that the server answered is an error here.
    ///
    /// Cancel safe: the connection remains usable. The command may or may not be carried out.
    pub(crate) async fn send(self: &Arc<Self>, command: &Cmd) -> RedisResult<Value> {
        let _under_way = UnderWay(&self.under_way);
        if self.under_way.fetch_add(1, Ordering::Relaxed) < FEW {
            // Hardly a call is under way: waiting for more would only cost time, and a task.
            return self.connection.clone().send_packed_command(command).await?.extract_error();
        }
        let (reply, answer) = oneshot::channel();
        if let Some(first) = self.queue.add(Queued { command: command.clone(), reply }) {
            tokio::spawn(self.clone().flush(first));
        }
        answer.await.unwrap_or_else(|_| Err(unsent()))
    }

    /// As [`send`](Self::send), with `ASKING` right before the command: other calls share the connection.
    pub(crate) async fn send_asking(&self, command: &Cmd) -> RedisResult<Value> {
        let mut both = redis::pipe();
        both.cmd("ASKING").add_command(command.clone());
        let mut connection = self.connection.clone();
        let answers = connection.send_packed_commands(&both, 1, 1).await?;
        let answer = answers.into_iter().next().ok_or_else(unsent)?;
        answer.extract_error()
    }

    /// Sends the queued commands.
    async fn flush(self: Arc<Self>, gathered: Batch<Queued>) {
        let mut batch = redis::pipe();
        batch.ignore_errors();
        let mut replies = Vec::new();
        for Queued { command, reply } in gathered.all().await {
            batch.add_command(command);
            replies.push(reply);
        }
        let answers: RedisResult<Vec<RedisResult<Value>>> =
            batch.query_async(&mut self.connection.clone()).await;
        let answers = match answers {
            Ok(answers) => answers,
            // The connection has failed, and all commands with it.
            Err(e) => vec![Err(e); replies.len()],
        };
        for (reply, answer) in replies.into_iter().zip(answers) {
            // The caller may have dropped its future.
            drop(reply.send(answer));
        }
    }
}

/// Counts one call as under way until it is dropped.
struct UnderWay<'a>(&'a AtomicUsize);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The error of a call whose sending task has ended with its runtime. The command may have been sent.
pub(crate) fn unsent() -> RedisError {
    RedisError::from((ErrorKind::Io, "the connection's runtime has ended"))
}
