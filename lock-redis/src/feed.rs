//! The task behind the wake-ups: it subscribes, receives messages, and reconnects.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use lock_core::driver::{Context, Hub, Wakes};
use lock_core::{Clock, Name, Random};
use redis::aio::{PubSubSink, PubSubStream};
use redis::{Msg, RedisResult};
use tokio::sync::{mpsc, oneshot};

use crate::errors;
use crate::profile::Profile;
use crate::wakes::Subscribed;

/// The shortest time for which a channel without listeners stays subscribed, so that a name that is handed over often
/// is not subscribed anew each time.
const IDLE: Duration = Duration::from_secs(1);
/// The pause before the next connection after one broke; doubled each time.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// The name of a channel on the server.
pub(crate) type Channel = Arc<[u8]>;

/// What a channel's messages are about.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Topic {
    /// This name may be free.
    Releases(Name),
    /// Which lock was revoked, of all locks with the client's prefix.
    Revokes,
}

/// The claims of a client that listen. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hubs {
    /// Waiters, by the name that they wait for.
    pub(crate) waiters: Hub,
    /// Holders, by their owner.
    pub(crate) holders: Hub,
}

impl Hubs {
    /// Returns whether a claim listens to this topic.
    fn has(&self, topic: &Topic) -> bool {
        match topic {
            Topic::Releases(name) => self.waiters.has(name.as_str()),
            Topic::Revokes => !self.holders.is_empty(),
        }
    }

    fn wake(&self, topic: &Topic, message: &Msg) {
        match topic {
            Topic::Releases(name) => self.waiters.wake(name.as_str()),
            Topic::Revokes => {
                let owner = std::str::from_utf8(message.get_payload_bytes());
                owner.into_iter().for_each(|owner| self.holders.wake(owner));
            }
        }
    }

    fn wake_all(&self) {
        self.waiters.wake_all();
        self.holders.wake_all();
    }
}

/// A claim's request to subscribe a channel.
#[derive(Debug)]
pub(crate) struct Order {
    pub(crate) topic: Topic,
    pub(crate) channel: Channel,
    pub(crate) reply: oneshot::Sender<Result<(), Trouble>>,
}

/// Why a channel was not subscribed.
#[derive(Clone, Debug)]
pub(crate) enum Trouble {
    /// The server's access rules forbid it.
    Refused,
    Broken(String),
}

/// Receives messages for all claims of a client, from the first listen until the client is dropped.
#[derive(Debug)]
pub(crate) struct Feed {
    client: redis::Client,
    profile: Arc<Profile>,
    clock: Clock,
    random: Random,
    patience: Duration,
    hubs: Hubs,
    subscribed: Subscribed,
    orders: mpsc::UnboundedReceiver<Order>,
}

/// The channels that are to be subscribed.
type Wanted = HashMap<Channel, Subscriber>;

/// What a channel is about, and the claims that wait until it is subscribed.
struct Subscriber {
    topic: Topic,
    /// An earlier connection was subscribed to this channel. Messages since then are lost, whichever claim has asked
    /// for the channel meanwhile.
    heard_before: bool,
    replies: Vec<oneshot::Sender<Result<(), Trouble>>>,
}

impl Subscriber {
    fn new(topic: Topic) -> Subscriber {
        Subscriber { topic, heard_before: false, replies: Vec::new() }
    }

    fn answer(&mut self, outcome: Result<(), Trouble>) {
        for reply in self.replies.drain(..) {
            // The claim may have stopped waiting for the reply.
            let _: Result<(), _> = reply.send(outcome.clone());
        }
    }
}

/// One connection, and the channels that are subscribed on it.
struct Connection {
    sink: PubSubSink,
    messages: PubSubStream,
    topics: HashMap<Channel, Topic>,
}

/// Why the feed ended on a connection.
enum Ended {
    /// The client was dropped.
    ClientDropped,
    Broken(String),
}

impl Feed {
    pub(crate) fn new(
        client: redis::Client,
        profile: Arc<Profile>,
        context: Context,
        hubs: Hubs,
        subscribed: Subscribed,
        orders: mpsc::UnboundedReceiver<Order>,
    ) -> Feed {
        let Context { clock, random, patience, .. } = context;
        Feed { client, profile, clock, random, patience, hubs, subscribed, orders }
    }

    pub(crate) async fn run(mut self) {
        let mut wanted = Wanted::new();
        let mut pause = FIRST_PAUSE;
        loop {
            if wanted.is_empty() {
                let Some(order) = self.orders.recv().await else { return };
                add(&mut wanted, order);
            }
            let trouble = match self.connect().await {
                Ok(mut connection) => {
                    pause = FIRST_PAUSE;
                    let ended = self.feed(&mut connection, &mut wanted).await;
                    for (channel, topic) in connection.topics {
                        wanted.entry(channel).or_insert_with(|| Subscriber::new(topic)).heard_before = true;
                    }
                    match ended {
                        Ended::ClientDropped => return,
                        Ended::Broken(trouble) => trouble,
                    }
                }
                Err(trouble) => trouble,
            };
            self.report_break(&mut wanted, &trouble);
            if !self.rest(pause, &mut wanted).await {
                return;
            }
            wanted.retain(|_, subscriber| self.hubs.has(&subscriber.topic));
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    async fn connect(&self) -> Result<Connection, String> {
        match self.clock.timeout(self.patience, self.client.get_async_pubsub()).await {
            Some(Ok(connection)) => {
                let (sink, messages) = connection.split();
                Ok(Connection { sink, messages, topics: HashMap::new() })
            }
            Some(Err(e)) => Err(errors::connecting(e).message().to_owned()),
            None => Err(format!("no subscription connection within {:?}", self.patience)),
        }
    }

    /// Passes on the messages of one connection until it breaks.
    async fn feed(&mut self, connection: &mut Connection, wanted: &mut Wanted) -> Ended {
        let restored = wanted.values().any(|subscriber| subscriber.heard_before);
        if let Err(ended) = self.subscribe(connection, wanted).await {
            return ended;
        }
        if restored {
            // Messages that were published while there was no connection are lost.
            self.hubs.wake_all();
        }
        let mut sweep = self.clock.now() + IDLE;
        let mut idle = HashSet::new();
        loop {
            let done = tokio::select! {
                biased;
                message = connection.messages.next() => match message {
                    Some(message) => {
                        if let Some(topic) = connection.topics.get(message.get_channel_name().as_bytes()) {
                            self.hubs.wake(topic, &message);
                        }
                        Ok(())
                    }
                    None => Err(Ended::Broken("the subscription connection broke".to_owned())),
                },
                order = self.orders.recv() => match order {
                    Some(order) => {
                        add(wanted, order);
                        // Orders that came meanwhile are subscribed with the same command.
                        while let Ok(order) = self.orders.try_recv() {
                            add(wanted, order);
                        }
                        self.subscribe(connection, wanted).await
                    }
                    None => Err(Ended::ClientDropped),
                },
                () = self.clock.sleep_until(sweep), if !connection.topics.is_empty() => {
                    sweep = self.clock.now() + IDLE;
                    self.sweep(connection, &mut idle).await
                }
            };
            if let Err(ended) = done {
                return ended;
            }
        }
    }

    /// Subscribes all wanted channels, and answers the claims that wait for them.
    async fn subscribe(&self, connection: &mut Connection, wanted: &mut Wanted) -> Result<(), Ended> {
        let together: Vec<Channel> = wanted.keys().cloned().collect();
        match self.subscribe_to(connection, &together, wanted).await {
            Err(Trouble::Refused) => {}
            outcome => return outcome.or_else(broken),
        }
        // The server refuses the whole command because of one channel.
        for channel in together {
            if let Err(trouble) = self.subscribe_to(connection, std::slice::from_ref(&channel), wanted).await
            {
                let Trouble::Refused = trouble else { return broken(trouble) };
                if let Some(mut refused) = wanted.remove(&channel) {
                    self.learns_of(&refused.topic, Wakes::Polled);
                    refused.answer(Err(Trouble::Refused));
                }
            }
        }
        Ok(())
    }

    async fn subscribe_to(
        &self,
        connection: &mut Connection,
        channels: &[Channel],
        wanted: &mut Wanted,
    ) -> Result<(), Trouble> {
        let arguments: Vec<&[u8]> = channels.iter().map(|channel| &channel[..]).collect();
        self.bounded(connection.sink.subscribe(arguments)).await?;
        for channel in channels {
            let Some(mut subscriber) = wanted.remove(channel) else { continue };
            self.learns_of(&subscriber.topic, Wakes::Pushed);
            self.subscribed.with(|topics| topics.insert(subscriber.topic.clone()));
            subscriber.answer(Ok(()));
            connection.topics.insert(channel.clone(), subscriber.topic);
        }
        Ok(())
    }

    /// Records how waiters learn of a release. Only the channel of a name shows that, not the channel of revokes.
    fn learns_of(&self, topic: &Topic, wakes: Wakes) {
        if let Topic::Releases(_) = topic {
            self.profile.learn_wakes(wakes);
        }
    }

    /// Unsubscribes channels that had no listeners at two sweeps in a row.
    async fn sweep(&self, connection: &mut Connection, idle: &mut HashSet<Topic>) -> Result<(), Ended> {
        let unheard = connection.topics.values().filter(|topic| !self.hubs.has(topic));
        let unheard: HashSet<Topic> = unheard.cloned().collect();
        let mut leaving: HashSet<Topic> = unheard.intersection(idle).cloned().collect();
        *idle = unheard;
        self.subscribed.with(|topics| {
            // A claim registers as a listener first and then looks under this lock, so no channel is removed under a
            // claim that has registered.
            leaving.retain(|topic| !self.hubs.has(topic) && topics.remove(topic));
        });
        let gone = connection.topics.extract_if(|_, topic| leaving.contains(topic));
        let gone: Vec<Channel> = gone.map(|(channel, _)| channel).collect();
        if gone.is_empty() {
            return Ok(()); // an UNSUBSCRIBE without channels means all
        }
        let arguments: Vec<&[u8]> = gone.iter().map(|channel| &channel[..]).collect();
        self.bounded(connection.sink.unsubscribe(arguments)).await.or_else(broken)
    }

    async fn bounded(&self, request: impl Future<Output = RedisResult<()>>) -> Result<(), Trouble> {
        match self.clock.timeout(self.patience, request).await {
            Some(Ok(())) => Ok(()),
            Some(Err(e)) if errors::is_refusal(&e) => Err(Trouble::Refused),
            Some(Err(e)) => Err(Trouble::Broken(errors::connecting(e).message().to_owned())),
            None => Err(Trouble::Broken(format!("no subscription within {:?}", self.patience))),
        }
    }

    /// Tells claims that no messages arrive from now on: wakes those that listen, so that they look, and answers those
    /// that wait for a subscription.
    fn report_break(&self, wanted: &mut Wanted, trouble: &str) {
        for subscriber in wanted.values_mut() {
            subscriber.answer(Err(Trouble::Broken(trouble.to_owned())));
        }
        if self.subscribed.with(|topics| std::mem::take(topics).is_empty()) {
            return;
        }
        self.hubs.wake_all();
    }

    /// Waits before the next connection, and takes orders meanwhile. Returns `false` if the client was dropped.
    async fn rest(&mut self, pause: Duration, wanted: &mut Wanted) -> bool {
        let until = self.clock.now() + pause / 2 + self.random.up_to(pause / 2);
        loop {
            tokio::select! {
                biased;
                order = self.orders.recv() => match order {
                    Some(order) => add(wanted, order),
                    None => return false,
                },
                () = self.clock.sleep_until(until) => return true,
            }
        }
    }
}

fn add(wanted: &mut Wanted, order: Order) {
    let Order { topic, channel, reply } = order;
    wanted.entry(channel).or_insert_with(|| Subscriber::new(topic)).replies.push(reply);
}

fn broken(trouble: Trouble) -> Result<(), Ended> {
    match trouble {
        Trouble::Broken(how) => Err(Ended::Broken(how)),
        Trouble::Refused => Err(Ended::Broken("the server refused to unsubscribe".to_owned())),
    }
}
