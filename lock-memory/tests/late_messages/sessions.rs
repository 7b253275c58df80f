//! The queue family's sessions, whose requests and heartbeats are lost or come late.

use std::time::Duration;

use lock_core::LossReason;
use lock_memory::server::queue::{QueueServer, Request as QueueRequest};
use lock_memory::server::{ClientId, Server};
use lock_memory::wire::Pushed;

use crate::virtual_time::clock;
use crate::world::{Fate, LATE, World};
use crate::{TTL, is_heartbeat, is_queue_attempt, queue_client, take_and_release};

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
async fn a_heartbeat_proves_the_state_when_sent() {
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

/// Found by the simulation: the old session kept the place, and the next attempt took it for one in the new session.
#[tokio::test(start_paused = true)]
async fn an_abandoned_session_takes_no_returning_place() {
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
async fn an_ended_sessions_late_heartbeat_changes_nothing() {
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
