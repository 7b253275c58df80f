//! Clients that contend while their servers suffer a fault, for a backend's own tests with several servers.
//!
//! The checks: a name never has two holders at once, and its tokens rise in the order of its holders. No other
//! client gets what a client holds all the time, however often it asks, nor what was granted shortly before the fault.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use lock_core::{Client, Error, ErrorKind, FencingToken, Guard, Lock};
use tokio::task::{JoinHandle, JoinSet};

use crate::setting::Contend;
use crate::timing::{Returned, assert_in_time, until, void};

/// The length of most turns of a holder. Every `SELDOM`th turn lasts for `LONG_TURN`, so that a failover may fall into
/// it.
const TURN: Duration = Duration::from_millis(5);
const LONG_TURN: Duration = Duration::from_millis(800);
const SELDOM: usize = 12;
/// The pause between two tries for a lock that another client holds.
const PAUSE: Duration = Duration::from_millis(3);

/// Clients that continue, whatever happens to their servers.
#[derive(Debug)]
pub struct Contenders {
    ttl: Duration,
    wait: Duration,
    held: Arc<Mutex<History>>,
    /// The number of refusals to other clients of what a guard held, for each call of [`contest`](Contenders::contest).
    refused: Vec<Arc<AtomicUsize>>,
    stop: Arc<AtomicBool>,
    tasks: JoinSet<()>,
}

/// The holds so far, by name.
type History = HashMap<String, Vec<Held>>;

/// A time in which a client was certain that it held a name, and the token that it had.
#[derive(Clone, Copy, Debug)]
struct Held {
    from: Instant,
    to: Instant,
    token: FencingToken,
}

impl Contenders {
    /// Makes contenders whose leases last for `ttl` and which wait for a lock for at most `wait`.
    pub fn new(ttl: Duration, wait: Duration) -> Contenders {
        let (held, refused, stop, tasks) = Default::default();
        Contenders { ttl, wait, held, refused, stop, tasks }
    }

    /// Lets this client acquire and release the name repeatedly from now on.
    pub fn take_turns(&mut self, client: &Client, name: &str) {
        let lock = client.lock(name).ttl(self.ttl).wait(self.wait).built();
        self.tasks.spawn(take_turns(lock, self.held.clone(), self.stop.clone()));
    }

    /// Lets this client try all the time to get what the guard holds. It must not get it while the guard is held.
    pub fn contest(&mut self, client: &Client, guard: &Arc<Guard>) {
        let lock = client.lock(guard.name().as_str()).ttl(self.ttl).built();
        let refused = Arc::default();
        self.refused.push(Arc::clone(&refused));
        self.tasks.spawn(contest(lock, guard.clone(), refused, self.stop.clone()));
    }

    /// Waits until `turns` more turns were taken.
    ///
    /// # Panics
    ///
    /// If two clients were certain of a name at once, if a token did not rise, or if this takes longer than `limit`.
    pub async fn go_on(&self, turns: usize, limit: Duration) {
        let before = self.turns();
        until("they are granted their locks again", limit, || async { self.turns() >= before + turns }).await;
    }

    /// Returns how many turns were taken. Fails the test if two clients were certain of a name at once, or if a token
    /// did not rise.
    fn turns(&self) -> usize {
        let held = locked(&self.held);
        held.iter().for_each(|(name, held)| one_after_the_other(name, held));
        held.values().map(Vec::len).sum()
    }

    /// Waits until all contenders have released their locks, ends them, and returns how many turns were taken.
    ///
    /// # Panics
    ///
    /// If two clients were certain of a name at once, if a token did not rise, or if a client failed. Also panics, to
    /// end the test as void, if a call of [`contest`](Contenders::contest) was never refused.
    pub async fn end(mut self) -> usize {
        self.stop.store(true, Ordering::SeqCst);
        while let Some(task) = self.tasks.join_next().await {
            task.returned();
        }
        let refused: Vec<usize> = self.refused.iter().map(|refused| refused.load(Ordering::SeqCst)).collect();
        if refused.contains(&0) {
            void(&format!("a client was never refused what another one held: {refused:?}"));
        }
        let turns = self.turns();
        println!("{turns} turns, one after the other; refused what another client held: {refused:?}");
        turns
    }
}

async fn take_turns(lock: Lock, held: Arc<Mutex<History>>, stop: Arc<AtomicBool>) {
    for turn in 1.. {
        if stop.load(Ordering::SeqCst) {
            return;
        }
        let guard = match lock.acquire().await {
            Ok(guard) => guard,
            Err(error) => {
                is_passing(&error);
                continue;
            }
        };
        let from = Instant::now();
        let length = if turn % SELDOM == 0 { LONG_TURN } else { TURN };
        if let Some(to) = certain(&guard, length).await {
            let (name, token) = (guard.name().as_str().to_owned(), guard.token());
            locked(&held).entry(name).or_default().push(Held { from, to, token });
        }
        guard.release().await;
    }
}

/// Holds the lock for `length`. Returns until when it was certainly held.
async fn certain(guard: &Guard, length: Duration) -> Option<Instant> {
    let began = Instant::now();
    let mut certain = None;
    loop {
        // The order matters: a lock that is still held after a moment was held at that moment.
        let now = Instant::now();
        if !guard.is_held() {
            return certain;
        }
        certain = Some(now);
        if began.elapsed() >= length {
            return certain;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

fn one_after_the_other(name: &str, held: &[Held]) {
    let mut held = held.to_vec();
    held.sort_by_key(|held| held.from);
    for pair in held.windows(2) {
        assert!(pair[0].to <= pair[1].from, "{name}: two holders: {pair:?}");
        assert!(pair[0].token < pair[1].token, "{name}: a token that does not rise: {pair:?}");
    }
}

async fn contest(lock: Lock, guard: Arc<Guard>, refused: Arc<AtomicUsize>, stop: Arc<AtomicBool>) {
    while !stop.load(Ordering::SeqCst) {
        if is_refused(&lock, &guard).await {
            refused.fetch_add(1, Ordering::SeqCst);
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Tries once to get what the guard holds, and returns whether that was refused. Fails the test if the lock was granted
/// while the guard was held.
async fn is_refused(lock: &Lock, guard: &Guard) -> bool {
    match lock.try_acquire().await {
        Ok(None) => true,
        Ok(Some(second)) => {
            // Checked first: a lock that is still held after the second grant was held at that grant.
            let is_held = guard.is_held();
            let (name, first, second) = (guard.name(), guard.token(), second.token());
            assert!(!is_held, "{name}: two holders: {second} was granted while {first} was held");
            false
        }
        Err(error) => {
            is_passing(&error);
            false
        }
    }
}

/// Fails the test unless servers that suffer a fault may return this error for a while.
fn is_passing(error: &Error) {
    assert!(error.is_transient() || error.kind() == ErrorKind::Timeout, "{error:?}");
}

/// Locks that a client takes one after the other while its servers suffer a fault, and keeps. If several servers forget
/// anything, they forget what they granted last.
#[derive(Debug)]
pub struct KeptLocks {
    kept: Arc<Mutex<VecDeque<Guard>>>,
    stop: Arc<AtomicBool>,
    taking: JoinHandle<()>,
}

/// The locks are held for longer than any failover takes. They are not renewed, because a renewal would tell their
/// holder of a loss.
const KEPT_TTL: Duration = Duration::from_secs(60);
/// The number of the newest locks that are kept: as many as can be checked in a second or two.
const MOST: usize = 200;

impl KeptLocks {
    /// Begins to take locks whose names begin with `names`, and waits until a few are held.
    pub async fn begin(client: Client, names: &str) -> KeptLocks {
        let (kept, stop): (Arc<Mutex<VecDeque<Guard>>>, Arc<AtomicBool>) = Default::default();
        let taking = tokio::spawn(take(client, names.to_owned(), kept.clone(), stop.clone()));
        until("a few are held", Duration::from_secs(20), || async { locked(&kept).len() >= 5 }).await;
        KeptLocks { kept, stop, taking }
    }

    /// Stops taking locks, and checks that no other client can get any lock that is still held. The servers must answer
    /// again by now.
    ///
    /// # Panics
    ///
    /// If another client is granted a lock that is held, or if the servers do not answer. Also panics, to end the test
    /// as void, if no lock was held any more.
    pub async fn is_kept(self, other: &Client) {
        self.stop.store(true, Ordering::SeqCst);
        self.taking.await.returned();
        let kept = std::mem::take(&mut *locked(&self.kept));
        let mut contested = 0;
        // The locks that were granted last have most of their time left.
        for guard in kept.iter().rev() {
            let lock = other.lock(guard.name().as_str()).built();
            let asked = Instant::now();
            while guard.is_held() {
                if is_refused(&lock, guard).await {
                    contested += 1;
                    break;
                }
                assert_in_time!(asked.elapsed() < KEPT_TTL / 2, "the servers do not answer");
            }
        }
        if contested == 0 {
            void("no lock was held any more when another client asked for it");
        }
        println!("{contested} of {} locks were kept", kept.len());
        kept.into_iter().map(Guard::release).collect::<JoinSet<_>>().join_all().await;
    }
}

/// Takes locks with free names, so that each of them costs one attempt.
async fn take(client: Client, names: String, kept: Arc<Mutex<VecDeque<Guard>>>, stop: Arc<AtomicBool>) {
    let mut number = 0;
    while !stop.load(Ordering::SeqCst) {
        number += 1;
        let lock = client.lock(format!("{names} {number}")).ttl(KEPT_TTL).fixed_lease().built();
        match lock.try_acquire().await {
            Ok(Some(guard)) => locked(&kept).push_back(guard),
            Ok(None) => panic!("no other client wants {names} {number}"),
            Err(error) => is_passing(&error),
        }
        let oldest = if locked(&kept).len() > MOST { locked(&kept).pop_front() } else { None };
        if let Some(guard) = oldest {
            guard.release().await;
        }
    }
}

/// No code panics while it holds this mutex, except in a test that fails.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
