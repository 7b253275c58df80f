//! The task behind the wake-ups: subscribes, hears, reconnects.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use lock_core::driver::Wakes;
use lock_core::{Clock, Context, Hub, Name, Random};
use redis::RedisResult;
use redis::aio::{PubSubSink, PubSubStream};
use tokio::sync::{mpsc, oneshot};

use crate::errors;
use crate::profile::Profile;
use crate::wakes::Subscribed;

/// How long a channel that nobody listens to stays subscribed at least: a name that is handed over often is not
/// subscribed anew each time.
const IDLE: Duration = Duration::from_secs(1);
/// After the connection broke, before it is tried again; doubled each time.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// A channel of the server.
pub(crate) type Channel = Arc<[u8]>;

/// A claim wants to hear of a name.
#[derive(Debug)]
pub(crate) struct Order {
    pub(crate) name: Name,
    pub(crate) channel: Channel,
    pub(crate) reply: oneshot::Sender<Result<(), Trouble>>,
}

/// Why a subscription did not come about.
#[derive(Clone, Debug)]
pub(crate) enum Trouble {
    /// The server's access rules forbid it.
    Refused,
    Broken(String),
}

/// Hears for all claims of a client, from the first listen until nobody can want anything any more.
#[derive(Debug)]
pub(crate) struct Feed {
    client: redis::Client,
    profile: Arc<Profile>,
    clock: Clock,
    random: Random,
    patience: Duration,
    hub: Hub,
    subscribed: Subscribed,
    orders: mpsc::UnboundedReceiver<Order>,
}

/// What is to be subscribed.
type Wanted = HashMap<Channel, Subscriber>;

/// For whom, and who waits for it.
struct Subscriber {
    name: Name,
    replies: Vec<oneshot::Sender<Result<(), Trouble>>>,
}

impl Subscriber {
    fn answer(&mut self, outcome: Result<(), Trouble>) {
        for reply in self.replies.drain(..) {
            // Who asked may have gone.
            let _: Result<(), _> = reply.send(outcome.clone());
        }
    }
}

/// One connection, and what is subscribed on it.
struct Connection {
    sink: PubSubSink,
    messages: PubSubStream,
    names: HashMap<Channel, Name>,
}

/// Why a connection is left.
enum Left {
    /// Nobody can want anything of it any more.
    Ended,
    Broken(String),
}

impl Feed {
    pub(crate) fn new(
        client: redis::Client,
        profile: Arc<Profile>,
        context: Context,
        hub: Hub,
        subscribed: Subscribed,
        orders: mpsc::UnboundedReceiver<Order>,
    ) -> Feed {
        let Context { clock, random, patience } = context;
        Feed { client, profile, clock, random, patience, hub, subscribed, orders }
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
                    let left = self.feed(&mut connection, &mut wanted).await;
                    let names = connection.names.into_iter();
                    wanted.extend(
                        names.map(|(channel, name)| (channel, Subscriber { name, replies: Vec::new() })),
                    );
                    match left {
                        Left::Ended => return,
                        Left::Broken(trouble) => trouble,
                    }
                }
                Err(trouble) => trouble,
            };
            self.tell_of_break(&mut wanted, &trouble);
            if !self.rest(pause, &mut wanted).await {
                return;
            }
            wanted.retain(|_, subscriber| self.hub.has(subscriber.name.as_str()));
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    async fn connect(&self) -> Result<Connection, String> {
        match self.clock.timeout(self.patience, self.client.get_async_pubsub()).await {
            Some(Ok(connection)) => {
                let (sink, messages) = connection.split();
                Ok(Connection { sink, messages, names: HashMap::new() })
            }
            Some(Err(e)) => Err(errors::connecting(e).message().to_owned()),
            None => Err(format!("no subscription connection within {:?}", self.patience)),
        }
    }

    /// Feeds from one connection until it breaks.
    async fn feed(&mut self, connection: &mut Connection, wanted: &mut Wanted) -> Left {
        let restored = wanted.values().any(|subscriber| subscriber.replies.is_empty());
        if let Err(left) = self.subscribe(connection, wanted).await {
            return left;
        }
        if restored {
            // What was told while there was no connection is lost.
            self.hub.wake_all();
        }
        let mut sweep = self.clock.now() + IDLE;
        let mut idle = HashSet::new();
        loop {
            let done = tokio::select! {
                biased;
                message = connection.messages.next() => match message {
                    Some(message) => {
                        if let Some(name) = connection.names.get(message.get_channel_name().as_bytes()) {
                            self.hub.wake(name.as_str());
                        }
                        Ok(())
                    }
                    None => Err(Left::Broken("the subscription connection broke".to_owned())),
                },
                order = self.orders.recv() => match order {
                    Some(order) => {
                        add(wanted, order);
                        // Those that came meanwhile are subscribed at the same go.
                        while let Ok(order) = self.orders.try_recv() {
                            add(wanted, order);
                        }
                        self.subscribe(connection, wanted).await
                    }
                    None => Err(Left::Ended),
                },
                () = self.clock.sleep_until(sweep), if !connection.names.is_empty() => {
                    sweep = self.clock.now() + IDLE;
                    self.sweep(connection, &mut idle).await
                }
            };
            if let Err(left) = done {
                return left;
            }
        }
    }

    /// Subscribes all that is wanted, and answers those who wait for it.
    async fn subscribe(&self, connection: &mut Connection, wanted: &mut Wanted) -> Result<(), Left> {
        let together: Vec<Channel> = wanted.keys().cloned().collect();
        match self.subscribe_to(connection, &together, wanted).await {
            Err(Trouble::Refused) => {}
            outcome => return outcome.or_else(broken),
        }
        // The server refuses all for the sake of one.
        for channel in together {
            if let Err(trouble) = self.subscribe_to(connection, std::slice::from_ref(&channel), wanted).await
            {
                let Trouble::Refused = trouble else { return broken(trouble) };
                self.profile.learn_wakes(Wakes::Polled);
                if let Some(mut refused) = wanted.remove(&channel) {
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
        self.profile.learn_wakes(Wakes::Pushed);
        for channel in channels {
            let Some(mut subscriber) = wanted.remove(channel) else { continue };
            self.subscribed.with(|names| names.insert(subscriber.name.clone()));
            subscriber.answer(Ok(()));
            connection.names.insert(channel.clone(), subscriber.name);
        }
        Ok(())
    }

    /// Unsubscribes what nobody listened to at two sweeps in a row.
    async fn sweep(&self, connection: &mut Connection, idle: &mut HashSet<Name>) -> Result<(), Left> {
        let unheard = connection.names.values().filter(|name| !self.hub.has(name.as_str()));
        let unheard: HashSet<Name> = unheard.cloned().collect();
        let mut leaving: HashSet<Name> = unheard.intersection(idle).cloned().collect();
        *idle = unheard;
        self.subscribed.with(|names| {
            // Under the lock under which `listen` looks after it has registered: who has is not forgotten.
            leaving.retain(|name| !self.hub.has(name.as_str()) && names.remove(name));
        });
        let gone = connection.names.extract_if(|_, name| leaving.contains(name));
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

    /// Nothing is heard from now on: who listens has to look, and who waits to listen is told.
    fn tell_of_break(&self, wanted: &mut Wanted, trouble: &str) {
        for subscriber in wanted.values_mut() {
            subscriber.answer(Err(Trouble::Broken(trouble.to_owned())));
        }
        if self.subscribed.with(|names| std::mem::take(names).is_empty()) {
            return;
        }
        self.hub.wake_all();
    }

    /// Waits before the next connection, and takes orders meanwhile. `false` if nobody can want anything any more.
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
    let Order { name, channel, reply } = order;
    wanted.entry(channel).or_insert_with(|| Subscriber { name, replies: Vec::new() }).replies.push(reply);
}

fn broken(trouble: Trouble) -> Result<(), Left> {
    match trouble {
        Trouble::Broken(how) => Err(Left::Broken(how)),
        Trouble::Refused => Err(Left::Broken("the server refused to unsubscribe".to_owned())),
    }
}
