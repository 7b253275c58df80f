//! Wake-ups, as claims use them: one change stream per client, open while a claim listens.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lock_core::driver::{Context, Prefix, Subscription};
use lock_core::{Clock, Effect, Error, Name, Owner, Result};
use tokio::sync::{mpsc, oneshot, watch};

use crate::feed::{Feed, Hubs, ListenRequest, Trouble};
use crate::profile::{Kind, Profile};
use crate::server::Current;

/// Where the claims of a client listen. The feed ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Wakes {
    hubs: Hubs,
    /// Whether the stream is open. If it is, a claim that is registered now is told of every later release and revoke.
    open: watch::Receiver<bool>,
    requests: mpsc::UnboundedSender<ListenRequest>,
    /// The feed, until the first listen starts it.
    feed: Mutex<Option<Feed>>,
    profile: Arc<Profile>,
}

impl Wakes {
    pub(crate) fn new(current: Current, profile: Arc<Profile>, prefix: Prefix, context: Context) -> Wakes {
        let hubs = Hubs::default();
        let (opening, open) = watch::channel(false);
        let (requests, received) = mpsc::unbounded_channel();
        let feed = Feed::new(current, profile.clone(), prefix, context, hubs.clone(), opening, received);
        Wakes { hubs, open, requests, feed: Mutex::new(Some(feed)), profile }
    }

    /// Waits until the stream is open, and listens for releases of `name` from then on.
    ///
    /// `Unsupported` on a standalone server, and if this user may not open a change stream.
    pub(crate) async fn listen(
        &self,
        name: &Name,
        clock: &Clock,
        patience: Duration,
    ) -> Result<Subscription> {
        // Register before reading `open`: the feed closes the stream only if no claim is registered.
        let listening = self.hubs.waiters.listen(name);
        self.ensure_stream_open(clock, patience).await?;
        Ok(listening)
    }

    /// Listens for revokes of the lock that this owner holds, as `listen` does.
    pub(crate) async fn watch(
        &self,
        owner: &Owner,
        clock: &Clock,
        patience: Duration,
    ) -> Result<Subscription> {
        let watching = self.hubs.holders.listen(&owner.to_name());
        self.ensure_stream_open(clock, patience).await?;
        Ok(watching)
    }

    async fn ensure_stream_open(&self, clock: &Clock, patience: Duration) -> Result<()> {
        if self.profile.kind() == Some(Kind::Standalone) {
            return Err(Error::unsupported(STANDALONE));
        }
        if *self.open.borrow() {
            return Ok(());
        }
        match clock.timeout(patience, self.request_stream()).await {
            Some(Ok(())) => Ok(()),
            Some(Err(Trouble::Refused(why))) => Err(Error::unsupported(format!("{REFUSED}: {why}"))),
            Some(Err(Trouble::Broken(how))) => Err(Error::unavailable(Effect::NotApplied, how)),
            None => {
                Err(Error::unavailable(Effect::NotApplied, format!("no change stream within {patience:?}")))
            }
        }
    }

    async fn request_stream(&self) -> Result<(), Trouble> {
        if let Some(feed) = self.feed.lock().unwrap_or_else(PoisonError::into_inner).take() {
            tokio::spawn(feed.run());
        }
        let (reply, answer) = oneshot::channel();
        let ended = || Trouble::Broken("the feed of wake-ups has ended".to_owned());
        self.requests.send(ListenRequest(reply)).map_err(|_| ended())?;
        answer.await.map_err(|_| ended())?
    }
}

const STANDALONE: &str = "a standalone server has no change streams; waiters ask again and again instead";
const REFUSED: &str = "the server refuses a change stream; waiters ask again and again instead";
