//! The means of a case: its own clients, locks and names, and what cases do with them again and again.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use lock_core::driver::{Claim, Entry, Lease, Queueing};
use lock_core::{Client, Guard, Info, Lock, LockBuilder, LossReason, Name, Options, Owner, Random, Result};
use tokio::task::JoinHandle;

use crate::bounds;
use crate::claims::{self, Terms};
use crate::environment::FULL;
use crate::harness::{Abilities, Facts, Harness, OwnServer, ThroughProxy};
use crate::timing::{Answered, Returned, assert_in_time, released, still_held, until, within};

/// The setting of one case.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    pub(crate) harness: Arc<dyn Harness>,
    pub(crate) facts: Facts,
    pub(crate) abilities: Abilities,
    pub(crate) info: Arc<Info>,
}

impl Setting {
    /// Returns the setting of the cases on a harness, whose server says this of itself.
    pub(crate) fn of(harness: Arc<dyn Harness>, info: Arc<Info>) -> Setting {
        Setting { facts: harness.facts(), abilities: harness.clone().abilities(), harness, info }
    }

    /// Returns how much of something a case does: all of it in a full run, otherwise less. Prints the size, so that a
    /// reader cannot take one for the other.
    pub(crate) fn size(&self, what: &str, usual: usize, full: usize) -> usize {
        let size = if is_full_run() { full } else { usual };
        println!("{}: {size} {what}; {full} with LOCK_TEST_FULL=1", self.harness.name());
        size
    }

    /// Returns a name that no other case uses.
    pub(crate) fn name(&self) -> Name {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        Name::new(format!("case-{n}-{}", Owner::mint(&Random::system()))).expect("it is short and plain")
    }

    /// Opens a client as another process would have it.
    pub(crate) async fn client(&self) -> Client {
        self.client_with(Options::default()).await
    }

    pub(crate) async fn client_with(&self, options: Options) -> Client {
        self.harness.open(options).answered().await
    }

    /// Returns the ttl that cases use: short, but long enough for this server.
    pub(crate) fn ttl(&self) -> Duration {
        self.facts.ttl.max(self.info.min_ttl)
    }

    /// Returns a lock of this client with the case's ttl.
    pub(crate) fn lock(&self, client: &Client, name: &Name) -> LockBuilder {
        client.lock(name.as_str()).ttl(self.ttl())
    }

    /// Returns a lock of a new client with the case's ttl.
    pub(crate) async fn lock_elsewhere(&self, name: &Name) -> LockBuilder {
        self.lock(&self.client().await, name)
    }

    /// Returns a lock of a new client on a server of the case's own, with the case's ttl.
    pub(crate) async fn lock_on(&self, server: &dyn OwnServer, name: &Name) -> LockBuilder {
        self.lock(&opened(server).await, name)
    }

    /// Acquires the lock with a new client on a server of the case's own.
    pub(crate) async fn hold_on(&self, server: &dyn OwnServer, name: &Name) -> Guard {
        hold(self.lock_on(server, name).await).await
    }

    /// Acquires the lock with a new client.
    pub(crate) async fn hold(&self, name: &Name) -> Guard {
        self.hold_by(&self.client().await, name).await
    }

    pub(crate) async fn hold_by(&self, client: &Client, name: &Name) -> Guard {
        hold(self.lock(client, name)).await
    }

    /// Returns a ttl for cases that are not about the end of a lease: the machine may stand still for a while in it.
    pub(crate) fn long(&self) -> Duration {
        self.ttl() * 20
    }

    /// Acquires the lock with a new client, with the ttl of [`long`](Self::long).
    pub(crate) async fn hold_long(&self, name: &Name) -> Guard {
        self.hold_long_by(&self.client().await, name).await
    }

    pub(crate) async fn hold_long_by(&self, client: &Client, name: &Name) -> Guard {
        hold(self.lock(client, name).ttl(self.long())).await
    }

    /// Returns whether a new client can get the lock at once. Releases it again.
    pub(crate) async fn is_free(&self, name: &Name) -> bool {
        self.is_free_for(&self.client().await, name).await
    }

    /// Returns whether this client can get the lock at once. Releases it again.
    pub(crate) async fn is_free_for(&self, client: &Client, name: &Name) -> bool {
        match self.lock(client, name).built().try_acquire().answered().await {
            Some(guard) => {
                guard.release().await;
                true
            }
            None => false,
        }
    }

    /// Releases a lock that must have been held until now, and checks that it is free then.
    pub(crate) async fn freed(&self, guard: Guard) {
        let name = guard.name().clone();
        released(guard).await;
        assert!(self.is_free(&name).await);
    }

    /// Fails the case if another client can get what this guard holds.
    pub(crate) async fn is_kept(&self, guard: &Guard, name: &Name) {
        if self.is_free(name).await {
            still_held(guard);
            panic!("the lock is free, although its guard holds it");
        }
    }

    /// Checks for so long, with pauses, that the guard says that it holds the lock, and that the server agrees.
    pub(crate) async fn stays_held(&self, guard: &Guard, time: Duration, pause: Duration) {
        let end = Instant::now() + time;
        while Instant::now() < end {
            still_held(guard);
            self.is_kept(guard, guard.name()).await;
            tokio::time::sleep(pause).await;
        }
    }

    /// Returns the holder that the server shows for what this guard holds. Fails the case if it shows none.
    pub(crate) async fn seen(&self, lock: &Lock, guard: &Guard) -> Entry {
        holder_of(lock).await.unwrap_or_else(|| {
            still_held(guard);
            panic!("the server shows no holder, although the guard holds the lock");
        })
    }

    /// Makes a claim, for the cases that use the contract itself.
    pub(crate) fn claim(
        &self,
        client: &Client,
        name: &Name,
        ttl: Duration,
        waits: Queueing,
    ) -> Box<dyn Claim> {
        claims::claim(
            client,
            name.as_str(),
            Terms { ttl, patience: Duration::from_secs(2), waits, label: "a case" },
        )
    }

    /// Makes a claim that takes no place in a queue, and lets it hold the lock.
    pub(crate) async fn holding_claim(&self, client: &Client, name: &Name, ttl: Duration) -> Box<dyn Claim> {
        let mut claim = self.claim(client, name, ttl, Queueing::No);
        claims::granted(&mut claim).await;
        claim
    }
}

async fn hold(lock: LockBuilder) -> Guard {
    lock.built().try_acquire().answered().await.expect("no other client has this name")
}

/// Opens a client of a server of the case's own.
pub(crate) async fn opened(server: &dyn OwnServer) -> Client {
    server.open(Options::default()).answered().await
}

/// A case makes a lock of such terms, which are always allowed, and contends for it.
pub(crate) trait Contend {
    /// Returns the lock.
    fn built(self) -> Lock;
    /// Acquires the lock.
    async fn held(self) -> Guard;
    /// Acquires the lock within this time.
    async fn held_within(self, what: &str, limit: Duration) -> Guard;
    /// Starts a task that waits for the lock.
    fn waits(self) -> Waiter;
}

/// The network between a case's clients and the server, which the case disturbs.
pub(crate) type Net = Arc<dyn ThroughProxy>;

/// A task that waits for a lock.
pub(crate) type Waiter = JoinHandle<Result<Guard>>;

impl Contend for LockBuilder {
    fn built(self) -> Lock {
        self.build().expect("the case's terms are allowed")
    }

    async fn held(self) -> Guard {
        self.built().acquire().answered().await
    }

    async fn held_within(self, what: &str, limit: Duration) -> Guard {
        let lock = self.built();
        within(what, limit, lock.acquire()).answered().await
    }

    fn waits(self) -> Waiter {
        waits(self.built())
    }
}

/// Starts a task that waits for the lock.
pub(crate) fn waits(lock: Lock) -> Waiter {
    tokio::spawn(async move { lock.acquire().await })
}

/// Returns what a task was granted that waits.
pub(crate) async fn granted_within<T>(what: &str, limit: Duration, waiter: JoinHandle<Result<T>>) -> T {
    let granted = within(what, limit, waiter).await.returned();
    granted.unwrap_or_else(|error| panic!("{what}: the server is up, and it waits without end: {error:?}"))
}

/// Returns the holder that the server shows.
pub(crate) async fn holder_of(lock: &Lock) -> Option<Entry> {
    lock.inspect().answered().await.holder
}

/// Returns how many waiters the server shows.
pub(crate) async fn waiters_of(lock: &Lock) -> usize {
    lock.inspect().answered().await.waiters.map_or(0, |waiters| waiters.len())
}

/// Checks for so long that the lock has no holder. Looks all the time: a grant that is undone at once is a grant, too.
pub(crate) async fn stays_unheld(lock: &Lock, time: Duration, otherwise: &str) {
    let end = Instant::now() + time;
    while Instant::now() < end {
        let holder = holder_of(lock).await;
        assert!(holder.is_none(), "{otherwise}: {holder:?}");
    }
}

/// Returns whether cases do all that they can be sized for.
pub fn is_full_run() -> bool {
    std::env::var_os(FULL).is_some_and(|full| !full.is_empty())
}

/// Waits until the lock has just been renewed: no renewal is under way, and none will be for a while.
pub(crate) async fn renewed(guard: &Guard, ttl: Duration) {
    let mut left = guard.valid_for();
    until("it is renewed", ttl, || {
        let before = std::mem::replace(&mut left, guard.valid_for());
        std::future::ready(left > before)
    })
    .await;
}

/// The longest time after the end until a loss is told. A runtime's timers take time, and so does a task's turn on a
/// busy machine.
const TOLD: Duration = ms(150);

/// Returns why a lock is lost that is no longer prolonged. Panics if that isn't told when the guard's time is over.
pub(crate) async fn lost_at_its_end(guard: &Guard) -> LossReason {
    within("the loss, when the guard's time is over", guard.valid_for() + TOLD, guard.lost()).await
}

/// Returns why a lock is lost that is no longer prolonged. For cases that need the loss, and are not about its time.
pub(crate) async fn lost_eventually(guard: &Guard) -> LossReason {
    within("the loss", guard.valid_for() + bounds::EVENTUALLY, guard.lost()).await
}

/// Returns why a lock is lost whose server answers no request from now on. Panics if that isn't told when the guard's
/// time is over.
pub(crate) async fn lost_in_time(guard: &Guard, info: &Info, ttl: Duration) -> LossReason {
    // What was under way has arrived after this time.
    tokio::time::sleep(ms(5)).await;
    let mut end = Instant::now() + guard.valid_for();
    let lost = within("the loss", ttl + TOLD, async {
        // One future for the whole wait, as users have it: what users would be told late is late here, too.
        let mut lost = pin!(guard.lost());
        loop {
            if let Ok(cause) = tokio::time::timeout(ms(5), &mut lost).await {
                return cause;
            }
            // A session may have been proven for longer than the guard knew. Nothing prolongs a lock's own lease.
            if info.lease == Lease::Session {
                end = end.max(Instant::now() + guard.valid_for());
            }
        }
    });
    let cause = lost.await;
    assert_in_time!(end.elapsed() < TOLD, "the loss was told {:?} after the end", end.elapsed());
    cause
}

pub(crate) const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}
