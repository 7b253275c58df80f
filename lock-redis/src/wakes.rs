//! Wake-ups as the claims see them: one subscription connection per client, opened at the first listen.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lock_core::driver::{Context, Subscription};
use lock_core::{Clock, Effect, Error, Name, Result};
use tokio::sync::{mpsc, oneshot};

use crate::feed::{Channel, Feed, Hubs, Order, Topic, Trouble};
use crate::profile::Profile;

/// Where the claims of a client listen. When this is dropped, the feed ends.
#[derive(Debug)]
pub(crate) struct Wakes {
    hubs: Hubs,
    subscribed: Subscribed,
    orders: mpsc::UnboundedSender<Order>,
    /// The feed, until the first listen starts it.
    feed: Mutex<Option<Feed>>,
}

/// The topics whose subscription the server has confirmed. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Subscribed(Arc<Mutex<HashSet<Topic>>>);

impl Subscribed {
    pub(crate) fn with<T>(&self, look: impl FnOnce(&mut HashSet<Topic>) -> T) -> T {
        // Nothing that can panic runs under this lock.
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Wakes {
    pub(crate) fn new(client: redis::Client, profile: Arc<Profile>, context: Context) -> Wakes {
        let (hubs, subscribed) = (Hubs::default(), Subscribed::default());
        let (orders, received) = mpsc::unbounded_channel();
        let feed = Feed::new(client, profile, context, hubs.clone(), subscribed.clone(), received);
        Wakes { hubs, subscribed, orders, feed: Mutex::new(Some(feed)) }
    }

    /// Listens to `channel`, whose messages are about `name`. Returns at once if the channel is subscribed, else when
    /// the server has confirmed the subscription.
    ///
    /// `Unsupported` if this user may not subscribe to it.
    pub(crate) async fn listen(
        &self,
        name: &Name,
        channel: &[u8],
        clock: &Clock,
        patience: Duration,
    ) -> Result<Subscription> {
        // Register before looking: the feed unsubscribes a channel only if no claim is registered.
        let listening = self.hubs.waiters.listen(name);
        self.subscribed_to(Topic::Releases(name.clone()), channel, clock, patience).await?;
        Ok(listening)
    }

    /// Listens to the channel of all revokes, for one of what this owner holds. Otherwise like `listen`.
    pub(crate) async fn watch(
        &self,
        owner: &Name,
        channel: &[u8],
        clock: &Clock,
        patience: Duration,
    ) -> Result<Subscription> {
        let watching = self.hubs.holders.listen(owner);
        self.subscribed_to(Topic::Revokes, channel, clock, patience).await?;
        Ok(watching)
    }

    async fn subscribed_to(
        &self,
        topic: Topic,
        channel: &[u8],
        clock: &Clock,
        patience: Duration,
    ) -> Result<()> {
        if self.subscribed.with(|topics| topics.contains(&topic)) {
            return Ok(());
        }
        match clock.timeout(patience, self.subscribe(topic, channel.into())).await {
            Some(Ok(())) => Ok(()),
            Some(Err(Trouble::Refused)) => Err(Error::unsupported(REFUSED)),
            Some(Err(Trouble::Broken(how))) => Err(Error::unavailable(Effect::NotApplied, how)),
            None => {
                Err(Error::unavailable(Effect::NotApplied, format!("no subscription within {patience:?}")))
            }
        }
    }

    /// Returns whether our own connection is among those that a message on the name's channel reaches.
    pub(crate) fn is_subscribed(&self, name: &Name) -> bool {
        self.subscribed.with(|topics| topics.contains(&Topic::Releases(name.clone())))
    }

    async fn subscribe(&self, topic: Topic, channel: Channel) -> Result<(), Trouble> {
        if let Some(feed) = self.feed.lock().unwrap_or_else(PoisonError::into_inner).take() {
            tokio::spawn(feed.run());
        }
        let (reply, answer) = oneshot::channel();
        let ended = |_| Trouble::Broken("the feed of wake-ups has ended".to_owned());
        self.orders.send(Order { topic, channel, reply }).map_err(|_| ended(()))?;
        answer.await.map_err(|_| ended(()))?
    }
}

const REFUSED: &str = "the server's access rules forbid this user to subscribe to the lock's channel; waiters ask \
    the server again and again instead";
