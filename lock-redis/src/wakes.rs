//! Wake-ups, seen from the claims: one subscription connection per client, opened at the first listen.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lock_core::{Clock, Context, Done, Error, Hub, Listening, Name, Result};
use tokio::sync::{mpsc, oneshot};

use crate::feed::{Channel, Feed, Order, Trouble};
use crate::profile::Profile;

/// Where the claims of a client listen. The feed ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Wakes {
    hub: Hub,
    subscribed: Subscribed,
    orders: mpsc::UnboundedSender<Order>,
    /// Until the first listen starts it.
    feed: Mutex<Option<Feed>>,
}

/// The names whose channels the server has confirmed. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Subscribed(Arc<Mutex<HashSet<Name>>>);

impl Subscribed {
    pub(crate) fn with<T>(&self, look: impl FnOnce(&mut HashSet<Name>) -> T) -> T {
        // Nothing that can panic runs under this lock.
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Wakes {
    pub(crate) fn new(client: redis::Client, profile: Arc<Profile>, context: Context) -> Wakes {
        let (hub, subscribed) = (Hub::default(), Subscribed::default());
        let (orders, received) = mpsc::unbounded_channel();
        let feed = Feed::new(client, profile, context, hub.clone(), subscribed.clone(), received);
        Wakes { hub, subscribed, orders, feed: Mutex::new(Some(feed)) }
    }

    /// Listens to `channel`, which tells of `name`: at once if it is subscribed, else when the server has confirmed it.
    ///
    /// `Unsupported` if this user may not subscribe to it.
    pub(crate) async fn listen(
        &self,
        name: &Name,
        channel: &[u8],
        clock: &Clock,
        patience: Duration,
    ) -> Result<Listening> {
        // Registered before the look: the feed lets go of a channel only if nobody is registered.
        let listening = self.hub.listen(name);
        if self.is_subscribed(name) {
            return Ok(listening);
        }
        match clock.timeout(patience, self.subscribe(name, channel.into())).await {
            Some(Ok(())) => Ok(listening),
            Some(Err(Trouble::Refused)) => Err(Error::unsupported(REFUSED)),
            Some(Err(Trouble::Broken(how))) => Err(Error::unavailable(Done::No, how)),
            None => Err(Error::unavailable(Done::No, format!("no subscription within {patience:?}"))),
        }
    }

    /// Whether our own connection is among those that a message on the name's channel reaches.
    pub(crate) fn is_subscribed(&self, name: &Name) -> bool {
        self.subscribed.with(|names| names.contains(name))
    }

    async fn subscribe(&self, name: &Name, channel: Channel) -> Result<(), Trouble> {
        if let Some(feed) = self.feed.lock().unwrap_or_else(PoisonError::into_inner).take() {
            tokio::spawn(feed.run());
        }
        let (reply, answer) = oneshot::channel();
        let ended = |_| Trouble::Broken("the feed of wake-ups has ended".to_owned());
        self.orders.send(Order { name: name.clone(), channel, reply }).map_err(|_| ended(()))?;
        answer.await.map_err(|_| ended(()))?
    }
}

const REFUSED: &str = "the server's access rules forbid this user to subscribe to the lock's channel; waiting falls back \
    to looking again and again";
