//! The task behind the wake-ups: opens the change stream, reads it, and opens another one when it breaks.
//!
//! The `mongodb` crate resumes a stream by itself after a failover. When it gives a stream up, or when a stream is
//! silent for too long, this task opens a new one that starts at the present. It then wakes all claims, because the new
//! stream does not report what was released in between.

use std::sync::Arc;
use std::time::Duration;

use lock_core::driver::{Context, Hub, Prefix, Wakes, detached};
use lock_core::{Clock, Random};
use mongodb::bson::{Bson, Document, doc};
use mongodb::change_stream::ChangeStream;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::AbortHandle;

use crate::errors;
use crate::profile::Profile;
use crate::server::Current;
use crate::statements::NEVER;

/// How long the stream stays open, at least, after the last claim has stopped listening. A name that is handed over
/// often then needs no new stream each time.
const IDLE_BEFORE_CLOSE: Duration = Duration::from_secs(2);
/// How long the server waits for an event before it answers that there is none.
const MAX_AWAIT_TIME: Duration = Duration::from_secs(1);
/// The first pause before another stream is opened; it doubles with each failure.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// A claim's request for wake-ups. It is answered when the stream is open, or can't be opened.
#[derive(Debug)]
pub(crate) struct ListenRequest(pub(crate) oneshot::Sender<Result<(), Trouble>>);

/// Why the stream is not open.
#[derive(Clone, Debug)]
pub(crate) enum Trouble {
    /// The server has no change streams, or none for this user.
    Refused(String),
    /// Opening failed, or took too long. Another try may succeed.
    Broken(String),
}

/// Reads the stream for all claims of a client, from the first listen until the client is dropped.
#[derive(Debug)]
pub(crate) struct Feed {
    current: Current,
    profile: Arc<Profile>,
    prefix: Prefix,
    clock: Clock,
    random: Random,
    patience: Duration,
    hubs: Hubs,
    open: watch::Sender<bool>,
    requests: mpsc::UnboundedReceiver<ListenRequest>,
}

/// The claims of a client that listen. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hubs {
    /// Waiting claims, by the name that they wait for.
    pub(crate) waiters: Hub,
    /// Holding claims, by their owner.
    pub(crate) holders: Hub,
}

impl Hubs {
    fn are_empty(&self) -> bool {
        self.waiters.is_empty() && self.holders.is_empty()
    }

    fn wake_all(&self) {
        self.waiters.wake_all();
        self.holders.wake_all();
    }
}

/// What the stream reports.
enum Report {
    /// The lock with this key may be free.
    Free(Vec<u8>),
    /// A lock was taken from this owner.
    Revoked(Vec<u8>),
    /// There is no event for a claim, but the stream works.
    Nothing,
}

/// The stream, read by a task of its own: the futures of the `mongodb` crate must not be dropped half-way.
struct StreamReader {
    reports: mpsc::UnboundedReceiver<Report>,
    task: AbortHandle,
}

impl Drop for StreamReader {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Why the task stopped reading a stream.
enum Left {
    /// The client was dropped.
    Ended,
    /// No claim listens.
    Idle,
    /// The stream ended, or was silent for too long.
    Broken,
}

impl Feed {
    pub(crate) fn new(
        current: Current,
        profile: Arc<Profile>,
        prefix: Prefix,
        context: Context,
        hubs: Hubs,
        open: watch::Sender<bool>,
        requests: mpsc::UnboundedReceiver<ListenRequest>,
    ) -> Feed {
        let Context { clock, random, patience, .. } = context;
        Feed { current, profile, prefix, clock, random, patience, hubs, open, requests }
    }

    pub(crate) async fn run(mut self) {
        let mut waiting = Vec::new();
        let mut pause = FIRST_PAUSE;
        loop {
            if waiting.is_empty() && self.hubs.are_empty() {
                let Some(request) = self.requests.recv().await else { return };
                waiting.push(request);
            }
            match self.open_stream().await {
                Ok(mut reader) => {
                    pause = FIRST_PAUSE;
                    self.profile.learn_wakes(Wakes::Pushed);
                    self.open.send_replace(true);
                    answer(&mut waiting, &Ok(()));
                    // Releases and revokes without an open stream were not reported.
                    self.hubs.wake_all();
                    match self.follow(&mut reader).await {
                        Left::Ended => return,
                        Left::Idle => continue,
                        Left::Broken => self.hubs.wake_all(),
                    }
                }
                Err(trouble) => {
                    if let Trouble::Refused(_) = trouble {
                        self.profile.learn_wakes(Wakes::Polled);
                    }
                    answer(&mut waiting, &Err(trouble));
                }
            }
            if !self.wait_before_retry(pause, &mut waiting).await {
                return;
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Opens a stream of all locks that may have become free, not only of those that claims listen to: the names that
    /// claims listen to change more often than a stream can be opened.
    async fn open_stream(&self) -> Result<StreamReader, Trouble> {
        let link = self.current.get();
        let opening = async move {
            let watch = link.locks().watch().pipeline(freed()).max_await_time(MAX_AWAIT_TIME).await;
            Ok(watch.map(ChangeStream::with_type::<Document>))
        };
        let stream = match detached(&self.clock, self.patience, opening).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(e)) if errors::refuses_streams(&e) => return Err(Trouble::Refused(errors::words(&e))),
            Ok(Err(e)) => return Err(Trouble::Broken(errors::words(&e))),
            Err(_) => return Err(Trouble::Broken(format!("no change stream within {:?}", self.patience))),
        };
        let (sender, reports) = mpsc::unbounded_channel();
        let task = tokio::spawn(read(stream, sender)).abort_handle();
        Ok(StreamReader { reports, task })
    }

    /// Wakes the claims that an event is for, until the stream breaks or no claim listens.
    async fn follow(&mut self, reader: &mut StreamReader) -> Left {
        let mut silent_at = self.clock.now() + MAX_AWAIT_TIME + self.patience;
        let mut look = self.clock.now() + IDLE_BEFORE_CLOSE;
        let mut was_idle = false;
        let left = loop {
            tokio::select! {
                biased;
                report = reader.reports.recv() => match report {
                    Some(Report::Free(key)) => {
                        silent_at = self.clock.now() + MAX_AWAIT_TIME + self.patience;
                        self.wake_waiters(&key);
                    }
                    Some(Report::Revoked(owner)) => self.wake_holder(&owner),
                    Some(Report::Nothing) => silent_at = self.clock.now() + MAX_AWAIT_TIME + self.patience,
                    None => break Left::Broken,
                },
                request = self.requests.recv() => match request {
                    Some(ListenRequest(reply)) => drop(reply.send(Ok(()))),
                    None => break Left::Ended,
                },
                () = self.clock.sleep_until(silent_at) => break Left::Broken,
                () = self.clock.sleep_until(look) => {
                    look = self.clock.now() + IDLE_BEFORE_CLOSE;
                    let is_idle = self.hubs.are_empty();
                    if is_idle && was_idle {
                        self.open.send_replace(false);
                        // A claim that registered before `open` changed saw an open stream.
                        if self.hubs.are_empty() {
                            return Left::Idle;
                        }
                        self.open.send_replace(true);
                    }
                    was_idle = is_idle;
                }
            }
        };
        self.open.send_replace(false);
        left
    }

    fn wake_holder(&self, owner: &[u8]) {
        let digits: String = owner.iter().map(|byte| format!("{byte:02x}")).collect();
        self.hubs.holders.wake(&digits);
    }

    fn wake_waiters(&self, key: &[u8]) {
        if let Some(name) = std::str::from_utf8(key).ok().and_then(|key| self.prefix.strip(key)) {
            self.hubs.waiters.wake(name);
        }
    }

    /// Waits before the next try, and accepts requests meanwhile. Returns `false` if the client was dropped.
    async fn wait_before_retry(&mut self, pause: Duration, waiting: &mut Vec<ListenRequest>) -> bool {
        let until = self.clock.now() + pause / 2 + self.random.up_to(pause / 2);
        loop {
            tokio::select! {
                biased;
                request = self.requests.recv() => match request {
                    Some(request) => waiting.push(request),
                    None => return false,
                },
                () = self.clock.sleep_until(until) => return true,
            }
        }
    }
}

fn answer(waiting: &mut Vec<ListenRequest>, outcome: &Result<(), Trouble>) {
    for ListenRequest(reply) in waiting.drain(..) {
        // The claim may have stopped waiting for the answer.
        drop(reply.send(outcome.clone()));
    }
}

/// Returns the stream's pipeline. It selects releases, revokes, and what an administrator does to the collection (all
/// operations but inserts, updates and replacements). It reports only the key, and the owner that a lock was revoked
/// from. The server stores a small change as the changed fields, and a larger one as the new document.
pub(crate) fn freed() -> Vec<Document> {
    vec![
        doc! { "$match": { "$or": [
            { "updateDescription.updatedFields.expires": NEVER },
            { "fullDocument.expires": NEVER },
            { "updateDescription.updatedFields.revoked": { "$exists": true } },
            { "fullDocument.revoked": { "$exists": true } },
            { "operationType": { "$nin": ["insert", "update", "replace"] } },
        ] } },
        doc! { "$project": { "operationType": 1, "ns": 1, "documentKey": 1,
        "updateDescription.updatedFields.revoked": 1, "fullDocument.revoked": 1 } },
    ]
}

/// Reads the stream until it breaks, or ends because the collection was dropped.
async fn read(mut stream: ChangeStream<Document>, sender: mpsc::UnboundedSender<Report>) {
    while stream.is_alive() {
        let event = match stream.next_if_any().await {
            Ok(event) => event,
            Err(_) => return,
        };
        let revoked = event.as_ref().and_then(revoked).map(Report::Revoked);
        let free = event.as_ref().and_then(key).map_or(Report::Nothing, Report::Free);
        if revoked.into_iter().chain([free]).any(|report| sender.send(report).is_err()) {
            return;
        }
    }
}

/// Returns the owner that a lock was revoked from, if the event is a revoke.
fn revoked(event: &Document) -> Option<Vec<u8>> {
    let updated =
        event.get_document("updateDescription").and_then(|update| update.get_document("updatedFields"));
    let changed = updated.or_else(|_| event.get_document("fullDocument")).ok()?;
    match changed.get("revoked")? {
        Bson::Binary(owner) => Some(owner.bytes.clone()),
        _ => None,
    }
}

fn key(event: &Document) -> Option<Vec<u8>> {
    match event.get_document("documentKey").ok()?.get("_id")? {
        Bson::Binary(key) => Some(key.bytes.clone()),
        _ => None,
    }
}
