//! Renewals of one client that come at the same time share a request. A thousand locks that are due together then cost
//! the server a few requests instead of a thousand.

use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::oneshot;

use super::batch::{Batch, Batcher};
use super::call::Call;
use crate::error::{Effect, Error, ErrorKind, Result};
use crate::owner::Owner;

/// A lock that an owner holds, or held.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HeldKey {
    /// The key on the server: the prefix and the name, in the driver's own form.
    pub key: Arc<[u8]>,
    /// The owner. It is of one claim, and so of this key only.
    pub owner: Owner,
}

/// The requests by which a driver renews leases.
pub trait Renews: Send + Sync + 'static {
    /// Renews one lease. Returns what is left of it then; `None` if the lock isn't this owner's any more.
    ///
    /// # Errors
    ///
    /// Those of [`Claim::renew`](crate::driver::Claim::renew).
    ///
    /// # Cancel safety
    ///
    /// Must be as cancel safe as the driver's [`Claim::renew`](crate::driver::Claim::renew), which calls it.
    fn one(
        &self,
        call: &Call,
        held: &HeldKey,
        ttl: Duration,
    ) -> impl Future<Output = Result<Option<Duration>>> + Send;

    /// Renews these leases, at most [`Renewals::MOST`], which come in the order of their keys, in one request. Each is
    /// renewed by itself: those that are over stay as they are. Returns what is left of each then, in the same order;
    /// `None` for a lease that may not have been renewed.
    ///
    /// It must not wait for long for what delays one of them, for example a row that a user's open transaction has locked:
    /// the others would be lost. It then gives up, and tells nothing about any.
    ///
    /// # Errors
    ///
    /// `Unavailable` with what may have been done, which is then true of each lease. After any other error, the client
    /// sends no such request again, because the server does not understand it.
    ///
    /// # Cancel safety
    ///
    /// Need not be cancel safe: it runs in a task of its own, unless the runtime ends.
    fn many(
        &self,
        call: &Call,
        held: Vec<HeldKey>,
        ttl: Duration,
    ) -> impl Future<Output = Result<Vec<Option<Duration>>>> + Send;
}

/// The renewals of a client, on a server that takes several in one request.
///
/// A renewal waits for no others: the first goes to the server by itself. Those that come while it is under way go
/// together. What a shared request does not tell of a lease, a request of its own does: why a lock was lost, for example.
#[derive(Debug, Default)]
pub struct Renewals(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    under_way: AtomicUsize,
    queue: Batcher<Queued>,
    /// The server refuses the shared request, as an old one may.
    refused: AtomicBool,
}

#[derive(Debug)]
struct Queued {
    call: Call,
    held: HeldKey,
    ttl: Duration,
    reply: oneshot::Sender<BatchAnswer>,
}

/// The answer of a batched request to one renewal.
#[derive(Debug)]
enum BatchAnswer {
    Renewed(Duration),
    Nothing,
    Failed(Error),
}

impl Renewals {
    /// The most renewals that share a request. Until it is done, other requests may have to wait for its rows.
    pub const MOST: usize = 128;

    /// Renews a lease with what `renews` sends. Returns what is left of it then; `None` if the lock isn't this owner's any
    /// more.
    ///
    /// # Errors
    ///
    /// `Unavailable` if no answer came within the call; otherwise those of [`Renews::one`].
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the renewal may still be carried out.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub async fn renew<R: Renews>(
        &self,
        renews: &Arc<R>,
        call: &Call,
        held: HeldKey,
        ttl: Duration,
    ) -> Result<Option<Duration>> {
        let shared = &self.0;
        let _under_way = UnderWay(&shared.under_way);
        let is_alone = shared.under_way.fetch_add(1, Ordering::Relaxed) == 0;
        if !is_alone && !shared.refused.load(Ordering::Relaxed) {
            match shared.share(renews, call, &held, ttl).await {
                BatchAnswer::Renewed(left) => return Ok(Some(left)),
                BatchAnswer::Failed(error) => return Err(error),
                BatchAnswer::Nothing => {}
            }
        }
        renews.one(call, &held, ttl).await
    }
}

impl Shared {
    /// Queues the renewal for a shared request, and waits for what that tells.
    async fn share<R: Renews>(
        self: &Arc<Self>,
        renews: &Arc<R>,
        call: &Call,
        held: &HeldKey,
        ttl: Duration,
    ) -> BatchAnswer {
        let (reply, told) = oneshot::channel();
        if let Some(first) = self.queue.add(Queued { call: call.clone(), held: held.clone(), ttl, reply }) {
            tokio::spawn(self.clone().send(renews.clone(), first));
        }
        match call.within(told).await {
            Some(told) => told.unwrap_or(BatchAnswer::Nothing),
            None => BatchAnswer::Failed(call.out_of_time(Effect::Unknown)),
        }
    }

    /// Sends what is queued, in as few requests as it takes.
    async fn send<R: Renews>(self: Arc<Self>, renews: Arc<R>, gathered: Batch<Queued>) {
        let mut queued = gathered.all().await;
        queued.retain(|queued| !queued.reply.is_closed());
        queued.sort_by(|a, b| (a.ttl, &a.held).cmp(&(b.ttl, &b.held)));
        while let Some(first) = queued.first() {
            let same = queued.iter().take(Renewals::MOST).take_while(|other| other.ttl == first.ttl).count();
            let rest = queued.split_off(same);
            tokio::spawn(self.clone().send_together(renews.clone(), mem::replace(&mut queued, rest)));
        }
    }

    /// Sends one shared request, and passes on what it tells.
    async fn send_together<R: Renews>(self: Arc<Self>, renews: Arc<R>, queued: Vec<Queued>) {
        // Each caller waits until its own call is over.
        let Some(longest) = queued.iter().max_by_key(|queued| queued.call.ends()) else { return };
        let held: Vec<HeldKey> = queued.iter().map(|queued| queued.held.clone()).collect();
        let told = match held.len() {
            // A request of its own tells more.
            1 => Ok(vec![None]),
            _ => renews.many(&longest.call, held, longest.ttl).await,
        };
        match told {
            Ok(told) => {
                for (Queued { reply, .. }, left) in queued.into_iter().zip(told) {
                    // The caller may have gone.
                    drop(reply.send(left.map_or(BatchAnswer::Nothing, BatchAnswer::Renewed)));
                }
            }
            Err(error) => self.fail(queued, &error),
        }
    }

    /// Passes on that a shared request has failed. If the server refuses it, each renewal is sent by itself, now and
    /// later.
    fn fail(&self, queued: Vec<Queued>, error: &Error) {
        let ErrorKind::Unavailable { effect } = error.kind() else {
            return self.refused.store(true, Ordering::Relaxed);
        };
        for Queued { reply, .. } in queued {
            drop(reply.send(BatchAnswer::Failed(Error::unavailable(effect, error.message()))));
        }
    }
}

/// Counts one renewal as under way until it is dropped.
struct UnderWay<'a>(&'a AtomicUsize);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
