//! The subscriptions of a claim.

use lock_core::Name;
use lock_core::driver::Request;
use lock_core::toolkit::{Call, Feed, QueuePosition, Subscription};
use lock_core::{Effect, Error, Result};

use crate::feed::{Channels, Topic};
use crate::layout::Layout;

/// A claim's subscriptions. It stops to listen when this is dropped.
#[derive(Debug)]
pub(crate) struct Listening {
    /// To what concerns every waiter for the name, or to revokes of what the claim holds.
    all: Subscription,
    /// To this owner's turn, on a fair lock.
    turn: Option<Box<Subscription>>,
}

impl Listening {
    /// Listens to the releases of the lock, as [`Feed::listen`].
    pub(crate) async fn to_releases(
        feed: &Feed<Channels>,
        topic: &Topic,
        layout: Layout,
        request: &Request,
        call: &Call,
    ) -> Result<Listening> {
        let all = feed.listen(&request.name, topic.clone(), call).await?;
        let turn = match turn_of(layout, request) {
            None => None,
            Some(owner) => match feed.listen_already(&owner, topic) {
                None => {
                    return Err(Error::unavailable(Effect::NotApplied, "the subscription connection broke"));
                }
                turn => turn.map(Box::new),
            },
        };
        Ok(Listening { all, turn })
    }

    /// Listens to the releases of the lock, if the server reports them already.
    pub(crate) fn to_releases_already(
        feed: &Feed<Channels>,
        topic: &Topic,
        layout: Layout,
        request: &Request,
    ) -> Option<Listening> {
        let all = feed.listen_already(&request.name, topic)?;
        let turn = match turn_of(layout, request) {
            None => None,
            Some(owner) => Some(Box::new(feed.listen_already(&owner, topic)?)),
        };
        Some(Listening { all, turn })
    }

    /// Listens to the revokes that this subscription is about.
    pub(crate) fn to_revokes(all: Subscription) -> Listening {
        Listening { all, turn: None }
    }

    /// Waits for the next message; returns at once if one came since the last call. Cancel safe.
    pub(crate) async fn woken(&self) {
        match &self.turn {
            None => self.all.woken().await,
            // Boxed, so the future of every held claim does not reserve space for it.
            Some(turn) => Box::pin(first_woken(&self.all, turn)).await,
        }
    }

    /// Returns how many quarters of all waiters have waited for longer than this one, as far as the last release tells.
    pub(crate) fn quarters_in_front(&self) -> u32 {
        self.all.standing().map_or(0, QueuePosition::quarters_in_front)
    }
}

async fn first_woken(all: &Subscription, turn: &Subscription) {
    tokio::select! {
        () = all.woken() => {}
        () = turn.woken() => {}
    }
}

/// Returns the name under which the owner hears of its turn.
fn turn_of(layout: Layout, request: &Request) -> Option<Name> {
    matches!(layout, Layout::Fair(_)).then(|| request.owner.to_name())
}
