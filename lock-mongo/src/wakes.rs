//! Wake-ups, seen from the claims: one change stream per client, open while anybody listens.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lock_core::{Clock, Context, Done, Error, Listening, Name, Owner, Prefix, Result};
use tokio::sync::{mpsc, oneshot, watch};

use crate::feed::{Feed, Hubs, Order, Trouble};
use crate::profile::{Kind, Profile};
use crate::server::Current;

/// Where the claims of a client listen. The feed ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Wakes {
    hubs: Hubs,
    /// Whether the stream is open: a claim that is registered now hears of every release and revoke from now on.
    open: watch::Receiver<bool>,
    orders: mpsc::UnboundedSender<Order>,
    /// Until the first listen starts it.
    feed: Mutex<Option<Feed>>,
    profile: Arc<Profile>,
}

impl Wakes {
    pub(crate) fn new(current: Current, profile: Arc<Profile>, prefix: Prefix, context: Context) -> Wakes {
        let hubs = Hubs::default();
        let (opening, open) = watch::channel(false);
        let (orders, received) = mpsc::unbounded_channel();
        let feed = Feed::new(current, profile.clone(), prefix, context, hubs.clone(), opening, received);
        Wakes { hubs, open, orders, feed: Mutex::new(Some(feed)), profile }
    }

    /// Listens for releases of `name`: at once if the stream is open, else as soon as it is.
    ///
    /// `Unsupported` on a standalone server, and if this user may not open a change stream.
    pub(crate) async fn listen(&self, name: &Name, clock: &Clock, patience: Duration) -> Result<Listening> {
        // Registered before the look: the feed closes the stream only if no claim is registered.
        let listening = self.hubs.waiters.listen(name);
        self.hear(clock, patience).await?;
        Ok(listening)
    }

    /// Listens for revokes of what this owner holds: as `listen` does.
    pub(crate) async fn watch(&self, owner: &Owner, clock: &Clock, patience: Duration) -> Result<Listening> {
        let watching = self.hubs.holders.listen(&owner.to_name());
        self.hear(clock, patience).await?;
        Ok(watching)
    }

    async fn hear(&self, clock: &Clock, patience: Duration) -> Result<()> {
        if self.profile.kind() == Some(Kind::Standalone) {
            return Err(Error::unsupported(STANDALONE));
        }
        if *self.open.borrow() {
            return Ok(());
        }
        match clock.timeout(patience, self.opened()).await {
            Some(Ok(())) => Ok(()),
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

const STANDALONE: &str =
    "a standalone server has no change streams; waiting falls back to looking again and again";
const REFUSED: &str = "the server refuses a change stream; waiting falls back to looking again and again";
