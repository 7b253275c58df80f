//! A process that is stopped while it holds or waits, and then continues.

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::pin;
use std::time::Duration;

use lock_core::{Client, ErrorKind, Guard, Options};

use super::{HOLDS, Order};
use crate::harness::Harness;
use crate::setting::Contend;
use crate::timing::Answered;

/// Works under the lock until it is lost. Then prints what it is told, and tries what comes too late.
pub(super) async fn late(order: &Order, harness: &impl Harness) {
    let (client, guard) = order.hold(harness).await;
    let (kind, late) = works_until_lost(&client, &guard).await;
    let (held, cause) = (guard.is_held(), guard.lost().await);
    let renewed = guard.renew(order.ttl).await.is_ok();
    let ending = guard.release().await;
    println!("{kind:?}, held: {held}, worked late: {late}, {cause:?}, renewed: {renewed}, {ending:?}");
}

/// Returns what ended the work, and whether a step of it began when the lock was no longer certain.
async fn works_until_lost(client: &Client, guard: &Guard) -> (ErrorKind, bool) {
    // A step that had begun before a stop continues after it. No check of the clock before the step can prevent that.
    let begun = Cell::new(client.clock().now());
    let mut late = false;
    let work = async {
        loop {
            let certain = client.clock().now() + guard.valid_for();
            tokio::time::sleep(Duration::from_millis(2)).await;
            late |= begun.get() > certain && !guard.is_held();
        }
    };
    let ended: lock_core::Result<()> = {
        let mut protected = pin!(guard.protect(work));
        poll_fn(|context| {
            begun.set(client.clock().now());
            protected.as_mut().poll(context)
        })
        .await
    };
    (ended.expect_err("the work has no end").kind(), late)
}

/// Waits for the lock, and holds it until the process is killed.
pub(super) async fn waits(order: &Order, harness: &impl Harness) {
    let client = harness.open(Options::default()).await.expect("the case has reached it");
    let lock = client.lock(order.name.as_str()).ttl(order.ttl).built();
    assert!(lock.try_acquire().answered().await.is_none(), "another client holds it");
    println!("waits");
    let guard = lock.acquire().answered().await;
    println!("{HOLDS}{}", guard.token());
    guard.lost().await;
}

impl Order {
    /// Acquires the lock and prints its token.
    pub(super) async fn hold(&self, harness: &impl Harness) -> (Client, Guard) {
        let client = harness.open(Options::default()).await.expect("the case has reached it");
        let guard = client.lock(self.name.as_str()).ttl(self.ttl).held().await;
        println!("{HOLDS}{}", guard.token());
        (client, guard)
    }
}
