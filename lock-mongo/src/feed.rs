//! The task behind the wake-ups: opens the change stream, hears, opens it again.
//!
//! The driver resumes a stream by itself after a failover. What it gives up on, and a stream that has fallen silent, is
//! opened anew from now on; whatever was released in between is made good by waking everybody.

use std::sync::Arc;
use std::time::Duration;

use lock_core::driver::Wakes;
use lock_core::{Clock, Context, Hub, Prefix, Random, detached};
use mongodb::bson::{Bson, Document, doc};
use mongodb::change_stream::ChangeStream;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::AbortHandle;

use crate::errors;
use crate::profile::Profile;
use crate::server::Current;
use crate::statements::NEVER;

/// How long the stream stays open at least when nobody listens any more: a name that is handed over often is not
/// listened to anew each time.
const IDLE: Duration = Duration::from_secs(2);
/// How long the server waits for something to tell before it says that there is nothing.
const BEAT: Duration = Duration::from_secs(1);
/// After the stream broke, before it is tried again; doubled each time.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// A claim wants to hear; it is told when it does.
#[derive(Debug)]
pub(crate) struct Order(pub(crate) oneshot::Sender<Result<(), Trouble>>);

/// Why the stream can't be opened, or is open no longer.
#[derive(Clone, Debug)]
pub(crate) enum Trouble {
    /// The server won't do it for this user.
    Refused(String),
    Broken(String),
}

/// Hears for all claims of a client, from the first listen until nobody can want anything any more.
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
    orders: mpsc::UnboundedReceiver<Order>,
}

/// The claims of a client that hear. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hubs {
    /// By the name that they wait for.
    pub(crate) waiters: Hub,
    /// By the owner that holds.
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

/// What the stream tells.
enum Heard {
    /// The lock with this key may be free.
    Free(Vec<u8>),
    /// A lock was taken from this owner.
    Revoked(Vec<u8>),
    /// Nothing, but it lives.
    Nothing,
}

/// The stream, read by a task of its own, whose futures must not be dropped half-way.
struct Tail {
    heard: mpsc::UnboundedReceiver<Heard>,
    task: AbortHandle,
}

impl Drop for Tail {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Why a stream is left.
enum Left {
    /// Nobody can want anything of it any more.
    Ended,
    /// Nobody listens.
    Idle,
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
        orders: mpsc::UnboundedReceiver<Order>,
    ) -> Feed {
        let Context { clock, random, patience } = context;
        Feed { current, profile, prefix, clock, random, patience, hubs, open, orders }
    }

    pub(crate) async fn run(mut self) {
        let mut waiting = Vec::new();
        let mut pause = FIRST_PAUSE;
        loop {
            if waiting.is_empty() && self.hubs.are_empty() {
                let Some(order) = self.orders.recv().await else { return };
                waiting.push(order);
            }
            match self.tail().await {
                Ok(mut tail) => {
                    pause = FIRST_PAUSE;
                    self.profile.learn_wakes(Wakes::Pushed);
                    self.open.send_replace(true);
                    answer(&mut waiting, &Ok(()));
                    // What was told while there was no stream is lost.
                    self.hubs.wake_all();
                    match self.follow(&mut tail).await {
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
            if !self.rest(pause, &mut waiting).await {
                return;
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Opens a stream of everything that may have become free, whoever listens: which names are listened to changes
    /// more often than a stream can be opened.
    async fn tail(&self) -> Result<Tail, Trouble> {
        let link = self.current.get();
        let opening = async move {
            let watch = link.locks().watch().pipeline(freed()).max_await_time(BEAT).await;
            Ok(watch.map(ChangeStream::with_type::<Document>))
        };
        let stream = match detached(&self.clock, self.patience, opening).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(e)) if errors::refuses_streams(&e) => return Err(Trouble::Refused(errors::words(&e))),
            Ok(Err(e)) => return Err(Trouble::Broken(errors::words(&e))),
            Err(_) => return Err(Trouble::Broken(format!("no change stream within {:?}", self.patience))),
        };
        let (told, heard) = mpsc::unbounded_channel();
        let task = tokio::spawn(read(stream, told)).abort_handle();
        Ok(Tail { heard, task })
    }

    /// Wakes whom the stream tells of, until it breaks or nobody listens.
    async fn follow(&mut self, tail: &mut Tail) -> Left {
        let mut silent_at = self.clock.now() + BEAT + self.patience;
        let mut look = self.clock.now() + IDLE;
        let mut was_idle = false;
        let left = loop {
            tokio::select! {
                biased;
                heard = tail.heard.recv() => match heard {
                    Some(Heard::Free(key)) => {
                        silent_at = self.clock.now() + BEAT + self.patience;
                        self.wake(&key);
                    }
                    Some(Heard::Revoked(owner)) => self.tell(&owner),
                    Some(Heard::Nothing) => silent_at = self.clock.now() + BEAT + self.patience,
                    None => break Left::Broken,
                },
                order = self.orders.recv() => match order {
                    Some(Order(reply)) => drop(reply.send(Ok(()))),
                    None => break Left::Ended,
                },
                () = self.clock.sleep_until(silent_at) => break Left::Broken,
                () = self.clock.sleep_until(look) => {
                    look = self.clock.now() + IDLE;
                    let is_idle = self.hubs.are_empty();
                    if is_idle && was_idle {
                        self.open.send_replace(false);
                        // Whoever has registered before it was closed took it for open.
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

    fn tell(&self, owner: &[u8]) {
        let digits: String = owner.iter().map(|byte| format!("{byte:02x}")).collect();
        self.hubs.holders.wake(&digits);
    }

    fn wake(&self, key: &[u8]) {
        if let Some(name) = std::str::from_utf8(key).ok().and_then(|key| self.prefix.strip(key)) {
            self.hubs.waiters.wake(name);
        }
    }

    /// Waits before the next try, and takes orders meanwhile. `false` if nobody can want anything any more.
    async fn rest(&mut self, pause: Duration, waiting: &mut Vec<Order>) -> bool {
        let until = self.clock.now() + pause / 2 + self.random.up_to(pause / 2);
        loop {
            tokio::select! {
                biased;
                order = self.orders.recv() => match order {
                    Some(order) => waiting.push(order),
                    None => return false,
                },
                () = self.clock.sleep_until(until) => return true,
            }
        }
    }
}

fn answer(waiting: &mut Vec<Order>, outcome: &Result<(), Trouble>) {
    for Order(reply) in waiting.drain(..) {
        // Who asked may have gone.
        drop(reply.send(outcome.clone()));
    }
}

/// Tells of releases, of locks that were revoked, and of whatever an administrator does to the collection; of that only
/// the key, and from whom a lock was revoked. A small change is stored as what it changed, a greater one as the new document.
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
async fn read(mut stream: ChangeStream<Document>, told: mpsc::UnboundedSender<Heard>) {
    while stream.is_alive() {
        let event = match stream.next_if_any().await {
            Ok(event) => event,
            Err(_) => return,
        };
        let revoked = event.as_ref().and_then(revoked).map(Heard::Revoked);
        let free = event.as_ref().and_then(key).map_or(Heard::Nothing, Heard::Free);
        if revoked.into_iter().chain([free]).any(|heard| told.send(heard).is_err()) {
            return;
        }
    }
}

/// From whom a lock was revoked, if that is what happened.
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
