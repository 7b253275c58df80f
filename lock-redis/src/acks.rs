//! Calls that replicas acknowledge. They have a connection of their own: `WAIT` holds up whatever comes after it.
//!
//! Calls that come while others are under way share one `WAIT`, which is about all writes before it on its connection.

use std::fmt;
use std::num::NonZeroU8;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future;
use lock_core::toolkit::{Batch, Batcher, whole_millis};
use lock_core::{Clock, Effect, Error, Instant, Result};
use redis::aio::MultiplexedConnection;
use redis::{Cmd, Pipeline, RedisError, RedisResult, Value};
use tokio::sync::{Mutex, oneshot};

use crate::calls::{Way, unsent};
use crate::errors;

/// A connection on which replicas acknowledge what is written.
#[derive(Debug)]
pub(crate) struct AcknowledgedCalls {
    connection: MultiplexedConnection,
    clock: Clock,
    wanted: NonZeroU8,
    /// The number of replicas that were attached when the connection was opened, if the server told.
    attached: Option<u32>,
    queue: Batcher<Queued>,
    /// Held while calls are sent, until it is known which replicas have what they wrote.
    turn: Mutex<()>,
}

#[derive(Debug)]
struct Queued {
    command: Cmd,
    way: Way,
    reply: oneshot::Sender<RedisResult<Value>>,
    /// `None`: replicas need not know of it.
    copies: Option<Copies>,
}

/// A caller that waits for a number of replicas to have what was written, and its deadline.
#[derive(Debug)]
struct Copies {
    until: Instant,
    replicas: oneshot::Sender<u32>,
}

/// The primary's answer, and what replicas say of it.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) value: Value,
    pub(crate) acknowledgement: Acknowledgement,
}

/// The acknowledgement of one request's writes by the replicas.
#[derive(Debug)]
pub(crate) struct Acknowledgement(Option<Pending>);

#[derive(Debug)]
struct Pending {
    clock: Clock,
    wanted: NonZeroU8,
    until: Instant,
    replicas: oneshot::Receiver<u32>,
}

/// The result of a wait for replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Acknowledged {
    Enough,
    By { replicas: u32, wanted: NonZeroU8 },
}

impl Reply {
    /// An answer that needs no replica.
    pub(crate) fn of_primary(value: Value) -> Reply {
        Reply { value, acknowledgement: Acknowledgement(None) }
    }
}

impl Acknowledgement {
    /// Waits until enough replicas have it, or the time for that is over. That is measured here: the server may look at
    /// its own limits only ten times a second.
    pub(crate) async fn kept(self) -> Acknowledged {
        let Some(Pending { clock, wanted, until, replicas }) = self.0 else { return Acknowledged::Enough };
        let told = clock.timeout(until.since(clock.now()), replicas).await;
        // An error: the connection has failed, or the runtime has ended.
        match told.and_then(std::result::Result::ok).unwrap_or(0) {
            enough if enough >= u32::from(wanted.get()) => Acknowledged::Enough,
            replicas => Acknowledged::By { replicas, wanted },
        }
    }
}

impl fmt::Display for Acknowledged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Acknowledged::Enough => f.write_str("enough replicas have acknowledged it"),
            Acknowledged::By { replicas, wanted } => {
                write!(f, "too few replicas have acknowledged it in time ({replicas}; ack={wanted})")
            }
        }
    }
}

impl AcknowledgedCalls {
    /// Takes a connection that was opened this moment, to a server with so many replicas, as far as it tells.
    ///
    /// `Rejected` if this server has no `WAIT`, or this user may not use it.
    pub(crate) async fn over(
        mut connection: MultiplexedConnection,
        wanted: NonZeroU8,
        attached: Option<u32>,
        clock: &Clock,
    ) -> Result<Arc<AcknowledgedCalls>> {
        // It waits for none, and is answered at once.
        let tried: RedisResult<Value> = redis::cmd("WAIT").arg(0).arg(1).query_async(&mut connection).await;
        tried.map_err(|e| without_wait(wanted, e))?;
        let (clock, queue, turn) = (clock.clone(), Batcher::default(), Mutex::default());
        Ok(Arc::new(AcknowledgedCalls { connection, clock, wanted, attached, queue, turn }))
    }

    /// Checks that enough replicas were attached when the connection was opened, if that is known.
    pub(crate) fn check_attached(&self) -> Result<()> {
        let wanted = self.wanted;
        match self.attached {
            Some(attached) if attached < u32::from(wanted.get()) => Err(Error::unavailable(
                Effect::NotApplied,
                format!(
                    "too few replicas are attached ({attached}; ack={wanted}): no lock can be taken until as many are \
                     attached and answer"
                ),
            )),
            _ => Ok(()),
        }
    }

    /// Sends a command. What it writes, replicas have until that moment to acknowledge.
    ///
    /// # Cancel safety
    ///
    /// The command is not sent if it was not sent before; otherwise it may or may not be carried out.
    pub(crate) async fn send(
        self: &Arc<Self>,
        command: &Cmd,
        way: Way,
        until: Instant,
    ) -> RedisResult<Reply> {
        let (told, replicas) = oneshot::channel();
        let value = self.enqueue(command, way, Some(Copies { until, replicas: told })).await?;
        let pending = Pending { clock: self.clock.clone(), wanted: self.wanted, until, replicas };
        Ok(Reply { value, acknowledgement: Acknowledgement(Some(pending)) })
    }

    /// Sends a command after those that were sent before. Replicas need not know of it.
    pub(crate) async fn send_behind(self: &Arc<Self>, command: &Cmd, way: Way) -> RedisResult<Reply> {
        Ok(Reply::of_primary(self.enqueue(command, way, None).await?))
    }

    async fn enqueue(
        self: &Arc<Self>,
        command: &Cmd,
        way: Way,
        copies: Option<Copies>,
    ) -> RedisResult<Value> {
        let (reply, answer) = oneshot::channel();
        if let Some(first) = self.queue.add(Queued { command: command.clone(), way, reply, copies }) {
            tokio::spawn(self.clone().send_all(first));
        }
        answer.await.unwrap_or_else(|_| Err(unsent()))
    }

    /// Sends the calls that have come until those before them are done, and still wait for an answer.
    async fn send_all(self: Arc<Self>, gathered: Batch<Queued>) {
        let _turn = self.turn.lock().await;
        let mut calls = gathered.all().await;
        calls.retain(|call| !call.reply.is_closed());
        if !calls.is_empty() {
            self.send_together(calls).await;
        }
    }

    async fn send_together(&self, calls: Vec<Queued>) {
        let (mut batch, mut replies, mut waiting) = (redis::pipe(), Vec::new(), Vec::new());
        batch.ignore_errors();
        for Queued { command, way, reply, copies } in calls {
            way.add_to(&mut batch, command);
            replies.push(reply);
            waiting.extend(copies);
        }
        // In this order. The primary's answers are passed on before replicas have acknowledged anything.
        let ((), replicas) =
            future::join(self.answer(batch, replies), self.ask_replicas(earliest(&waiting))).await;
        self.settle(waiting, replicas).await;
    }

    async fn answer(&self, batch: Pipeline, replies: Vec<oneshot::Sender<RedisResult<Value>>>) {
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

    /// Returns how many replicas have what was written before. `None` if this can't be known any more.
    async fn ask_replicas(&self, until: Option<Instant>) -> Option<u32> {
        let wait = wait(self.wanted, until?.since(self.clock.now()));
        let answer = self.connection.clone().send_packed_command(&wait).await;
        acknowledged(answer.and_then(Value::extract_error))
    }

    /// Tells each call how many replicas have what was written, when these are enough, or when its own time for that is
    /// over: one that has little time left does not end the others' wait.
    async fn settle(&self, mut waiting: Vec<Copies>, mut replicas: Option<u32>) {
        while !waiting.is_empty() {
            let (now, known) = (self.clock.now(), replicas.unwrap_or(0));
            let is_over = replicas.is_none() || known >= u32::from(self.wanted.get());
            for told in waiting.extract_if(.., |copies| is_over || copies.until <= now) {
                // The caller may have dropped its future.
                _ = told.replicas.send(known);
            }
            waiting.retain(|copies| !copies.replicas.is_closed());
            if let Some(until) = earliest(&waiting) {
                replicas = self.ask_replicas(Some(until)).await;
            }
        }
    }
}

fn earliest(waiting: &[Copies]) -> Option<Instant> {
    waiting.iter().map(|copies| copies.until).min()
}

/// Returns the command that waits until so many replicas have all that was written before on its connection. It answers
/// how many have it, be it enough or not.
fn wait(replicas: NonZeroU8, at_most: Duration) -> Cmd {
    let mut wait = redis::cmd("WAIT");
    // 0 would be for ever.
    wait.arg(replicas.get()).arg(whole_millis(at_most).max(1));
    wait
}

/// Reads the answer to `WAIT`. `None` if it was ended with an error, as the server does when it becomes a
/// replica: it can't be known any more which replicas have the write.
fn acknowledged(answer: RedisResult<Value>) -> Option<u32> {
    redis::from_redis_value(answer.ok()?).ok()
}

fn without_wait(wanted: NonZeroU8, error: RedisError) -> Error {
    match error.detail() {
        // It was demoted after it had said that it is a primary.
        Some(detail) if detail.contains("replica instances") => errors::replica(),
        _ if error.code().is_some() => Error::rejected(format!(
            "ack={wanted} needs the command WAIT, and the server refuses it: {error}"
        ))
        .with_source(error),
        _ => errors::connecting(error),
    }
}

#[cfg(test)]
mod tests {
    use redis::{ErrorKind, parse_redis_value};

    use super::*;

    #[test]
    fn a_wait_has_an_end() {
        let one = NonZeroU8::MIN;
        for (at_most, millis) in [(Duration::ZERO, "1"), (Duration::from_micros(1_100), "2")] {
            let packed = String::from_utf8(wait(one, at_most).get_packed_command()).unwrap();
            assert_eq!(packed, format!("*3\r\n$4\r\nWAIT\r\n$1\r\n1\r\n$1\r\n{millis}\r\n"));
        }
    }

    #[test]
    fn an_error_is_no_acknowledgement() {
        assert_eq!(acknowledged(Ok(Value::Int(2))), Some(2));
        let unblocked = parse_redis_value(b"-UNBLOCKED force unblock\r\n").unwrap().extract_error();
        assert_eq!(acknowledged(unblocked), None);
        assert_eq!(acknowledged(Ok(Value::Okay)), None);
    }

    #[test]
    fn only_a_server_without_wait_is_refused() {
        let raised = |text: &[u8]| parse_redis_value(text).unwrap().extract_error().unwrap_err();
        let missing = without_wait(NonZeroU8::MIN, raised(b"-ERR unknown command 'WAIT'\r\n"));
        assert!(!missing.is_transient() && missing.message().contains("WAIT"), "{missing}");
        let demoted = raised(b"-ERR WAIT cannot be used with replica instances.\r\n");
        assert!(without_wait(NonZeroU8::MIN, demoted).is_transient());
        let broken = RedisError::from((ErrorKind::Io, "broken"));
        assert!(without_wait(NonZeroU8::MIN, broken).is_transient());
    }
}
