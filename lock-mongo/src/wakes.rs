//! Wake-ups, seen from the claims: one change stream per client, open while anybody listens.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lock_core::{Clock, Context, Done, Error, Hub, Listening, Name, Prefix, Result};
use tokio::sync::{mpsc, oneshot, watch};

use crate::feed::{Feed, Order, Trouble};
use crate::profile::{Kind, Profile};
use crate::server::Current;

/// Where the claims of a client listen. The feed ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Wakes {
    hub: Hub,
    /// Whether the stream is open: whoever is registered now hears of every release from now on.
    open: watch::Receiver<bool>,
    orders: mpsc::UnboundedSender<Order>,
    /// Until the first listen starts it.
    feed: Mutex<Option<Feed>>,
    profile: Arc<Profile>,
}

impl Wakes {
    pub(crate) fn new(current: Current, profile: Arc<Profile>, prefix: Prefix, context: Context) -> Wakes {
        let hub = Hub::default();
        let (opening, open) = watch::channel(false);
        let (orders, received) = mpsc::unbounded_channel();
        let feed = Feed::new(current, profile.clone(), prefix, context, hub.clone(), opening, received);
        Wakes { hub, open, orders, feed: Mutex::new(Some(feed)), profile }
    }

    /// Listens for releases of `name`: at once if the stream is open, else as soon as it is.
    ///
    /// `Unsupported` on a standalone server, and if this user may not open a change stream.
    pub(crate) async fn listen(&self, name: &Name, clock: &Clock, patience: Duration) -> Result<Listening> {
        if self.profile.kind() == Some(Kind::Standalone) {
            return Err(Error::unsupported(STANDALONE));
        }
        // Registered before the look: the feed closes the stream only if nobody is registered.
        let listening = self.hub.listen(name);
        if *self.open.borrow() {
            return Ok(listening);
        }
        match clock.timeout(patience, self.opened()).await {
            Some(Ok(())) => Ok(listening),
            Some(Err(Trouble::Refused(why))) => Err(Error::unsupported(format!("{REFUSED}: {why}"))),
            Some(Err(Trouble::Broken(how))) => Err(Error::unavailable(Done::No, how)),
            None => Err(Error::unavailable(Done::No, format!("no change stream within {patience:?}"))),
        }
    }

    async fn opened(&self) -> Result<(), Trouble> {
        if let Some(feed) = self.feed.lock().unwrap_or_else(PoisonError::into_inner).take() {
            tokio::spawn(feed.run());
        }
        let (reply, answer) = oneshot::channel();
        let ended = || Trouble::Broken("the feed of wake-ups has ended".to_owned());
        self.orders.send(Order(reply)).map_err(|_| ended())?;
        answer.await.map_err(|_| ended())?
    }
}

const STANDALONE: &str = "a standalone server has no change streams; waiting falls back to looking again and again";
const REFUSED: &str = "the server refuses a change stream; waiting falls back to looking again and again";
