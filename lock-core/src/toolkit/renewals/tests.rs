//! Tests of renewals that share a request.

use std::sync::Mutex;
use std::task::{Context, Waker};

use tokio::runtime::{self, Runtime};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::*;
use crate::clock::Clock;
use crate::random::Random;

const TTL: Duration = Duration::from_secs(30);

/// A server that counts its requests and answers each when it is let.
#[derive(Debug)]
struct Server {
    may_answer: Semaphore,
    alone: AtomicUsize,
    together: Mutex<Vec<usize>>,
    /// It does not understand the shared request.
    refuses: AtomicBool,
}

impl Server {
    fn new(answers: usize) -> Arc<Server> {
        let (alone, together, refuses) = Default::default();
        Arc::new(Server { may_answer: Semaphore::new(answers), alone, together, refuses })
    }

    fn together(&self) -> Vec<usize> {
        self.together.lock().unwrap().clone()
    }
}

impl Renews for Server {
    async fn one(&self, _: &Call, _: &HeldKey, ttl: Duration) -> Result<Option<Duration>> {
        self.alone.fetch_add(1, Ordering::Relaxed);
        tokio::task::yield_now().await;
        self.may_answer.acquire().await.unwrap().forget();
        Ok(Some(ttl))
    }

    async fn many(&self, _: &Call, held: Vec<HeldKey>, ttl: Duration) -> Result<Vec<Option<Duration>>> {
        assert!(held.is_sorted());
        self.together.lock().unwrap().push(held.len());
        if self.refuses.load(Ordering::Relaxed) {
            return Err(Error::rejected("there is no such request"));
        }
        self.may_answer.acquire().await.unwrap().forget();
        let left = |held: &HeldKey| (!held.key.starts_with(OVER)).then(|| ttl + mark(held));
        Ok(held.iter().map(left).collect())
    }
}

/// The beginning of the keys that no shared request renews.
const OVER: &[u8] = b"over";

/// Returns the time that the server adds to the lease of this lock, so that its answer differs from those of
/// others.
fn mark(held: &HeldKey) -> Duration {
    Duration::from_nanos(held.key.last().copied().map_or(0, u64::from))
}

fn runtime() -> Runtime {
    runtime::Builder::new_current_thread().enable_time().build().unwrap()
}

/// Renews one lock.
async fn renew(renewals: Arc<Renewals>, server: Arc<Server>) -> Option<Duration> {
    renew_key(renewals, server, vec![0], TTL).await
}

async fn renew_key(
    renewals: Arc<Renewals>,
    server: Arc<Server>,
    key: Vec<u8>,
    ttl: Duration,
) -> Option<Duration> {
    let (clock, owner) = (Clock::system(), Owner::mint(&Random::system()));
    let held = HeldKey { key: key.into(), owner };
    renewals.renew(&server, &Call::begin(&clock, Duration::from_secs(5)), held, ttl).await.unwrap()
}

/// Renews this many locks in one moment.
async fn renew_many(locks: usize, renewals: &Arc<Renewals>, server: &Arc<Server>) -> Vec<Option<Duration>> {
    (0..locks).map(|_| renew(renewals.clone(), server.clone())).collect::<JoinSet<_>>().join_all().await
}

#[test]
fn the_first_goes_alone_and_the_others_together() {
    let (renewals, server) = (Arc::<Renewals>::default(), Server::new(usize::MAX >> 3));
    let answers = runtime().block_on(renew_many(300, &renewals, &server));
    assert!(answers.iter().all(|answer| *answer == Some(TTL)), "{answers:?}");
    assert_eq!(server.alone.load(Ordering::Relaxed), 1);
    assert_eq!(server.together(), [128, 128, 43]);
}

/// Locks of several ttls are due in one moment, in any order, and some of them are lost.
#[test]
fn each_of_unlike_renewals_has_its_own_answer() {
    let (renewals, server) = (Arc::<Renewals>::default(), Server::new(usize::MAX >> 3));
    let asked: Vec<(Vec<u8>, Duration)> = (0..=u8::MAX)
        .map(|n| {
            let n = n.wrapping_mul(167);
            let beginning = if n % 5 == 0 { OVER } else { b"held" };
            ([beginning, &[n]].concat(), TTL * u32::from(n % 3 + 1))
        })
        .collect();
    runtime().block_on(async {
        let mut renewing = JoinSet::new();
        for (key, ttl) in asked {
            let (renewals, server) = (renewals.clone(), server.clone());
            renewing.spawn(async move { (renew_key(renewals, server, key.clone(), ttl).await, key, ttl) });
        }
        while let Some(renewed) = renewing.join_next().await {
            let (left, key, ttl) = renewed.unwrap();
            let is_alone = left == Some(ttl);
            let marked = ttl + Duration::from_nanos(u64::from(key[key.len() - 1]));
            assert!(left == Some(marked) || is_alone, "{key:?} for {ttl:?} has {left:?}");
        }
    });
    // The first goes by itself, and those of which the shared requests tell nothing.
    let lost = (0..=u8::MAX).filter(|n| n % 5 == 0).count();
    let alone = server.alone.load(Ordering::Relaxed);
    assert!(alone == lost || alone == lost + 1, "{alone} of {lost}");
}

#[test]
fn an_ended_runtime_leaves_no_unsent_queue() {
    let (renewals, server) = (Arc::<Renewals>::default(), Server::new(0));
    let first = runtime();
    let mut both: Vec<_> = (0..2).map(|_| Box::pin(renew(renewals.clone(), server.clone()))).collect();
    {
        // The one is under way and the other in the queue. The runtime does not run, and so not the task that sends it.
        let _entered = first.enter();
        let context = &mut Context::from_waker(Waker::noop());
        assert!(both.iter_mut().all(|renewal| renewal.as_mut().poll(context).is_pending()));
    }
    drop((first, both));
    server.may_answer.add_permits(10);
    let answers = runtime().block_on(renew_many(3, &renewals, &server));
    assert!(answers.iter().all(|answer| *answer == Some(TTL)), "{answers:?}");
    assert_eq!(server.together(), [2]);
}

#[test]
fn a_refused_shared_request_is_sent_once() {
    let (renewals, server) = (Arc::<Renewals>::default(), Server::new(usize::MAX >> 3));
    server.refuses.store(true, Ordering::Relaxed);
    for asked in [20, 40] {
        let answers = runtime().block_on(renew_many(20, &renewals, &server));
        assert!(answers.iter().all(|answer| *answer == Some(TTL)), "{answers:?}");
        assert_eq!((server.alone.load(Ordering::Relaxed), server.together()), (asked, vec![19]));
    }
}
