//! The server's reports of releases and revokes: one change stream of all locks, open while a claim listens.
//!
//! The `mongodb` crate resumes a stream by itself after a failover. When it gives a stream up, or when a stream is
//! silent for too long, the feed opens a new one that starts at the present.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lock_core::driver::{Context, Wakes};
use lock_core::toolkit::{Audience, HumanDuration, Missed, Notice, Prefix, Source, SourceError, detached};
use lock_core::{Clock, Instant};
use mongodb::bson::{Bson, Document, doc};
use mongodb::change_stream::ChangeStream;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use crate::errors;
use crate::profile::Profile;
use crate::server::Current;
use crate::statements::{HEARD, NEVER};

/// The time for which the server waits for an event before it answers that there is none.
const MAX_AWAIT_TIME: Duration = Duration::from_secs(1);

/// The only topic. The stream is of all locks that may have become free, not only of those that claims listen to: the
/// names that claims listen to change more often than a stream can be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct AllLocks;

/// The change streams of one collection.
#[derive(Debug)]
pub(crate) struct Streams {
    current: Current,
    profile: Arc<Profile>,
    prefix: Prefix,
    clock: Clock,
    patience: Duration,
}

/// A stream, read by a task of its own: the futures of the `mongodb` crate must not be dropped half-way.
pub(crate) struct StreamReader {
    notices: mpsc::UnboundedReceiver<Notice>,
    /// When it has been silent for too long.
    silent_at: Instant,
    task: AbortHandle,
}

impl Drop for StreamReader {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Streams {
    pub(crate) fn new(current: Current, profile: Arc<Profile>, prefix: Prefix, context: &Context) -> Streams {
        Streams { current, profile, prefix, clock: context.clock.clone(), patience: context.patience }
    }

    async fn open_stream(&self) -> Result<StreamReader, SourceError> {
        let link = self.current.get();
        let opening = async move {
            let watch = link.locks().watch().pipeline(freed()).max_await_time(MAX_AWAIT_TIME).await;
            Ok(watch.map(ChangeStream::with_type::<Document>))
        };
        let stream = match detached(&self.clock, self.patience, opening).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(e)) if errors::refuses_streams(&e) => {
                return Err(SourceError::Refused(format!("{REFUSED}: {}", errors::words(&e))));
            }
            Ok(Err(e)) => return Err(SourceError::Broken(errors::words(&e))),
            Err(_) => {
                return Err(SourceError::Broken(format!(
                    "no change stream within {}",
                    HumanDuration(self.patience)
                )));
            }
        };
        let (sender, notices) = mpsc::unbounded_channel();
        let task = tokio::spawn(read(stream, self.prefix.clone(), sender)).abort_handle();
        Ok(StreamReader { notices, silent_at: self.silent_at(), task })
    }

    /// Returns until when a stream that was heard now may be silent.
    fn silent_at(&self) -> Instant {
        self.clock.now() + MAX_AWAIT_TIME + self.patience
    }
}

/// Subscribing opens the stream and unsubscribing closes it: a stream can't be open without reporting. The connection
/// is the stream, if it is open; what it is opened on belongs to the `mongodb` crate.
///
/// There is no [`check`](Source::check), because no question can be asked on a stream. The server answers each second
/// that there is no event, and `next` notices if it does not.
#[async_trait]
impl Source for Streams {
    type Topic = AllLocks;
    type Connection = Option<StreamReader>;

    fn audience(_: &AllLocks) -> Audience<'_> {
        Audience::All
    }

    async fn open(&self) -> Result<Option<StreamReader>, SourceError> {
        Ok(None)
    }

    async fn subscribe(
        &self,
        stream: &mut Option<StreamReader>,
        _: &[AllLocks],
    ) -> Result<Missed, SourceError> {
        if stream.is_none() {
            *stream = Some(self.open_stream().await?);
        }
        Ok(Missed::Nothing)
    }

    async fn unsubscribe(
        &self,
        stream: &mut Option<StreamReader>,
        _: &[AllLocks],
    ) -> Result<(), SourceError> {
        *stream = None;
        Ok(())
    }

    async fn next(&self, stream: &mut Option<StreamReader>) -> Result<Notice, SourceError> {
        let Some(reader) = stream else { return std::future::pending().await };
        tokio::select! {
            biased;
            notice = reader.notices.recv() => {
                reader.silent_at = self.silent_at();
                notice.ok_or_else(|| SourceError::Broken("the change stream ended".to_owned()))
            }
            () = self.clock.sleep_until(reader.silent_at) => {
                Err(SourceError::Broken("the change stream was silent for too long".to_owned()))
            }
        }
    }

    fn learned(&self, _: &AllLocks, wakes: Wakes) {
        self.profile.learn_wakes(wakes);
    }
}

/// Returns the stream's pipeline. It selects releases, revokes, and what an administrator does to the collection (all
/// operations but inserts, updates and replacements). It reports only the key, the owner that a lock was revoked from, and
/// how many releases its last owner had heard. The server stores a small change as the changed fields, and a larger one as
/// the new document.
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
        "updateDescription.updatedFields.revoked": 1, "fullDocument.revoked": 1,
        "updateDescription.updatedFields.heard": 1, "fullDocument.heard": 1 } },
    ]
}

/// Reads the stream until it breaks, or ends because the collection was dropped.
async fn read(mut stream: ChangeStream<Document>, prefix: Prefix, sender: mpsc::UnboundedSender<Notice>) {
    while stream.is_alive() {
        let event = match stream.next_if_any().await {
            Ok(event) => event,
            Err(_) => return,
        };
        let revoked = event.as_ref().and_then(revoked).map(Notice::Revoked);
        let released = event
            .as_ref()
            .and_then(|event| Some(Notice::ReleasedAfter(released(event, &prefix)?, heard(event))));
        // Also without an event: it shows that the stream works.
        let released = released.unwrap_or(Notice::Other);
        if revoked.into_iter().chain([released]).any(|notice| sender.send(notice).is_err()) {
            return;
        }
    }
}

/// Returns the owner that a lock was revoked from, if the event is a revoke.
fn revoked(event: &Document) -> Option<String> {
    match changed(event)?.get("revoked")? {
        Bson::Binary(owner) => Some(owner.bytes.iter().map(|byte| format!("{byte:02x}")).collect()),
        _ => None,
    }
}

/// Returns how many releases the last owner had heard while it waited. An owner that did not wait says nothing.
fn heard(event: &Document) -> u32 {
    let heard = changed(event).and_then(|changed| changed.get_i64(HEARD).ok());
    heard.and_then(|heard| u32::try_from(heard).ok()).unwrap_or(0)
}

/// Returns what the event tells of the document.
fn changed(event: &Document) -> Option<&Document> {
    let updated =
        event.get_document("updateDescription").and_then(|update| update.get_document("updatedFields"));
    updated.or_else(|_| event.get_document("fullDocument")).ok()
}

/// Returns the name of the lock that the event is about, if it has our prefix.
fn released(event: &Document, prefix: &Prefix) -> Option<String> {
    match event.get_document("documentKey").ok()?.get("_id")? {
        Bson::Binary(key) => {
            let key = std::str::from_utf8(&key.bytes).ok()?;
            prefix.strip(key).map(str::to_owned)
        }
        _ => None,
    }
}

const REFUSED: &str = "the server refuses a change stream; waiters ask again and again instead";
