//! The drivers over a wire that holds messages back, loses answers and delivers messages twice. It runs in virtual
//! time, which advances only when no task has anything else to do, however busy the machine is.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod virtual_time;

use std::fmt;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use lock_core::driver::{Driver, Prefix, Revoked, When};
use lock_core::{Client, Clock, Ending, ErrorKind, Instant, LossReason, Options};
use lock_memory::lease::LeaseDriver;
use lock_memory::queue::QueueDriver;
use lock_memory::server::lease::{LeaseServer, Request as LeaseRequest};
use lock_memory::server::queue::{Answer, QueueServer, Request as QueueRequest, Standing};
use lock_memory::server::{ClientId, Handled, Server};
use lock_memory::wire::{Inbox, Pushed, Reply, Wire};
use lock_memory::{ServerClock, ServerTime};
use tokio::sync::Notify;
use virtual_time::clock;

const PATIENCE: Duration = Duration::from_millis(100);
const TTL: Duration = Duration::from_secs(5);

/// A server, a network that can be told what to do with messages, and its clients.
struct World<S: Server> {
    server: Mutex<S>,
    clock: ServerClock,
    network: Mutex<Network<S>>,
}

/// Selects a request, and says what happens to it.
type Plan<S> = (fn(&<S as Server>::Request) -> bool, Fate);

struct Network<S: Server> {
    /// Each plan applies to the next request that it selects.
    plans: Vec<Plan<S>>,
    /// Requests that wait for their delivery, or that were delivered and can be delivered once more.
    caught: Vec<(ClientId, S::Request)>,
    /// When each request whose answer is late was delivered.
    late: Vec<Instant>,
    /// Lets a slow answer arrive.
    arrive: Arc<Notify>,
    inboxes: Vec<(ClientId, Arc<Inbox<S::Push>>)>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    /// It is delivered only when the test says so.
    Held,
    /// It is delivered, and its answer is lost.
    Unanswered,
    /// It is delivered and answered, and can be delivered once more.
    Doubled,
    /// The caught request is delivered before it.
    Overtaken,
    /// It is delivered, and its answer arrives when the test says so.
    Slow,
    /// It is delivered, and its answer arrives [`LATE`] after that.
    Late,
}

/// How late an answer is: a heartbeat waits longer than this.
const LATE: Duration = Duration::from_millis(150);

impl<S: Server> World<S> {
    fn new(begin: impl FnOnce(ServerTime) -> S) -> Arc<World<S>> {
        let clock = ServerClock::new(clock(), ServerTime::from_micros(1_700_000_000_000_000));
        let network = Network {
            plans: Vec::new(),
            caught: Vec::new(),
            late: Vec::new(),
            arrive: Arc::default(),
            inboxes: Vec::new(),
        };
        Arc::new(World { server: Mutex::new(begin(clock.now())), clock, network: Mutex::new(network) })
    }

    fn next(&self, which: fn(&S::Request) -> bool, fate: Fate) {
        self.network.lock().unwrap().plans.push((which, fate));
    }

    /// Delivers the caught request, and returns the server's answer.
    fn deliver_late(&self) -> S::Answer {
        let (from, request) = self.network.lock().unwrap().caught.pop().expect("something was caught");
        self.deliver(from, request).answer
    }

    fn deliver(&self, from: ClientId, request: S::Request) -> Reply<S::Answer> {
        let now = self.clock.now();
        let Handled { answer, pushes } = self.server.lock().unwrap().handle(now, from, request);
        for (to, push) in pushes {
            self.push(to, Pushed::Push(push));
        }
        Reply { now, answer }
    }

    /// Called without any lock, because an inbox may send a request itself.
    fn push(&self, to: ClientId, pushed: Pushed<S::Push>) {
        let inboxes = self.network.lock().unwrap().inboxes.clone();
        inboxes.iter().filter(|(client, _)| *client == to).for_each(|(_, inbox)| inbox(pushed.clone()));
    }

    async fn keeps(&self, kept: u64) {
        while self.kept() != kept {
            clock().sleep(Duration::from_millis(1)).await;
        }
    }

    fn kept(&self) -> u64 {
        self.server.lock().unwrap().kept(self.clock.now())
    }
}

/// One client's end of the network.
struct End<S: Server>(Arc<World<S>>, ClientId);

#[async_trait]
impl<S: Server> Wire<S> for End<S> {
    async fn ask(&self, request: S::Request) -> Reply<S::Answer> {
        let End(world, from) = self;
        let fate = {
            let mut network = world.network.lock().unwrap();
            let planned = network.plans.iter().position(|(which, _)| which(&request));
            let fate = planned.map(|at| network.plans.remove(at).1);
            if matches!(fate, Some(Fate::Held | Fate::Doubled | Fate::Slow)) {
                network.caught.push((*from, request.clone()));
            }
            fate
        };
        if fate == Some(Fate::Overtaken) {
            world.deliver_late();
        }
        let reply = (fate != Some(Fate::Held)).then(|| world.deliver(*from, request));
        if fate == Some(Fate::Slow) {
            let arrive = world.network.lock().unwrap().arrive.clone();
            arrive.notified().await;
        }
        if fate == Some(Fate::Late) {
            let clock = clock();
            world.network.lock().unwrap().late.push(clock.now());
            clock.sleep(LATE).await;
        }
        match reply {
            Some(reply) if fate != Some(Fate::Unanswered) => reply,
            _ => std::future::pending().await,
        }
    }

    fn tell(&self, request: S::Request) {
        self.0.deliver(self.1, request);
    }

    fn receive(&self, inbox: Inbox<S::Push>) {
        self.0.network.lock().unwrap().inboxes.push((self.1, Arc::new(inbox)));
    }
}

impl<S: Server> fmt::Debug for End<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "End({:?})", self.1)
    }
}

async fn client<D: Driver>(open: impl FnOnce(Clock) -> D + Send + 'static) -> Client {
    let options = Options::default().patience(PATIENCE).clock(clock());
    options.open("memory", "", |context| async move { Ok(open(context.clock)) }).await.unwrap()
}

async fn lease_client(world: &Arc<World<LeaseServer>>, n: u64) -> Client {
    let end = Arc::new(End(world.clone(), ClientId(n)));
    client(|clock| LeaseDriver::new(end, "test", Prefix::default(), clock)).await
}

async fn queue_client(world: &Arc<World<QueueServer>>, n: u64) -> Client {
    let end = Arc::new(End(world.clone(), ClientId(n)));
    let runtime = tokio::runtime::Handle::current();
    client(|clock| QueueDriver::new(end, "test", Prefix::default(), clock, runtime)).await
}

fn is_lease_attempt(request: &LeaseRequest) -> bool {
    matches!(request, LeaseRequest::Attempt { .. })
}

fn is_heartbeat(request: &QueueRequest) -> bool {
    matches!(request, QueueRequest::Heartbeat { .. })
}

fn is_queue_attempt(request: &QueueRequest) -> bool {
    matches!(request, QueueRequest::Attempt { .. })
}

/// Looks with an attempt that isn't answered, which has to be an error in time. Then waits until the core has cleaned
/// up.
async fn look_in_vain(client: &Client) {
    let lock = client.lock("n").ttl(TTL).build().unwrap();
    let looked = clock().timeout(PATIENCE * 10, lock.try_acquire()).await.expect("answered in time");
    let error = looked.map(drop).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Unavailable { .. }), "{error}");
    assert_eq!(client.shutdown(PATIENCE * 20).await, 0, "cleaned up");
    // Here an answer takes no time, so this is still the last moment at which the attempt is valid.
    clock().sleep(Duration::from_millis(1)).await;
}

async fn take_and_release(client: &Client) {
    let lock = client.lock("n").ttl(TTL).build().unwrap();
    let guard = lock.try_acquire().await.unwrap().expect("free");
    assert_eq!(guard.release().await, Ending::Released);
}

#[tokio::test(start_paused = true)]
async fn a_lease_attempt_that_comes_after_its_patience_is_refused() {
    let world = World::new(|_| LeaseServer::default());
    let (a, b) = (lease_client(&world, 1).await, lease_client(&world, 2).await);
    world.next(is_lease_attempt, Fate::Held);
    look_in_vain(&a).await;
    let late = world.deliver_late();
    assert!(matches!(late, lock_memory::server::lease::Answer::Refused), "{late:?}");
    assert_eq!(world.kept(), 0);
    take_and_release(&b).await;
}

#[tokio::test(start_paused = true)]
async fn a_lease_grant_whose_answer_is_lost_is_given_back() {
    let world = World::new(|_| LeaseServer::default());
    let (a, b) = (lease_client(&world, 1).await, lease_client(&world, 2).await);
    world.next(is_lease_attempt, Fate::Unanswered);
    look_in_vain(&a).await;
    take_and_release(&b).await;
}

#[tokio::test(start_paused = true)]
async fn a_lease_attempt_meets_a_server_whose_clock_was_set() {
    let world = World::new(|_| LeaseServer::default());
    let client = lease_client(&world, 1).await;
    take_and_release(&client).await;
    for now in [world.clock.now() + TTL * 1000, ServerTime::from_micros(1)] {
        // The client's estimate of the server's time is wrong by far. It learns the time from the refusal, and asks
        // once more.
        world.clock.set(now);
        take_and_release(&client).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_waiter_listens_again_after_a_gap() {
    let world = World::new(|_| LeaseServer::default());
    let (a, b) = (lease_client(&world, 1).await, lease_client(&world, 2).await);
    let guard = a.lock("n").build().unwrap().acquire().await.unwrap();
    let waiting = b.lock("n").build().unwrap();
    let waiting = tokio::spawn(async move { waiting.acquire().await });
    clock().timeout(TTL, world.keeps(2)).await.expect("a holder and a listener");
    world.server.lock().unwrap().hang_up(ClientId(2));
    world.push(ClientId(2), Pushed::Gap);
    clock().timeout(TTL, world.keeps(2)).await.expect("the waiter listens again");
    assert_eq!(guard.release().await, Ending::Released);
    let woken = clock().timeout(Duration::from_secs(2), waiting).await;
    drop(woken.expect("woken before the core's own look").unwrap().unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_watch_whose_answer_a_gap_overtakes_is_asked_for_again() {
    let world = World::new(|_| LeaseServer::default());
    let (a, b) = (lease_client(&world, 1).await, lease_client(&world, 2).await);
    world.next(|request| matches!(request, LeaseRequest::Watch), Fate::Slow);
    let guard = a.lock("n").ttl(TTL).build().unwrap().acquire().await.unwrap();
    while world.network.lock().unwrap().caught.is_empty() {
        clock().sleep(Duration::from_millis(1)).await;
    }
    // The server has begun to watch, and forgets that before its answer reaches the client.
    world.server.lock().unwrap().hang_up(ClientId(1));
    world.push(ClientId(1), Pushed::Gap);
    let arrive = world.network.lock().unwrap().arrive.clone();
    arrive.notify_one();
    // The look that follows finds no revoke yet.
    clock().sleep(Duration::from_millis(10)).await;
    assert!(guard.is_held());
    let lock = b.lock("n").build().unwrap();
    let holder = lock.inspect().await.unwrap().holder.expect("held");
    lock.revoke(&holder.owner, When::HoldersDeadline).await.unwrap();
    let told = clock().timeout(Duration::from_millis(100), guard.lost()).await;
    assert_eq!(told, Some(LossReason::Revoked), "before the next renewal");
}

#[tokio::test(start_paused = true)]
async fn a_session_that_has_ended_unnoticed_is_replaced() {
    let world = World::new(QueueServer::new);
    let client = queue_client(&world, 1).await;
    let guard = client.lock("n").ttl(TTL).build().unwrap().acquire().await.unwrap();
    let expire = QueueRequest::Expire { key: "n".into() };
    // The message that this pushes is not delivered.
    world.server.lock().unwrap().handle(world.clock.now(), ClientId(0), expire);
    take_and_release(&client).await;
    assert_eq!(guard.lost().await, LossReason::Session);
}

#[tokio::test(start_paused = true)]
async fn a_waiter_whose_session_has_ended_unnoticed_queues_again() {
    let world = World::new(QueueServer::new);
    let (a, b) = (queue_client(&world, 1).await, queue_client(&world, 2).await);
    let guard = a.lock("n").build().unwrap().acquire().await.unwrap();
    let ttl = Duration::from_millis(300);
    let other = b.lock("other").ttl(ttl).build().unwrap().acquire().await.unwrap();
    let waiting = b.lock("n").ttl(ttl).build().unwrap();
    let waiting = tokio::spawn(async move { waiting.acquire().await });
    clock().timeout(TTL, world.keeps(3)).await.expect("two holders and a waiter");
    // This ends the waiter's session, with everything that it has. The messages that this pushes are not delivered.
    let expire = QueueRequest::Expire { key: "other".into() };
    world.server.lock().unwrap().handle(world.clock.now(), ClientId(0), expire);
    assert_eq!(world.kept(), 1);
    let again = clock().timeout(Duration::from_secs(2), world.keeps(2)).await;
    again.expect("its heartbeat finds out, long before the core's own look");
    assert_eq!(other.lost().await, LossReason::Session);
    drop(guard);
    drop(waiting.await.unwrap().unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_queue_attempt_that_comes_after_its_release_is_refused() {
    let world = World::new(QueueServer::new);
    let (a, b) = (queue_client(&world, 1).await, queue_client(&world, 2).await);
    world.next(is_queue_attempt, Fate::Held);
    look_in_vain(&a).await;
    let late = world.deliver_late();
    assert!(matches!(late, Answer::Refused), "{late:?}");
    take_and_release(&b).await;
}

#[tokio::test(start_paused = true)]
async fn a_queue_grant_whose_answer_is_lost_is_given_back() {
    let world = World::new(QueueServer::new);
    let (a, b) = (queue_client(&world, 1).await, queue_client(&world, 2).await);
    world.next(is_queue_attempt, Fate::Unanswered);
    look_in_vain(&a).await;
    take_and_release(&b).await;
}

#[tokio::test(start_paused = true)]
async fn a_session_whose_answer_is_lost_is_no_obstacle() {
    let world = World::new(QueueServer::new);
    let client = queue_client(&world, 1).await;
    world.next(|request| matches!(request, QueueRequest::OpenSession { .. }), Fate::Unanswered);
    let lock = client.lock("n").ttl(TTL).build().unwrap();
    let error = lock.try_acquire().await.map(drop).unwrap_err();
    assert!(!error.may_have_taken_effect(), "the attempt was not sent: {error}");
    take_and_release(&client).await;
}

#[tokio::test(start_paused = true)]
async fn one_lost_heartbeat_costs_no_lock() {
    let world = World::new(QueueServer::new);
    let client = queue_client(&world, 1).await;
    let lock = client.lock("n").ttl(Duration::from_millis(400)).build().unwrap();
    let guard = lock.acquire().await.unwrap();
    for _ in 0..3 {
        world.next(is_heartbeat, Fate::Held);
        guard.protect(clock().sleep(Duration::from_millis(400))).await.unwrap();
        assert!(world.network.lock().unwrap().caught.pop().is_some(), "one heartbeat was lost");
    }
}

#[tokio::test(start_paused = true)]
async fn a_heartbeat_proves_what_was_so_when_it_was_sent() {
    let world = World::new(QueueServer::new);
    let client = queue_client(&world, 1).await;
    let ttl = LATE * 8;
    let guard = client.lock("n").ttl(ttl).build().unwrap().acquire().await.unwrap();
    let began = clock().now();
    (0..100).for_each(|_| world.next(is_heartbeat, Fate::Late));
    let late = || world.network.lock().unwrap().late.clone();
    while late().len() < 4 {
        let until = clock().now() + guard.valid_for();
        // Read after `until`: no heartbeat on which `until` is based was delivered later than this.
        let delivered = late().last().copied().unwrap_or(began);
        assert!(until <= delivered + ttl, "{:?} too long", until.since(delivered + ttl));
        clock().sleep(LATE / 10).await;
    }
    assert!(guard.is_held(), "late answers cost no lock");
}

#[tokio::test(start_paused = true)]
async fn a_heartbeat_that_was_on_its_way_before_the_news_does_not_settle_them() {
    let world = World::new(QueueServer::new);
    let (a, b) = (queue_client(&world, 1).await, queue_client(&world, 2).await);
    let guard = a.lock("n").ttl(LATE * 20).build().unwrap().acquire().await.unwrap();
    let other = b.lock("n").build().unwrap();
    let holder = other.inspect().await.unwrap().holder.expect("there is one").owner;
    let clock = clock();
    (0..100).for_each(|_| world.next(is_heartbeat, Fate::Late));
    while world.network.lock().unwrap().late.is_empty() {
        clock.sleep(Duration::from_millis(1)).await;
    }
    // The answer of a heartbeat, which says that the lock is held, is still on its way.
    assert_eq!(other.revoke(&holder, When::Now).await.unwrap(), Revoked::Free);
    let left = guard.valid_for();
    let until = clock.now() + left; // or a moment earlier
    let mut lost = pin!(guard.lost());
    let cause = loop {
        match clock.timeout(LATE / 20, &mut lost).await {
            Some(cause) => break cause,
            None => assert!(clock.now() + guard.valid_for() <= until, "prolonged after it was revoked"),
        }
    };
    assert_eq!(cause, LossReason::Revoked);
}

#[tokio::test(start_paused = true)]
async fn a_place_that_comes_back_after_its_release_is_given_up() {
    let world = World::new(QueueServer::new);
    let (a, b) = (queue_client(&world, 1).await, queue_client(&world, 2).await);
    let ttl = Duration::from_millis(600);
    // Another lock keeps the session open. Without it, the place would end with the session.
    let _other = a.lock("other").ttl(ttl).build().unwrap().acquire().await.unwrap();
    world.next(is_queue_attempt, Fate::Doubled);
    let guard = a.lock("n").ttl(ttl).build().unwrap().acquire().await.unwrap();
    assert_eq!(guard.release().await, Ending::Released);
    let again = world.deliver_late();
    assert!(matches!(again, Answer::Granted(_)), "{again:?}");
    let lock = b.lock("n").ttl(ttl).build().unwrap();
    let guard = clock().timeout(ttl, lock.acquire()).await.expect("given up at the next heartbeat");
    assert!(guard.is_ok());
}

#[tokio::test(start_paused = true)]
async fn what_was_revoked_and_given_back_is_not_released_at_every_heartbeat() {
    let world = World::new(QueueServer::new);
    let (a, b) = (queue_client(&world, 1).await, queue_client(&world, 2).await);
    let ttl = Duration::from_millis(600);
    // Another lock keeps the session open, and the session remembers the revokes.
    let _other = a.lock("other").ttl(ttl).build().unwrap().acquire().await.unwrap();
    for _ in 0..3 {
        let guard = a.lock("n").ttl(ttl).build().unwrap().acquire().await.unwrap();
        let lock = b.lock("n").build().unwrap();
        let holder = lock.inspect().await.unwrap().holder.expect("there is one").owner;
        assert_eq!(lock.revoke(&holder, When::Now).await.unwrap(), Revoked::Free);
        let lost = clock().timeout(ttl, guard.lost()).await;
        assert_eq!(lost, Some(LossReason::Revoked));
        assert_eq!(guard.release().await, Ending::Expired);
    }
    let writes = || world.server.lock().unwrap().writes();
    let before = writes();
    for _ in 0..4 {
        world.next(is_heartbeat, Fate::Doubled);
        let sent = async {
            while world.network.lock().unwrap().caught.is_empty() {
                clock().sleep(Duration::from_millis(1)).await;
            }
        };
        clock().timeout(TTL, sent).await.expect("a heartbeat");
        let has = match world.deliver_late() {
            Answer::Kept(has) => has,
            other => panic!("{other:?}"),
        };
        assert_eq!(has.values().filter(|standing| **standing == Standing::Revoked).count(), 3, "{has:?}");
    }
    assert_eq!(writes(), before);
}

/// Found by the simulation: the old session kept the place, and the next attempt took it for one in the new session.
#[tokio::test(start_paused = true)]
async fn a_place_that_comes_back_in_a_session_that_was_given_up_is_refused() {
    let world = World::new(QueueServer::new);
    let (a, b) = (queue_client(&world, 1).await, queue_client(&world, 2).await);
    let ttl = Duration::from_millis(400);
    let guard = b.lock("n").ttl(TTL).build().unwrap().acquire().await.unwrap();
    world.next(is_queue_attempt, Fate::Doubled);
    let waiting = a.lock("n").ttl(ttl).build().unwrap();
    let waiting = tokio::spawn(async move { waiting.acquire().await });
    clock().timeout(TTL, world.keeps(2)).await.expect("a holder and a waiter");
    // No heartbeat is answered until the client gives its session up. The server still has it.
    (0..100).for_each(|_| world.next(is_heartbeat, Fate::Unanswered));
    world.next(|request| matches!(request, QueueRequest::OpenSession { .. }), Fate::Overtaken);
    let caught = async {
        while !world.network.lock().unwrap().caught.is_empty() {
            clock().sleep(Duration::from_millis(1)).await;
        }
    };
    clock().timeout(TTL, caught).await.expect("another session is opened");
    world.network.lock().unwrap().plans.clear();
    drop(guard);
    let guard = clock().timeout(TTL, waiting).await.expect("in time").unwrap().unwrap();
    guard.protect(clock().sleep(ttl * 2)).await.expect("the end of the old session leaves the lock alone");
}

/// Found by the simulation: a place in the old session looked as if no claim had it, and its release freed the place in
/// the new session.
#[tokio::test(start_paused = true)]
async fn a_late_heartbeat_of_a_session_that_is_over_touches_nothing() {
    let world = World::new(QueueServer::new);
    let (a, b) = (queue_client(&world, 1).await, queue_client(&world, 2).await);
    let ttl = Duration::from_millis(900);
    let guard = b.lock("n").ttl(TTL).build().unwrap().acquire().await.unwrap();
    world.next(is_queue_attempt, Fate::Doubled);
    let waiting = a.lock("n").ttl(ttl).build().unwrap();
    let waiting = tokio::spawn(async move { waiting.acquire().await });
    clock().timeout(TTL, world.keeps(2)).await.expect("a holder and a waiter");
    let caught = world.network.lock().unwrap().caught.pop();
    let Some((_, QueueRequest::Attempt { session, .. })) = caught else { panic!("{caught:?}") };
    world.next(is_heartbeat, Fate::Slow);
    let asked = async {
        while world.network.lock().unwrap().caught.is_empty() {
            clock().sleep(Duration::from_millis(1)).await;
        }
    };
    clock().timeout(TTL, asked).await.expect("its answer says what the session has");
    // The session ends, and the client learns that only when the waiter looks. Then the waiter queues in another
    // session.
    let close = QueueRequest::CloseSession { session };
    world.server.lock().unwrap().handle(world.clock.now(), ClientId(0), close);
    world.push(ClientId(1), Pushed::Gap);
    clock().timeout(ttl, world.keeps(2)).await.expect("another session");
    drop(guard);
    let guard = clock().timeout(ttl, waiting).await.expect("in time").unwrap().unwrap();
    world.network.lock().unwrap().arrive.notify_one();
    guard.protect(clock().sleep(ttl)).await.expect("the new place was not released");
}
