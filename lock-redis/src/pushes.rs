//! A connection on which the server reports messages by itself: the pushes of RESP3.

use std::collections::HashMap;

use futures_util::future::join_all;
use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Client, Cmd, ErrorKind, ProtocolVersion, PushInfo, PushKind, RedisError,
    RedisResult, Value,
};
use tokio::sync::mpsc;

use crate::delivery::Delivery;
use crate::facts::Hello;
use crate::link::speaking;

/// A connection for wake-ups.
///
/// redis takes the next answer for the answer to the oldest request. A server that ends a sharded
/// subscription by itself sends what looks like an answer. So each answer is compared with its request, and
/// an answer to another one ends the connection.
pub(crate) struct Pushes {
    requests: MultiplexedConnection,
    pushed: mpsc::UnboundedReceiver<PushInfo>,
    /// The way in which the server notifies waiters of releases.
    pub(crate) delivery: Delivery,
    /// The number of answers to `SUNSUBSCRIBE` that are still among what was pushed, by channel.
    leaving: HashMap<Vec<u8>, usize>,
}

/// A message that the server sends by itself.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Push {
    Message {
        channel: Vec<u8>,
        payload: Vec<u8>,
    },
    /// The server has ended a sharded subscription: the channel's slot has gone to another member.
    Ended {
        channel: Vec<u8>,
    },
}

impl Pushes {
    /// Connects, without any subscription. Has no time limit of its own: the caller sets one.
    pub(crate) async fn open(client: &Client) -> RedisResult<Pushes> {
        let (sender, pushed) = mpsc::unbounded_channel();
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(None)
            .set_response_timeout(None)
            .set_push_sender(sender);
        let client = speaking(client, ProtocolVersion::RESP3)?;
        let mut requests = client.get_multiplexed_async_connection_with_config(&config).await?;
        // Not what another connection to this address has learned: the server may have been replaced by a newer one.
        let hello = Hello::of(requests.send_packed_command(&redis::cmd("HELLO")).await);
        Ok(Pushes { requests, pushed, delivery: hello.delivery(), leaving: HashMap::new() })
    }

    /// Subscribes channels, each by a command of its own: channels of several slots may not be in one. Returns when the
    /// server has answered all of them. If it has refused some, the others are subscribed.
    pub(crate) async fn subscribe(&mut self, channels: &[(Delivery, &[u8])]) -> RedisResult<()> {
        let requests = channels.iter().map(|(delivery, channel)| self.ask(delivery.subscribe(), channel));
        worst(join_all(requests).await)
    }

    /// Unsubscribes channels. Messages that came before may still be reported.
    pub(crate) async fn unsubscribe(&mut self, channels: &[(Delivery, &[u8])]) -> RedisResult<()> {
        let requests = channels.iter().map(|(delivery, channel)| self.ask(delivery.unsubscribe(), channel));
        let mut outcomes = join_all(requests).await;
        for ((delivery, channel), outcome) in channels.iter().zip(&mut outcomes) {
            match outcome {
                Ok(()) if *delivery == Delivery::Sharded => {
                    *self.leaving.entry(channel.to_vec()).or_default() += 1;
                }
                // The server has ended the subscription before.
                Err(e) if leads_elsewhere(e) => *outcome = Ok(()),
                _ => {}
            }
        }
        worst(outcomes)
    }

    async fn ask(&self, (command, kind): (&'static str, PushKind), channel: &[u8]) -> RedisResult<()> {
        let mut request = redis::cmd(command);
        request.arg(channel);
        match self.send(&request).await? {
            Value::Push { kind: answered, data }
                if answered == kind && of_channel(&data) == Some(channel) =>
            {
                Ok(())
            }
            _ => Err(out_of_step()),
        }
    }

    /// Asks the server for a sign of life. An error that it answers is one.
    pub(crate) async fn ping(&self) -> RedisResult<()> {
        match self.send(&redis::cmd("PING")).await? {
            Value::Push { .. } => Err(out_of_step()),
            _ => Ok(()),
        }
    }

    async fn send(&self, command: &Cmd) -> RedisResult<Value> {
        self.requests.clone().send_packed_command(command).await?.extract_error()
    }

    /// Waits for what the server reports next. `None`: the connection has ended. Cancel safe.
    pub(crate) async fn next(&mut self) -> Option<Push> {
        loop {
            let PushInfo { kind, data } = self.pushed.recv().await?;
            match (kind, &data[..]) {
                (PushKind::Disconnection, _) => return None,
                (PushKind::Message | PushKind::SMessage, [Value::BulkString(channel), payload]) => {
                    let payload = redis::from_redis_value_ref(payload).unwrap_or_default();
                    return Some(Push::Message { channel: channel.clone(), payload });
                }
                (PushKind::SUnsubscribe, [Value::BulkString(channel), ..]) if !self.has_left(channel) => {
                    return Some(Push::Ended { channel: channel.clone() });
                }
                _ => {}
            }
        }
    }

    /// Returns whether this is the answer to an `SUNSUBSCRIBE` of ours, and counts it as read.
    fn has_left(&mut self, channel: &[u8]) -> bool {
        let Some(answers) = self.leaving.get_mut(channel) else { return false };
        *answers -= 1;
        if *answers == 0 {
            self.leaving.remove(channel);
        }
        true
    }
}

fn of_channel(data: &[Value]) -> Option<&[u8]> {
    match data {
        [Value::BulkString(channel), ..] => Some(channel),
        _ => None,
    }
}

/// Returns the error that says most: that the connection broke, then a refusal, then a redirection.
fn worst(outcomes: Vec<RedisResult<()>>) -> RedisResult<()> {
    let errors = outcomes.into_iter().filter_map(Result::err);
    let rank = |error: &RedisError| match error.code() {
        _ if leads_elsewhere(error) => 0,
        Some(_) => 1,
        None => 2,
    };
    errors.max_by_key(rank).map_or(Ok(()), Err)
}

/// Returns whether the error says that the channel's slot is at another member.
pub(crate) fn leads_elsewhere(error: &RedisError) -> bool {
    matches!(error.code(), Some("MOVED" | "ASK"))
}

fn out_of_step() -> RedisError {
    RedisError::from((ErrorKind::Io, "it answered another request than the oldest one"))
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    /// Answers each command with what `answers` returns for its first word.
    async fn serve(mut client: TcpStream, answers: fn(&str) -> &'static str) {
        let (mut buffer, mut pending) = ([0; 4096], String::new());
        loop {
            while let Some((word, rest)) = command(&pending) {
                client.write_all(answers(&word).as_bytes()).await.unwrap();
                pending = rest;
            }
            match client.read(&mut buffer).await {
                Ok(0) | Err(_) => return,
                Ok(length) => pending.push_str(std::str::from_utf8(&buffer[..length]).unwrap()),
            }
        }
    }

    /// Returns the first word of the first command, and what follows the command, once it is complete.
    fn command(received: &str) -> Option<(String, String)> {
        let mut lines = received.split_inclusive("\r\n");
        let words: usize = lines.next()?.strip_prefix('*')?.trim().parse().unwrap();
        let mut read = lines.by_ref().take(2 * words);
        let first = read.by_ref().nth(1)?.trim().to_owned();
        let complete = read.count() == 2 * words - 2;
        (complete && received.ends_with("\r\n")).then(|| (first, lines.collect()))
    }

    async fn connected(answers: fn(&str) -> &'static str) -> Pushes {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("redis://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { serve(listener.accept().await.unwrap().0, answers).await });
        Pushes::open(&Client::open(url).unwrap()).await.unwrap()
    }

    /// A member of a cluster of Redis 7. It ends the subscription to `a` right before it answers about `b`.
    fn answers(command: &str) -> &'static str {
        match command {
            "HELLO" => "%2\r\n$4\r\nmode\r\n$7\r\ncluster\r\n$7\r\nversion\r\n$5\r\n7.0.0\r\n",
            "SSUBSCRIBE" => {
                ">3\r\n$12\r\nsunsubscribe\r\n$1\r\na\r\n:0\r\n>3\r\n$10\r\nssubscribe\r\n$1\r\nb\r\n:1\r\n"
            }
            "PING" => ">3\r\n$12\r\nsunsubscribe\r\n$1\r\na\r\n:0\r\n+PONG\r\n",
            _ => "+OK\r\n",
        }
    }

    #[tokio::test]
    async fn a_connection_closed_by_the_server_is_no_answer() {
        let mut pushes = connected(answers).await;
        assert_eq!(pushes.delivery, Delivery::Sharded);
        let error = pushes.subscribe(&[(Delivery::Sharded, b"b")]).await.unwrap_err();
        assert!(error.code().is_none(), "the connection is given up: {error}");
        assert_eq!(pushes.next().await, Some(Push::Ended { channel: b"a".to_vec() }));
        let pushes = connected(answers).await;
        assert!(pushes.ping().await.is_err());
    }

    #[tokio::test]
    async fn what_the_client_ends_is_not_reported_as_ended() {
        let mut pushes = connected(|command| match command {
            "HELLO" => "+OK\r\n",
            "SUNSUBSCRIBE" => ">3\r\n$12\r\nsunsubscribe\r\n$1\r\na\r\n:0\r\n",
            "PING" => ">3\r\n$8\r\nsmessage\r\n$1\r\nb\r\n$1\r\n0\r\n+PONG\r\n",
            _ => "+OK\r\n",
        })
        .await;
        pushes.unsubscribe(&[(Delivery::Sharded, b"a")]).await.unwrap();
        pushes.ping().await.unwrap();
        let message = Push::Message { channel: b"b".to_vec(), payload: b"0".to_vec() };
        assert_eq!(pushes.next().await, Some(message));
    }

    #[test]
    fn the_error_that_says_most_is_reported() {
        let error = |text: &str| Err(Value::ServerError(server_error(text)).extract_error().unwrap_err());
        let moved = || error("-MOVED 1 a:1\r\n");
        let refused = || error("-NOPERM no\r\n");
        let code = |outcomes| worst(outcomes).unwrap_err().code().map(str::to_owned);
        assert_eq!(code(vec![Ok(()), moved()]).as_deref(), Some("MOVED"));
        assert_eq!(code(vec![refused(), moved()]).as_deref(), Some("NOPERM"));
        assert_eq!(code(vec![refused(), Err(out_of_step()), moved()]), None);
        assert!(worst(vec![Ok(()), Ok(())]).is_ok());
    }

    fn server_error(text: &str) -> redis::ServerError {
        match redis::parse_redis_value(text.as_bytes()).unwrap() {
            Value::ServerError(error) => error,
            other => panic!("{other:?}"),
        }
    }
}
