//! Wake-ups over one connection: what the server reports for a client's claims, and the task that reads it.
//!
//! [`Source`] is what differs between servers. Everything else is written here once: when the connection is opened,
//! what is subscribed and for how long, which claims are woken, and what follows when the connection breaks.

mod source;
mod task;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{mpsc, oneshot};

use super::call::Call;
use super::hub::Hub;
use super::subscription::Subscription;
use super::watchers::Watchers;
use crate::driver::Context;
use crate::error::{Effect, Error, Result};
use crate::name::Name;
use crate::owner::Owner;
pub use source::{Audience, Missed, Notice, Source, SourceError};
use task::Task;

/// Wakes the claims of one client by what one connection to the server reports.
///
/// A topic is subscribed when the first claim needs it, and a claim is answered when the server has confirmed that. The
/// claim then looks again, so it misses nothing in between. After each gap, every claim that listens is woken.
///
/// A task reads the connection. It starts with the first subscription, and ends when the feed is dropped.
#[derive(Debug)]
pub struct Feed<S: Source> {
    listeners: Listeners,
    confirmed: Confirmed<S::Topic>,
    orders: mpsc::UnboundedSender<Order<S::Topic>>,
    /// The task, until the first order starts it.
    task: Mutex<Option<Task<S>>>,
}

impl<S: Source> Feed<S> {
    /// Makes a feed that connects when the first claim needs it. Each step of the source is bounded by the context's
    /// patience.
    pub fn new(source: S, context: Context) -> Feed<S> {
        let (listeners, confirmed) = (Listeners::default(), Confirmed::default());
        let (orders, received) = mpsc::unbounded_channel();
        let task = Task::new(source, context, listeners.clone(), confirmed.clone(), received);
        Feed { listeners, confirmed, orders, task: Mutex::new(Some(task)) }
    }

    /// Listens to the releases of `name`, which `topic` reports. Returns when the server has confirmed the topic; at
    /// once if it has done so before.
    ///
    /// # Errors
    ///
    /// `Unsupported` if the server refuses the topic to this client. Otherwise `Unavailable` with
    /// [`Effect::NotApplied`].
    ///
    /// # Cancel safety
    ///
    /// If the returned future is dropped, the claim does not listen. The topic may stay subscribed for about two
    /// seconds.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub async fn listen(&self, name: &Name, topic: S::Topic, call: &Call) -> Result<Subscription> {
        // Registered before the look at what is confirmed: the task unsubscribes a topic if no claim is registered.
        let listening = self.listeners.waiters.listen(name);
        self.confirm(topic, call).await?;
        Ok(listening)
    }

    /// Listens as [`listen`](Self::listen) does, if the server has confirmed the topic already; `None` otherwise. For an
    /// attempt: it then misses no release after its look, and need not be repeated
    /// ([`Busy::and_listens`](crate::driver::Busy::and_listens)).
    pub fn listen_already(&self, name: &Name, topic: &S::Topic) -> Option<Subscription> {
        if !self.is_confirmed(topic) {
            return None;
        }
        // As for `listen`: registered first.
        let listening = self.listeners.waiters.listen(name);
        self.is_confirmed(topic).then_some(listening)
    }

    /// Listens to the revokes of what `owner` holds, which `topic` reports. Otherwise as [`listen`](Self::listen).
    ///
    /// # Errors
    ///
    /// As for [`listen`](Self::listen).
    ///
    /// # Cancel safety
    ///
    /// As for [`listen`](Self::listen).
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub async fn watch(&self, owner: Owner, topic: S::Topic, call: &Call) -> Result<Subscription> {
        let watching = self.listeners.holders.watch(owner);
        self.confirm(topic, call).await?;
        Ok(watching)
    }

    /// Returns when the server has confirmed the topic; at once if it has done so before. For a claim that listens
    /// already: a topic that no claim listens to is unsubscribed soon.
    ///
    /// # Errors
    ///
    /// As for [`listen`](Self::listen).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub async fn confirm(&self, topic: S::Topic, call: &Call) -> Result<()> {
        match self.is_confirmed(&topic) {
            true => Ok(()),
            false => self.subscribe(topic, call).await,
        }
    }

    /// Subscribes the topic, also if it is confirmed already. For a claim that has found that the topic means something
    /// else on the server by now, as when a table was created anew.
    ///
    /// # Errors
    ///
    /// As for [`listen`](Self::listen).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub async fn subscribe(&self, topic: S::Topic, call: &Call) -> Result<()> {
        match call.within(self.order(topic)).await {
            Some(Ok(())) => Ok(()),
            Some(Err(SourceError::Refused(why))) => Err(Error::unsupported(why)),
            Some(Err(SourceError::Broken(why) | SourceError::Elsewhere(why))) => {
                Err(Error::unavailable(Effect::NotApplied, why))
            }
            None => Err(call.out_of_time(Effect::NotApplied)),
        }
    }

    /// Returns whether the server reports this topic at present.
    pub fn is_confirmed(&self, topic: &S::Topic) -> bool {
        self.confirmed.with(|topics| topics.contains(topic))
    }

    async fn order(&self, topic: S::Topic) -> std::result::Result<(), SourceError> {
        // Nothing that can panic runs under this lock.
        if let Some(task) = self.task.lock().unwrap_or_else(PoisonError::into_inner).take() {
            tokio::spawn(task.run());
        }
        let (reply, answer) = oneshot::channel();
        // The task outlives the feed, unless its runtime has ended.
        let ended = || SourceError::Broken("the task that receives wake-ups has ended".to_owned());
        self.orders.send(Order { topic, reply }).map_err(|_| ended())?;
        answer.await.map_err(|_| ended())?
    }
}

/// The channel for the answer to a command.
type Reply = oneshot::Sender<std::result::Result<(), SourceError>>;

/// A claim's request to subscribe a topic.
#[derive(Debug)]
struct Order<T> {
    topic: T,
    reply: Reply,
}

/// The topics that the server has confirmed on the present connection. Cheap to clone.
#[derive(Clone, Debug)]
struct Confirmed<T>(Arc<Mutex<BTreeSet<T>>>);

impl<T: Ord> Confirmed<T> {
    /// Runs `look` under the lock. `look` must not panic.
    fn with<R>(&self, look: impl FnOnce(&mut BTreeSet<T>) -> R) -> R {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<T> Default for Confirmed<T> {
    fn default() -> Confirmed<T> {
        Confirmed(Arc::default())
    }
}

/// The claims of the client that listen. Cheap to clone.
#[derive(Clone, Debug, Default)]
struct Listeners {
    /// Claims that wait, by the name that they wait for.
    waiters: Hub,
    /// Claims that hold and watch, by their owner.
    holders: Watchers,
}

impl Listeners {
    /// Returns whether one of these claims listens.
    fn has(&self, audience: Audience<'_>) -> bool {
        match audience {
            Audience::Waiters(name) => self.waiters.has(name.as_str()),
            Audience::Holders => !self.holders.is_empty(),
            Audience::All => !self.waiters.is_empty() || !self.holders.is_empty(),
        }
    }

    fn wake(&self, notice: &Notice) {
        match notice {
            Notice::Released(name) | Notice::Moved(name) => self.waiters.wake(name),
            Notice::ReleasedAmong(name, waiters) => self.waiters.wake_among(name, *waiters),
            Notice::ReleasedAfter(name, heard) => self.waiters.wake_after(name, *heard),
            Notice::Revoked(owner) => {
                // Another text is not about a claim of this library.
                if let Some(owner) = Owner::parse(owner) {
                    self.holders.wake(owner);
                }
            }
            Notice::Other => {}
        }
    }

    fn wake_all(&self) {
        self.waiters.wake_all();
        self.holders.wake_all();
    }
}

#[cfg(test)]
mod tests;
