//! The task behind the watches: one stream on the link in use, opened again when that breaks or is given up.
//!
//! After a gap everybody is woken: whoever waits looks again, whoever holds asks for a proof.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use etcd_client::{EventType, WatchOptions, WatchRequestSender, WatchResponse, WatchResponseStream};
use lock_core::driver::Call;
use lock_core::{Clock, Instant, Random};
use tokio::sync::{mpsc, watch};

use crate::cluster::{Cluster, Link};
use crate::errors;
use crate::watches::{Entry, Kind, Order, Table, Trouble};

/// After how long an own key is watched.
const SOON: Duration = Duration::from_millis(50);
/// After the stream broke, before it is tried again; doubled each time.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// A watch is made more than once on the server, and each time under another number: this many fit.
const NUMBERS: i64 = 1 << 20;

/// Hears for all claims of a client, from the first watch until nobody can want anything any more.
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
    /// Watches that were refused once: perhaps for an old login, which a new stream has not.
    refused: HashSet<i64>,
}

/// A stream, and what is watched on it.
struct Stream {
    link: Arc<Link>,
    requests: WatchRequestSender,
    answers: WatchResponseStream,
    /// How often each was made. The server remembers the numbers of those that it has ended itself.
    watched: HashMap<i64, i64>,
    /// Those that were watched before, on another one or until a compaction: what happened in between is unknown.
    remade: HashSet<i64>,
    /// Whether the server has made anything on it.
    serves: bool,
}

/// Why a stream is left.
enum Left {
    /// Nobody can want anything any more.
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
            if !self.is_needed(&clock).await {
                return;
            }
            self.links.mark_unchanged();
            let how = match self.open(&clock).await {
                Ok(mut stream) => match self.follow(&mut stream, &clock).await {
                    Left::Ended => return,
                    Left::Broken(how) => {
                        if stream.serves {
                            pause = FIRST_PAUSE;
                        }
                        self.cluster.give_up(&stream.link);
                        how
                    }
                },
                Err(how) => how,
            };
            // Who waits looks by itself until there is a stream again.
            self.table.wake_all();
            self.refuse_all(&Trouble::Broken(how));
            if !self.rest(&clock, pause).await {
                return;
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Waits until there is something to watch. `false` if there can't be any more.
    async fn is_needed(&mut self, clock: &Clock) -> bool {
        loop {
            self.forget_gone();
            if self.due(clock.now()).is_some() || self.wants_some() {
                return true;
            }
            let next = self.soon.front().map(|(at, _)| *at);
            tokio::select! {
                biased;
                order = self.orders.recv() => match order {
                    Some(order) => _ = self.takes(order, clock),
                    None => return false,
                },
                () = until(clock, next) => {}
            }
        }
    }

    /// Whether anything is watched that need not wait.
    fn wants_some(&self) -> bool {
        !self.wanted().is_empty()
    }

    fn wanted(&self) -> Vec<i64> {
        let entries = self.table.entries();
        let may_not_wait = |entry: &Entry| entry.watched || matches!(entry.kind, Kind::Before);
        entries.watches.iter().filter(|(_, entry)| may_not_wait(entry)).map(|(id, _)| *id).collect()
    }

    /// Most own keys are given back before they are watched.
    fn forget_gone(&mut self) {
        let entries = self.table.entries();
        while self.soon.front().is_some_and(|(_, id)| !entries.watches.contains_key(id)) {
            self.soon.pop_front();
        }
    }

    /// The next own key that is to be watched by now.
    fn due(&self, now: Instant) -> Option<i64> {
        self.soon.front().filter(|(at, _)| *at <= now).map(|(_, id)| *id)
    }

    /// Takes note of an order; the watch to be made at once, or to be taken back.
    fn takes(&mut self, order: Order, clock: &Clock) -> Option<Order> {
        match order {
            Order::Soon(id) => {
                self.soon.push_back((clock.now() + SOON, id));
                None
            }
            order => Some(order),
        }
    }

    /// Opens a stream and makes all watches on it that somebody has.
    async fn open(&mut self, clock: &Clock) -> Result<Stream, String> {
        let call = &Call::begin(clock, self.patience);
        let link = self.cluster.link(call).await.map_err(|e| e.message().to_owned())?;
        let wanted = self.wanted();
        let first = match wanted.first() {
            Some(id) => Some((*id, Since::Now)),
            None => self.soon.pop_front().map(|(_, id)| (id, Since::Seen)),
        };
        let first = first.and_then(|(id, since)| Some((id, since, self.options(id, since)?)));
        let (id, since, (key, options)) = first.ok_or_else(|| "nobody watches any more".to_owned())?;
        let mut watch = link.client.watch_client();
        let stream = match call.within(watch.watch(key, Some(options.with_watch_id(id * NUMBERS)))).await {
            Some(Ok(stream)) => stream,
            Some(Err(e)) => {
                self.cluster.give_up(&link);
                return Err(errors::words(&e));
            }
            None => {
                self.cluster.is_silent(&link, call);
                return Err(format!("no stream of watches within {:?}", self.patience));
            }
        };
        let (requests, answers) = stream.split();
        let remade = {
            let entries = self.table.entries();
            let is_old = |id: &&i64| entries.watches.get(id).is_some_and(|entry| entry.made.is_none());
            wanted.iter().filter(is_old).copied().collect()
        };
        let watched = HashMap::from([(id, 1)]);
        let mut stream = Stream { link, requests, answers, watched, remade, serves: false };
        if since == Since::Now {
            self.make_once(&mut stream, id, since, clock).await?;
        }
        for id in wanted.into_iter().skip(1) {
            self.make(&mut stream, id, Since::Now, clock).await?;
        }
        Ok(stream)
    }

    /// What to ask for; nothing if nobody has this watch any more.
    fn options(&self, id: i64, since: Since) -> Option<(Vec<u8>, WatchOptions)> {
        let mut entries = self.table.entries();
        let Entry { key, kind, watched, .. } = entries.watches.get_mut(&id)?;
        *watched = true;
        let options = match (kind, since) {
            (Kind::Own { modified, .. }, Since::Seen) => {
                WatchOptions::new().with_start_revision(*modified + 1)
            }
            _ => WatchOptions::new(),
        };
        Some((key.clone(), options))
    }

    /// Makes a watch: one from now on twice.
    async fn make(&self, stream: &mut Stream, id: i64, since: Since, clock: &Clock) -> Result<(), String> {
        if since == Since::Now {
            self.make_once(stream, id, since, clock).await?;
        }
        self.make_once(stream, id, since, clock).await
    }

    async fn make_once(
        &self,
        stream: &mut Stream,
        id: i64,
        since: Since,
        clock: &Clock,
    ) -> Result<(), String> {
        let Some((key, options)) = self.options(id, since) else { return Ok(()) };
        let made = stream.watched.entry(id).or_default();
        let options = options.with_watch_id(id * NUMBERS + *made);
        *made += 1;
        sent(clock.timeout(self.patience, stream.requests.watch(key, Some(options))).await)
    }

    async fn follow(&mut self, stream: &mut Stream, clock: &Clock) -> Left {
        loop {
            let next = self.soon.front().map(|(at, _)| *at);
            let outcome = tokio::select! {
                biased;
                order = self.orders.recv() => match order {
                    Some(order) => self.obey(stream, order, clock).await,
                    None => return Left::Ended,
                },
                answer = stream.answers.message() => match answer {
                    Ok(Some(answer)) => self.hear(stream, &answer, clock).await,
                    Ok(None) => Err("the stream of watches has ended".to_owned()),
                    Err(e) => Err(errors::words(&e)),
                },
                _ = self.links.changed() => Err("another member is asked now".to_owned()),
                () = until(clock, next) => match self.soon.pop_front() {
                    Some((_, id)) => self.make(stream, id, Since::Seen, clock).await,
                    None => Ok(()),
                },
            };
            if let Err(how) = outcome {
                return Left::Broken(how);
            }
        }
    }

    async fn obey(&mut self, stream: &mut Stream, order: Order, clock: &Clock) -> Result<(), String> {
        match self.takes(order, clock) {
            // One that was made when the stream was opened is there.
            Some(Order::Now(id)) if !stream.watched.contains_key(&id) => {
                self.make(stream, id, Since::Now, clock).await
            }
            Some(Order::Gone(id)) => {
                let Some(made) = stream.watched.remove(&id) else { return Ok(()) };
                self.refused.remove(&id);
                for number in (id * NUMBERS..).take(usize::try_from(made).unwrap_or_default()) {
                    sent(clock.timeout(self.patience, stream.requests.cancel(number)).await)?;
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    async fn hear(
        &mut self,
        stream: &mut Stream,
        answer: &WatchResponse,
        clock: &Clock,
    ) -> Result<(), String> {
        self.cluster.hears(answer.header());
        stream.link.is_heard(clock);
        let id = answer.watch_id() / NUMBERS;
        if answer.canceled() {
            return self.canceled(stream, id, answer, clock).await;
        }
        if answer.created() {
            stream.serves = true;
            if let Some(entry) = self.table.entries().watches.get_mut(&id) {
                entry.is_made(Ok(()));
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

    /// The server ends a watch: because we asked, because what it would tell was compacted, or because this user may not.
    async fn canceled(
        &mut self,
        stream: &mut Stream,
        id: i64,
        answer: &WatchResponse,
        clock: &Clock,
    ) -> Result<(), String> {
        if !stream.watched.contains_key(&id) || !self.table.entries().watches.contains_key(&id) {
            return Ok(());
        }
        if answer.compact_revision() > 0 {
            stream.remade.insert(id);
            return self.make_once(stream, id, Since::Now, clock).await;
        }
        if stream.serves && self.refused.insert(id) {
            return Err(format!("a watch was refused: {}", answer.cancel_reason()));
        }
        let why = answer.cancel_reason().to_owned();
        if let Some(entry) = self.table.entries().watches.get_mut(&id) {
            entry.is_made(Err(Trouble::Refused(why)));
        }
        Ok(())
    }

    /// Nobody waits for a watch that can't be made now.
    fn refuse_all(&self, trouble: &Trouble) {
        for entry in self.table.entries().watches.values_mut() {
            entry.is_made(Err(trouble.clone()));
        }
    }

    /// Waits before the next try, and takes orders meanwhile. `false` if nobody can want anything any more.
    async fn rest(&mut self, clock: &Clock, pause: Duration) -> bool {
        let until = clock.now() + pause / 2 + self.random.up_to(pause / 2);
        loop {
            tokio::select! {
                biased;
                order = self.orders.recv() => match order {
                    Some(order) => _ = self.takes(order, clock),
                    None => return false,
                },
                () = clock.sleep_until(until) => return true,
            }
        }
    }
}

/// From where on a key is watched.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Since {
    Now,
    /// From where it was last seen.
    Seen,
}

/// Whether these events are any of the watcher's business. A put is a move to another lease, unless the key has become
/// another's.
fn is_news(kind: &Kind, answer: &WatchResponse) -> bool {
    answer.events().iter().any(|event| match (event.event_type(), kind) {
        (EventType::Delete, _) => true,
        (EventType::Put, Kind::Before) => false,
        (EventType::Put, Kind::Own { value, .. }) => event.kv().is_some_and(|kv| kv.value() != value),
    })
}

fn sent(sent: Option<Result<(), etcd_client::Error>>) -> Result<(), String> {
    match sent {
        Some(Ok(())) => Ok(()),
        _ => Err("the stream of watches takes nothing more".to_owned()),
    }
}

async fn until(clock: &Clock, at: Option<Instant>) {
    match at {
        Some(at) => clock.sleep_until(at).await,
        None => std::future::pending().await,
    }
}
