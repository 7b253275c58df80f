//! One stream of watches, and the numbers under which the server knows them.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use etcd_client::{WatchOptions, WatchRequestSender, WatchResponse, WatchResponseStream};
use lock_core::Clock;
use lock_core::toolkit::{Call, HumanDuration};

use crate::cluster::Cluster;
use crate::errors;
use crate::link::Link;

/// The server gets a new number each time a watch is made again. Each watch has this many numbers.
const NUMBERS: i64 = 1 << 20;

/// A stream, and the watches on it.
pub(super) struct Stream {
    pub(super) link: Arc<Link>,
    requests: WatchRequestSender,
    answers: WatchResponseStream,
    clock: Clock,
    /// The time that the stream may take to accept a request.
    patience: Duration,
    /// The number of times that each watch was made on this stream. The server remembers a number even if it ended that
    /// watch itself, so no number is used twice.
    made: HashMap<i64, i64>,
    /// Watches that existed before, on another stream or until a compaction. What happened in between is unknown.
    pub(super) remade: HashSet<i64>,
    /// The server has made a watch on this stream.
    pub(super) serves: bool,
    /// The watches that the server was asked for and has not answered about. It answers in this order.
    asked: VecDeque<i64>,
}

/// A request for a watch.
pub(super) struct Request {
    pub(super) id: i64,
    pub(super) key: Vec<u8>,
    pub(super) options: WatchOptions,
}

/// The number of a watch that was refused.
const NO_WATCH: i64 = -1;

impl Stream {
    /// Opens a stream with its first watch. `Err` says how that failed.
    pub(super) async fn open(
        cluster: &Cluster,
        call: &Call,
        patience: Duration,
        link: Arc<Link>,
        first: Request,
    ) -> Result<Stream, String> {
        let Request { id, key, options } = first;
        let mut watch = link.client.watch_client();
        let stream = match call.within(watch.watch(key, Some(options.with_watch_id(id * NUMBERS)))).await {
            Some(Ok(stream)) => stream,
            Some(Err(e)) => {
                cluster.give_up(&link);
                return Err(errors::words(&e));
            }
            None => {
                cluster.give_up_if_silent(&link, call);
                return Err(format!("the server opened no watch stream within {}", HumanDuration(patience)));
            }
        };
        let (requests, answers) = stream.split();
        let (clock, made, asked) = (call.clock().clone(), HashMap::from([(id, 1)]), VecDeque::from([id]));
        let (remade, serves) = (HashSet::new(), false);
        Ok(Stream { link, requests, answers, clock, patience, made, remade, serves, asked })
    }

    /// Returns whether this watch was made on this stream, and not cancelled.
    pub(super) fn has(&self, id: i64) -> bool {
        self.made.contains_key(&id)
    }

    /// Asks the server to make a watch, under a number of its own.
    pub(super) async fn make(&mut self, request: Request) -> Result<(), String> {
        let Request { id, key, options } = request;
        let made = self.made.entry(id).or_default();
        let options = options.with_watch_id(id * NUMBERS + *made);
        *made += 1;
        self.asked.push_back(id);
        sent(self.clock.timeout(self.patience, self.requests.watch(key, Some(options))).await)
    }

    /// Asks the server to end a watch, under each number that it was made under.
    pub(super) async fn cancel(&mut self, id: i64) -> Result<(), String> {
        let made = self.made.remove(&id).unwrap_or_default();
        for number in (id * NUMBERS..).take(usize::try_from(made).unwrap_or_default()) {
            sent(self.clock.timeout(self.patience, self.requests.cancel(number)).await)?;
        }
        Ok(())
    }

    /// Waits for the server's next answer. `Err` says how the stream ended.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub(super) async fn next(&mut self) -> Result<WatchResponse, String> {
        match self.answers.message().await {
            Ok(Some(answer)) => Ok(answer),
            Ok(None) => Err("the server ended the watch stream".to_owned()),
            Err(e) => Err(errors::words(&e)),
        }
    }

    /// Returns the watch that an answer is about. If the server refuses to make one, it does not say which.
    pub(super) fn watch_of(&mut self, answer: &WatchResponse) -> i64 {
        let told = answer.watch_id() / NUMBERS;
        if !answer.created() {
            return told;
        }
        if answer.watch_id() == NO_WATCH {
            return self.asked.pop_front().unwrap_or(told);
        }
        let at = self.asked.iter().position(|id| *id == told);
        at.and_then(|at| self.asked.remove(at)).unwrap_or(told)
    }
}

fn sent(sent: Option<Result<(), etcd_client::Error>>) -> Result<(), String> {
    match sent {
        Some(Ok(())) => Ok(()),
        _ => Err("the watch stream accepts no more requests".to_owned()),
    }
}
