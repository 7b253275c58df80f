//! The task behind the watches. It keeps one watch stream on the link in use, and opens it again when the stream breaks
//! or the link is given up.
//!
//! After a gap it wakes every claim that watches: a waiter looks again, and a holder asks for a proof.
//!
//! This is not a [`lock_core::toolkit::Feed`], because its watches differ in kind from subscriptions. Each claim has a
//! watch of its own, on one key and from a revision or twice from now on, under a number that is used once. Events and
//! the confirmations of all watches come on one stream, so no watch can be made while the stream is not read. And the
//! stream belongs to the link that all calls use, and ends with it.

mod stream;

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use etcd_client::{EventType, WatchOptions, WatchResponse};
use lock_core::toolkit::Call;
use lock_core::{Clock, Instant, Random};
use tokio::sync::{mpsc, watch};

use self::stream::{Request, Stream};
use crate::cluster::Cluster;
use crate::watches::{Entry, Kind, Order, Table, WatchError};

/// The time for which a holder's own key waits before it is watched.
const SOON: Duration = Duration::from_millis(50);
/// The pause after the stream broke, before the next try. It doubles with each try.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The task that receives events for all claims of a client. It runs from the first watch until the client is dropped.
#[derive(Debug)]
pub(crate) struct Feed {
    cluster: Arc<Cluster>,
    random: Random,
    patience: Duration,
    table: Table,
    orders: mpsc::UnboundedReceiver<Order>,
    links: watch::Receiver<u64>,
    /// Watches that are to be made, and when.
    soon: VecDeque<(Instant, i64)>,
    /// Watches that were refused once. An old login may be the reason, and a new stream has a new login.
    refused: HashSet<i64>,
}

/// Why the task leaves a stream.
enum StreamEnd {
    /// The client was dropped.
    Ended,
    Broken(String),
}

impl Feed {
    pub(crate) fn new(
        cluster: Arc<Cluster>,
        random: Random,
        patience: Duration,
        table: Table,
        orders: mpsc::UnboundedReceiver<Order>,
    ) -> Feed {
        let links = cluster.links();
        let (soon, refused) = (VecDeque::new(), HashSet::new());
        Feed { cluster, random, patience, table, orders, links, soon, refused }
    }

    pub(crate) async fn run(mut self, clock: Clock) {
        let mut pause = FIRST_PAUSE;
        loop {
            if !self.wait_until_needed(&clock).await {
                return;
            }
            self.links.mark_unchanged();
            let how = match self.open(&clock).await {
                Ok(mut stream) => match self.follow(&mut stream, &clock).await {
                    StreamEnd::Ended => return,
                    StreamEnd::Broken(how) => {
                        if stream.serves {
                            pause = FIRST_PAUSE;
                        }
                        self.cluster.give_up(&stream.link);
                        how
                    }
                },
                Err(how) => how,
            };
            // Until there is a stream again, waiters look by themselves.
            self.table.wake_all();
            self.refuse_all(&WatchError::Broken(how));
            if !self.wait_before_retry(&clock, pause).await {
                return;
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Waits until there is something to watch. Returns `false` when the client was dropped.
    async fn wait_until_needed(&mut self, clock: &Clock) -> bool {
        loop {
            self.forget_gone();
            if self.due(clock.now()).is_some() || self.wants_some() {
                return true;
            }
            let next = self.soon.front().map(|(at, _)| *at);
            tokio::select! {
                biased;
                order = self.orders.recv() => match order {
                    Some(order) => _ = self.accept(order, clock),
                    None => return false,
                },
                () = until(clock, next) => {}
            }
        }
    }

    /// Returns whether there is a watch that must be made at once.
    fn wants_some(&self) -> bool {
        !self.wanted().is_empty()
    }

    fn wanted(&self) -> Vec<i64> {
        let entries = self.table.entries();
        let may_not_wait = |entry: &Entry| entry.watched || matches!(entry.kind, Kind::Before);
        entries.watches.iter().filter(|(_, entry)| may_not_wait(entry)).map(|(id, _)| *id).collect()
    }

    /// Removes own keys that are gone from the list of later watches: most locks are released before the watch is made.
    fn forget_gone(&mut self) {
        let entries = self.table.entries();
        while self.soon.front().is_some_and(|(_, id)| !entries.watches.contains_key(id)) {
            self.soon.pop_front();
        }
    }

    /// Returns the next own key whose watch is due.
    fn due(&self, now: Instant) -> Option<i64> {
        self.soon.front().filter(|(at, _)| *at <= now).map(|(_, id)| *id)
    }

    /// Takes an order. Returns it if it has to be carried out at once.
    fn accept(&mut self, order: Order, clock: &Clock) -> Option<Order> {
        match order {
            Order::Soon(id) => {
                self.soon.push_back((clock.now() + SOON, id));
                None
            }
            order => Some(order),
        }
    }

    /// Opens a stream and makes every watch on it that a claim has.
    async fn open(&mut self, clock: &Clock) -> Result<Stream, String> {
        let call = &Call::begin(clock, self.patience);
        let link = self.cluster.link(call).await.map_err(|e| e.message().to_owned())?;
        let wanted = self.wanted();
        let first = match wanted.first() {
            Some(id) => Some((*id, Since::Now)),
            None => self.soon.pop_front().map(|(_, id)| (id, Since::Seen)),
        };
        let first = first.and_then(|(id, since)| Some((since, self.request(id, since)?)));
        let (since, first) = first.ok_or_else(|| "no claim watches any more".to_owned())?;
        let id = first.id;
        let mut stream = Stream::open(&self.cluster, call, self.patience, link, first).await?;
        stream.remade = self.made_before(&wanted);
        if since == Since::Now {
            self.make_once(&mut stream, id, since).await?;
        }
        for id in wanted.into_iter().skip(1) {
            self.make(&mut stream, id, Since::Now).await?;
        }
        Ok(stream)
    }

    /// Returns those of these watches that were made on an earlier stream.
    fn made_before(&self, wanted: &[i64]) -> HashSet<i64> {
        let entries = self.table.entries();
        let is_old = |id: &&i64| entries.watches.get(id).is_some_and(|entry| entry.made.is_none());
        wanted.iter().filter(is_old).copied().collect()
    }

    /// Returns the request for a watch. `None` if no claim has this watch any more.
    fn request(&self, id: i64, since: Since) -> Option<Request> {
        let mut entries = self.table.entries();
        let Entry { key, kind, watched, .. } = entries.watches.get_mut(&id)?;
        *watched = true;
        let options = match (kind, since) {
            (Kind::Own { modified, .. }, Since::Seen) => {
                WatchOptions::new().with_start_revision(*modified + 1)
            }
            _ => WatchOptions::new(),
        };
        Some(Request { id, key: key.clone(), options })
    }

    /// Makes a watch on the server. A watch from now on is made twice: see [`watches`](crate::watches).
    async fn make(&self, stream: &mut Stream, id: i64, since: Since) -> Result<(), String> {
        if since == Since::Now {
            self.make_once(stream, id, since).await?;
        }
        self.make_once(stream, id, since).await
    }

    async fn make_once(&self, stream: &mut Stream, id: i64, since: Since) -> Result<(), String> {
        match self.request(id, since) {
            Some(request) => stream.make(request).await,
            None => Ok(()),
        }
    }

    async fn follow(&mut self, stream: &mut Stream, clock: &Clock) -> StreamEnd {
        loop {
            let next = self.soon.front().map(|(at, _)| *at);
            let outcome = tokio::select! {
                biased;
                order = self.orders.recv() => match order {
                    Some(order) => self.carry_out(stream, order, clock).await,
                    None => return StreamEnd::Ended,
                },
                answer = stream.next() => match answer {
                    Ok(answer) => self.handle_answer(stream, &answer, clock).await,
                    Err(how) => Err(how),
                },
                _ = self.links.changed() => Err("the client changes to another member".to_owned()),
                () = until(clock, next) => match self.soon.pop_front() {
                    Some((_, id)) => self.make(stream, id, Since::Seen).await,
                    None => Ok(()),
                },
            };
            if let Err(how) = outcome {
                return StreamEnd::Broken(how);
            }
        }
    }

    async fn carry_out(&mut self, stream: &mut Stream, order: Order, clock: &Clock) -> Result<(), String> {
        match self.accept(order, clock) {
            // A watch that was made when the stream was opened exists already.
            Some(Order::Now(id)) if !stream.has(id) => self.make(stream, id, Since::Now).await,
            Some(Order::Gone(id)) if stream.has(id) => {
                self.refused.remove(&id);
                stream.cancel(id).await
            }
            _ => Ok(()),
        }
    }

    async fn handle_answer(
        &mut self,
        stream: &mut Stream,
        answer: &WatchResponse,
        clock: &Clock,
    ) -> Result<(), String> {
        self.cluster.note_header_term(answer.header());
        stream.link.note_answer(clock);
        let id = stream.watch_of(answer);
        if answer.canceled() {
            return self.handle_canceled(stream, id, answer).await;
        }
        if answer.created() {
            stream.serves = true;
            if let Some(entry) = self.table.entries().watches.get_mut(&id) {
                entry.report_made(Ok(()));
            }
            if stream.remade.remove(&id) {
                self.table.wake(id);
            }
            return Ok(());
        }
        let is_news = self.table.entries().watches.get(&id).is_some_and(|entry| is_news(&entry.kind, answer));
        if is_news {
            self.table.wake(id);
        }
        Ok(())
    }

    /// Handles a watch that the server has ended: because the client asked for it, because the revision was compacted,
    /// or because the user lacks the right.
    async fn handle_canceled(
        &mut self,
        stream: &mut Stream,
        id: i64,
        answer: &WatchResponse,
    ) -> Result<(), String> {
        if !stream.has(id) || !self.table.entries().watches.contains_key(&id) {
            return Ok(());
        }
        if answer.compact_revision() > 0 {
            stream.remade.insert(id);
            return self.make_once(stream, id, Since::Now).await;
        }
        if stream.serves && self.refused.insert(id) {
            return Err(format!("the server refused a watch: {}", answer.cancel_reason()));
        }
        let why = answer.cancel_reason().to_owned();
        if let Some(entry) = self.table.entries().watches.get_mut(&id) {
            entry.report_made(Err(WatchError::Refused(why)));
        }
        Ok(())
    }

    /// Tells every claim that waits for a watch that it cannot be made now.
    fn refuse_all(&self, error: &WatchError) {
        for entry in self.table.entries().watches.values_mut() {
            entry.report_made(Err(error.clone()));
        }
    }

    /// Waits before the next try, and takes orders meanwhile. Returns `false` when the client was dropped.
    async fn wait_before_retry(&mut self, clock: &Clock, pause: Duration) -> bool {
        let until = clock.now() + pause / 2 + self.random.up_to(pause / 2);
        loop {
            tokio::select! {
                biased;
                order = self.orders.recv() => match order {
                    Some(order) => _ = self.accept(order, clock),
                    None => return false,
                },
                () = clock.sleep_until(until) => return true,
            }
        }
    }
}

/// The revision from which a key is watched.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Since {
    Now,
    /// After the revision at which the key was last seen.
    Seen,
}

/// Returns whether these events concern the watcher. A put is only a move to another lease, unless it gives
/// the key another owner.
fn is_news(kind: &Kind, answer: &WatchResponse) -> bool {
    answer.events().iter().any(|event| match (event.event_type(), kind) {
        (EventType::Delete, _) => true,
        (EventType::Put, Kind::Before) => false,
        (EventType::Put, Kind::Own { value, .. }) => event.kv().is_some_and(|kv| kv.value() != value),
    })
}

async fn until(clock: &Clock, at: Option<Instant>) {
    match at {
        Some(at) => clock.sleep_until(at).await,
        None => std::future::pending().await,
    }
}
