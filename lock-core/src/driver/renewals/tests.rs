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
    /// Whether it does not understand the shared request.
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
        Ok(vec![Some(ttl); held.len()])
    }
}

fn runtime() -> Runtime {
    runtime::Builder::new_current_thread().enable_time().build().unwrap()
}

/// Renews one lock.
async fn renew(renewals: Arc<Renewals>, server: Arc<Server>) -> Option<Duration> {
    let (clock, owner) = (Clock::system(), Owner::mint(&Random::system()));
    let held = HeldKey { key: Arc::from(*owner.as_bytes()), owner };
    renewals.renew(&server, &Call::begin(&clock, Duration::from_secs(5)), held, TTL).await.unwrap()
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

#[test]
fn a_runtime_that_ends_leaves_no_queue_that_no_task_sends() {
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
fn a_server_that_refuses_the_shared_request_is_asked_it_once() {
    let (renewals, server) = (Arc::<Renewals>::default(), Server::new(usize::MAX >> 3));
    server.refuses.store(true, Ordering::Relaxed);
    for asked in [20, 40] {
        let answers = runtime().block_on(renew_many(20, &renewals, &server));
        assert!(answers.iter().all(|answer| *answer == Some(TTL)), "{answers:?}");
        assert_eq!((server.alone.load(Ordering::Relaxed), server.together()), (asked, vec![19]));
    }
}
