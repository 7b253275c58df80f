//! The means of a case: its own clients, locks and names.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use lock_core::driver::{Claim, Entry, Lease, Queueing};
use lock_core::{Client, Guard, Info, Lock, LockBuilder, LossReason, Name, Options, Owner, Random};

use crate::bounds;
use crate::claims::{self, Terms};
use crate::environment::FULL;
use crate::harness::Harness;
use crate::timing::{Answered, assert_in_time, still_held, until, within};

/// The setting of one case.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    pub(crate) harness: Arc<dyn Harness>,
    pub(crate) info: Arc<Info>,
}

impl Setting {
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
        self.harness.ttl().max(self.info.min_ttl)
    }

    /// Returns a lock of this client with the case's ttl.
    pub(crate) fn lock(&self, client: &Client, name: &Name) -> LockBuilder {
        client.lock(name.as_str()).ttl(self.ttl())
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
        let client = self.client().await;
        let lock = self.lock(&client, name).build().expect("the case's terms are fine");
        match lock.try_acquire().answered().await {
            Some(guard) => {
                guard.release().await;
                true
            }
            None => false,
        }
    }

    /// Fails the case if another client can get what this guard holds.
    pub(crate) async fn is_kept(&self, guard: &Guard, name: &Name) {
        if self.is_free(name).await {
            still_held(guard);
            panic!("the lock is free, although its guard holds it");
        }
    }

    /// Returns the holder that the server shows for what this guard holds. Fails the case if it shows none.
    pub(crate) async fn seen(&self, lock: &Lock, guard: &Guard) -> Entry {
        let seen = lock.inspect().answered().await.holder;
        seen.unwrap_or_else(|| {
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
}

async fn hold(lock: LockBuilder) -> Guard {
    let lock = lock.build().expect("the case's terms are fine");
    lock.try_acquire().answered().await.expect("no other client has this name")
}

/// Returns whether cases do all that they can be sized for.
pub fn is_full_run() -> bool {
    std::env::var_os(FULL).is_some_and(|full| !full.is_empty())
}

/// Returns the result of a thread; panics with the thread's own panic.
pub(crate) fn joined<T>(thread: JoinHandle<T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
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
