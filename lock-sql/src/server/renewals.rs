//! Renewals of one client that come at the same time share a statement. A thousand locks that are due together then cost
//! the server a few statements instead of a thousand.
//!
//! A renewal waits for no others: the first goes to the server by itself. Those that come while it is under way go
//! together. What a shared statement does not answer for a lock, a statement of its own does: why a lock was lost, for
//! example, or a row that another transaction has locked, which a shared statement must not wait for.

use std::mem;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lock_core::driver::Call;
use lock_core::{Effect, Error, ErrorKind, Owner, Result};
use tokio::sync::oneshot;

use crate::table::Key;

/// A lock that an owner holds, or held.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Lease {
    pub(crate) key: Key,
    pub(crate) owner: Owner,
}

/// The statements by which a dialect renews leases.
pub(crate) trait Renews: Send + Sync + 'static {
    /// Renews one lease. Returns what is left of it then; `None` if the lock isn't this owner's any more.
    fn one(
        &self,
        call: &Call,
        lease: &Lease,
        ttl: Duration,
    ) -> impl Future<Output = Result<Option<Duration>>> + Send;

    /// Renews these leases, in the order of their keys, except those that are over, and those whose rows another
    /// transaction has locked: it waits for none of them. Returns what is left of each then; `None` for a lease that may
    /// not have been renewed.
    fn many(
        &self,
        call: &Call,
        leases: Vec<Lease>,
        ttl: Duration,
    ) -> impl Future<Output = Result<Vec<Option<Duration>>>> + Send;
}

/// The renewals of a client.
#[derive(Debug)]
pub(crate) struct Renewals<R>(Arc<Shared<R>>);

#[derive(Debug)]
struct Shared<R> {
    statements: R,
    under_way: AtomicUsize,
    queue: Mutex<Vec<Queued>>,
    /// Whether the server refuses the shared statement, as an old one may.
    refused: AtomicBool,
}

#[derive(Debug)]
struct Queued {
    call: Call,
    lease: Lease,
    ttl: Duration,
    reply: oneshot::Sender<Told>,
}

/// What a shared statement tells of one renewal.
#[derive(Debug)]
enum Told {
    Renewed(Duration),
    Nothing,
    Failed(Error),
}

/// The most renewals that share a statement. Until it is committed, other transactions wait for its rows.
const MOST: usize = 128;

impl<R: Renews> Renewals<R> {
    pub(crate) fn new(statements: R) -> Renewals<R> {
        Renewals(Arc::new(Shared {
            statements,
            under_way: AtomicUsize::new(0),
            queue: Mutex::default(),
            refused: AtomicBool::new(false),
        }))
    }

    /// Renews a lease. Returns what is left of it then; `None` if the lock isn't this owner's any more.
    pub(crate) async fn renew(&self, call: &Call, lease: Lease, ttl: Duration) -> Result<Option<Duration>> {
        let shared = &self.0;
        let _under_way = UnderWay(&shared.under_way);
        let is_alone = shared.under_way.fetch_add(1, Ordering::Relaxed) == 0;
        if !is_alone && !shared.refused.load(Ordering::Relaxed) {
            match shared.share(call, &lease, ttl).await {
                Told::Renewed(left) => return Ok(Some(left)),
                Told::Failed(error) => return Err(error),
                Told::Nothing => {}
            }
        }
        shared.statements.one(call, &lease, ttl).await
    }
}

impl<R: Renews> Shared<R> {
    /// Queues the renewal for a shared statement, and waits for what that tells.
    async fn share(self: &Arc<Self>, call: &Call, lease: &Lease, ttl: Duration) -> Told {
        let (reply, told) = oneshot::channel();
        let is_first = {
            let mut queue = self.queue();
            queue.push(Queued { call: call.clone(), lease: lease.clone(), ttl, reply });
            queue.len() == 1
        };
        if is_first {
            tokio::spawn(self.clone().send());
        }
        match call.within(told).await {
            Some(told) => told.unwrap_or(Told::Nothing),
            None => Told::Failed(call.out_of_time(Effect::Unknown)),
        }
    }

    /// Sends what is queued. Yields once before, so that every task that is ready to run can queue its own.
    async fn send(self: Arc<Self>) {
        tokio::task::yield_now().await;
        let mut queued = mem::take(&mut *self.queue());
        queued.retain(|queued| !queued.reply.is_closed());
        queued.sort_by(|a, b| (a.ttl, &a.lease).cmp(&(b.ttl, &b.lease)));
        while let Some(first) = queued.first() {
            let same = queued.iter().take(MOST).take_while(|other| other.ttl == first.ttl).count();
            let rest = queued.split_off(same);
            tokio::spawn(self.clone().send_together(mem::replace(&mut queued, rest)));
        }
    }

    /// Sends one shared statement, and passes on what it tells.
    async fn send_together(self: Arc<Self>, queued: Vec<Queued>) {
        // Each caller waits until its own call is over.
        let Some(longest) = queued.iter().max_by_key(|queued| queued.call.ends()) else { return };
        let leases: Vec<Lease> = queued.iter().map(|queued| queued.lease.clone()).collect();
        let told = match leases.len() {
            // A statement of its own tells more.
            1 => Ok(vec![None]),
            _ => self.statements.many(&longest.call, leases, longest.ttl).await,
        };
        match told {
            Ok(told) => {
                for (Queued { reply, .. }, left) in queued.into_iter().zip(told) {
                    // The caller may have gone.
                    drop(reply.send(left.map_or(Told::Nothing, Told::Renewed)));
                }
            }
            Err(error) => self.fail(queued, &error),
        }
    }

    /// Passes on that a shared statement has failed. If the server refuses it, each renewal is sent by itself, now and
    /// later.
    fn fail(&self, queued: Vec<Queued>, error: &Error) {
        let ErrorKind::Unavailable { effect } = error.kind() else {
            return self.refused.store(true, Ordering::Relaxed);
        };
        for Queued { reply, .. } in queued {
            drop(reply.send(Told::Failed(Error::unavailable(effect, error.message()))));
        }
    }

    fn queue(&self) -> MutexGuard<'_, Vec<Queued>> {
        // Nothing that can panic runs under this lock.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts one renewal as under way until it is dropped.
struct UnderWay<'a>(&'a AtomicUsize);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
