//! A process that forks while it holds, without an exec: the child has a copy of the guard, and of all connections.

use std::process::exit;
use std::time::Duration;

use fork::{Fork, fork, waitpid};
use lock_core::{Client, Guard};
use tokio::runtime::Builder;
use tokio::time::{sleep, timeout};

use super::Order;
use crate::harness::Harness;

/// Forks with a runtime whose threads stay with the parent.
pub(super) fn forks(order: &Order, harness: &impl Harness) {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    let (client, guard) = runtime.block_on(order.hold(harness));
    match fork().expect("there is room for a process") {
        Fork::Child => {
            println!("child, held: {}, certain: {:?}", guard.is_held(), guard.valid_for());
            let own = Builder::new_current_thread().enable_time().build().expect("a runtime");
            own.block_on(use_all(order, &client, guard));
            exit(0)
        }
        Fork::Parent(child) => waitpid(child).expect("a child"),
    };
    match fork().expect("there is room for a process") {
        Fork::Child => {
            drop((guard, client));
            println!("child has dropped it");
            exit(0)
        }
        Fork::Parent(child) => waitpid(child).expect("a child"),
    };
    runtime.block_on(keep(order, guard));
}

/// Forks inside a runtime, which continues in the child, too, if the child lets it.
pub(super) fn forks_inside(order: &Order, harness: &impl Harness) {
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let (client, guard) = order.hold(harness).await;
        match fork().expect("there is room for a process") {
            Fork::Child => {
                drop((guard, client));
                // Time for anything that the drops may have started.
                sleep(order.ttl / 10).await;
                println!("child has dropped it");
                exit(0)
            }
            Fork::Parent(child) => waitpid(child).expect("a child"),
        };
        keep(order, guard).await;
        drop(client);
    });
}

/// Prints what each call of the child answers, one line each.
async fn use_all(order: &Order, client: &Client, guard: Guard) {
    async fn say(what: &str, answer: impl Future<Output = String>) {
        let answer = timeout(Duration::from_secs(1), answer).await;
        println!("child, {what}: {}", answer.unwrap_or_else(|_| "hangs".to_owned()));
    }
    fn kind<T>(outcome: lock_core::Result<T>) -> String {
        outcome.map_or_else(|e| format!("{:?}", e.kind()), |_| "Ok".to_owned())
    }
    let lock = client.lock(order.name.as_str()).ttl(order.ttl).build().expect("fine terms");
    say("lost", async { format!("{:?}", guard.lost().await) }).await;
    say("at risk", async { format!("{:?}", guard.at_risk(Duration::ZERO).await) }).await;
    say("protect", async { kind(guard.protect(async {}).await) }).await;
    say("renew", async { kind(guard.renew(order.ttl).await) }).await;
    say("acquire", async { kind(lock.acquire().await) }).await;
    say("try_acquire", async { kind(lock.try_acquire().await) }).await;
    say("inspect", async { kind(lock.inspect().await) }).await;
    say("check", async { kind(client.check().await) }).await;
    say("shutdown", async { format!("{}", client.shutdown(order.ttl * 100).await) }).await;
    say("release", async { format!("{:?}", guard.release().await) }).await;
}

/// Holds for twice as long as the lease lasts.
pub(super) async fn keep(order: &Order, guard: Guard) {
    for _ in 0..20 {
        sleep(order.ttl / 10).await;
        guard.check().expect("the child has taken it from its parent");
    }
    println!("parent: {:?}", guard.release().await);
}
