// Proves: late-attempts, request-late
//! The drivers over a wire that holds messages back, loses answers and delivers messages twice. It runs in virtual
//! time, which advances only when no task has anything else to do, however busy the machine is.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod sessions;
#[path = "../virtual_time/mod.rs"]
mod virtual_time;
mod world;

use std::future::ready;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use lock_core::driver::{Driver, Revoked, When};
use lock_core::toolkit::Prefix;
use lock_core::{Client, Clock, Ending, ErrorKind, LossReason, Options};
use lock_memory::ServerTime;
use lock_memory::lease::LeaseDriver;
use lock_memory::queue::QueueDriver;
use lock_memory::server::lease::{LeaseServer, Request as LeaseRequest};
use lock_memory::server::queue::{Answer, QueueServer, Request as QueueRequest, Standing};
use lock_memory::server::{ClientId, Server};
use lock_memory::wire::Pushed;
use virtual_time::clock;
use world::{End, Fate, LATE, World};

const PATIENCE: Duration = Duration::from_millis(100);
const TTL: Duration = Duration::from_secs(5);

async fn client<D: Driver>(open: impl Fn(Clock) -> D) -> Client {
    let options = Options::default().patience(PATIENCE).clock(clock());
    options.open("memory", "", |context| ready(Ok(open(context.clock)))).await.unwrap()
}

async fn lease_client(world: &Arc<World<LeaseServer>>, n: u64) -> Client {
    let end = Arc::new(End(world.clone(), ClientId(n)));
    client(|clock| LeaseDriver::new(end.clone(), "test", Prefix::default(), clock)).await
}

async fn queue_client(world: &Arc<World<QueueServer>>, n: u64) -> Client {
    let end = Arc::new(End(world.clone(), ClientId(n)));
    let runtime = tokio::runtime::Handle::current();
    client(|clock| QueueDriver::new(end.clone(), "test", Prefix::default(), clock, runtime.clone())).await
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
async fn a_lease_attempt_after_its_patience_is_refused() {
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
async fn a_lease_grant_with_lost_answer_is_released() {
    let world = World::new(|_| LeaseServer::default());
    let (a, b) = (lease_client(&world, 1).await, lease_client(&world, 2).await);
    world.next(is_lease_attempt, Fate::Unanswered);
    look_in_vain(&a).await;
    take_and_release(&b).await;
}

#[tokio::test(start_paused = true)]
async fn a_lease_attempt_meets_a_changed_server_clock() {
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
async fn a_watch_overtaken_by_a_gap_is_retried() {
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
async fn a_queue_attempt_after_its_release_is_refused() {
    let world = World::new(QueueServer::new);
    let (a, b) = (queue_client(&world, 1).await, queue_client(&world, 2).await);
    world.next(is_queue_attempt, Fate::Held);
    look_in_vain(&a).await;
    let late = world.deliver_late();
    assert!(matches!(late, Answer::Refused), "{late:?}");
    take_and_release(&b).await;
}

#[tokio::test(start_paused = true)]
async fn a_queue_grant_with_lost_answer_is_released() {
    let world = World::new(QueueServer::new);
    let (a, b) = (queue_client(&world, 1).await, queue_client(&world, 2).await);
    world.next(is_queue_attempt, Fate::Unanswered);
    look_in_vain(&a).await;
    take_and_release(&b).await;
}

#[tokio::test(start_paused = true)]
async fn an_earlier_heartbeat_settles_no_later_news() {
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
async fn a_place_returning_after_its_release_is_removed() {
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
async fn a_revoked_released_lock_is_not_released_every_heartbeat() {
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
