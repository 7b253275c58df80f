//! Tests with a transaction pooler in between: PgBouncer, if it is installed.

use std::time::Duration;

use lock_conformance::timing::{released, within};
use lock_core::Options;
use lock_core::driver::{Level, Wakes};
use lock_test_servers::{Absence, PgBouncer, Settings};

use crate::Outcome;
use crate::server::{Site, TTL, claim, held, run, start, succeeded};

// Proves: B21, pooler
pub(crate) fn behind_a_transaction_pooler_locks_work_and_waiters_look() -> Outcome {
    let server = start(&[]);
    // The server lends fewer sessions than there are clients, so each session is lent to many.
    let few = Settings { args: vec!["default_pool_size = 3".to_owned()], ..Settings::default() };
    let pooler = PgBouncer::before(&server, &few).map_err(Absence::reason)?;
    run(async {
        let site = Site::on(server.url());
        let options = site.options().port(pooler.port());
        let open = async || site.backend_as(options.clone()).open(Options::default()).await.unwrap();
        let clients = [open().await, open().await, open().await];
        assert!(clients.iter().all(|client| client.info().wakes == Wakes::Polled));
        let findings = clients[0].check().await.unwrap();
        let push = findings.iter().find(|finding| finding.subject == "push").unwrap();
        assert!(push.level == Level::Warning && push.message.contains("pooler"), "{push:?}");

        // Each client opens more connections than the server lends sessions.
        let counter = std::sync::Arc::new(std::sync::atomic::AtomicU32::new(0));
        let mut tasks = tokio::task::JoinSet::new();
        for task in 0..12 {
            let (client, counter) = (clients[task % 3].clone(), counter.clone());
            tasks.spawn(async move {
                let lock = client.lock("it's é\\").ttl(TTL).build().unwrap();
                for _ in 0..5 {
                    let guard = lock.acquire().await.unwrap();
                    let before = counter.load(std::sync::atomic::Ordering::SeqCst);
                    tokio::time::sleep(Duration::from_millis(2)).await;
                    counter.store(before + 1, std::sync::atomic::Ordering::SeqCst);
                    guard.renew(TTL).await.unwrap();
                    released(guard).await;
                }
            });
        }
        tasks.join_all().await;
        assert_eq!(counter.load(std::sync::atomic::Ordering::SeqCst), 60);

        // A client that is not behind the pooler is woken by releases that come through it.
        let direct = site.client().await;
        let (_, before, _) = held(&clients[0], "b").await;
        let (mut holder, mut waiter) = (claim(&clients[0], "b"), claim(&direct, "b"));
        succeeded(&mut holder, &before).await;
        waiter.listen().await.unwrap();
        while tokio::time::timeout(Duration::from_millis(50), waiter.changed()).await.is_ok() {}
        holder.release().await.unwrap();
        within("the release wakes the waiter", Duration::from_secs(2), waiter.changed()).await;
    })
}
