//! The calls for threads without async.

use std::sync::Arc;
use std::time::Duration;

use lock_core::{Ending, ErrorKind, Lists, LossReason, MultiLock, Options};

use super::cancellation::takes_less_than_the_last_wait;
use crate::bounds;
use crate::case::{Case, case};
use crate::harness::Forget;
use crate::runtime::on_a_thread;
use crate::setting::{Contend, Setting, ms};
use crate::timing::{Answered, still_held, until};

pub(crate) const CASES: &[Case] = &[
    case!(threads_without_async_hold_locks, "blocking", [B19]),
    case!(a_dedicated_client_needs_no_runtime, "blocking-connect", [B19]),
    case!(a_blocking_holder_is_told_of_its_loss, "check, blocking-work", [B11]),
];

async fn threads_without_async_hold_locks(s: Setting) {
    let (name, other, client) = (s.name(), s.name(), s.client().await);
    let lock = s.lock(&client, &name).ttl(s.long()).wait(ms(50)).built();
    let second = s.lock(&client, &other).ttl(s.long()).built();
    let first = lock.clone();
    on_a_thread(move || {
        let guard = lock.blocking_acquire().expect("the lock is free");
        still_held(&guard);
        guard.blocking_renew(Duration::from_secs(5)).expect("the lock is held");
        assert!(lock.blocking_try_acquire().expect("the server is up").is_none());
        let error = lock.blocking_acquire().expect_err("the lock is held");
        assert_eq!(error.kind(), ErrorKind::Timeout, "{error:?}");
        assert!(lock.blocking_inspect().expect("the server is up").holder.is_some());
        assert_eq!(guard.blocking_lost(ms(20)), None);
        assert_eq!(guard.blocking_release(), Ending::Released);
        let token = lock.blocking_run(lock_core::Guard::token).expect("the lock is free");
        let later = lock
            .blocking_try_run(lock_core::Guard::token)
            .expect("the server is up")
            .expect("the lock is free");
        assert!(token < later);
        let both = MultiLock::new([lock, second]).expect("different locks");
        assert!(both.blocking_run(lock_core::MultiGuard::is_held).expect("the lock is free"));
        let guard = both.blocking_try_acquire().expect("the server is up").expect("the lock is free");
        guard.blocking_renew(Duration::from_secs(5)).expect("the lock is held");
        assert_eq!(guard.blocking_lost(ms(20)), None);
        assert_eq!(guard.blocking_release(), Ending::Released);
        drop(both.blocking_acquire().expect("the lock is free"));
    })
    .await;
    let free = || async { first.try_acquire().answered().await.is_some() && s.is_free(&other).await };
    until("free after the drop", Duration::from_secs(5), free).await;
    assert_eq!(client.shutdown(Duration::from_secs(5)).await, 0);
}

async fn a_dedicated_client_needs_no_runtime(s: Setting) {
    let (name, harness) = (s.name(), s.harness.clone());
    let (ttl, its_name) = (s.ttl(), name.clone());
    on_a_thread(move || {
        let open = async |options| harness.open(options).await;
        let client = lock_core::blocking_open(Options::default(), open).expect("the server is up");
        assert!(!client.blocking_check().expect("the server is up").is_empty());
        let lock = client.lock(its_name.as_str()).ttl(ttl).built();
        let guard = lock.blocking_acquire().expect("the lock is free");
        // The client's own thread renews the lock.
        assert_eq!(guard.blocking_lost(ttl * 2), None);
        if client.info().lists == Lists::Held {
            let listed = client.blocking_list(its_name.as_str()).expect("the server is up");
            assert!(listed.iter().any(|(name, _)| *name == its_name), "{listed:?}");
        }
        takes_less_than_the_last_wait(|| drop((guard, lock, client)));
    })
    .await;
    assert!(s.is_free(&name).await, "the last handle has waited for the release");
}

async fn a_blocking_holder_is_told_of_its_loss(s: Setting, admin: Arc<dyn Forget>) {
    let (name, client) = (s.name(), s.client().await);
    let lock = s.lock(&client, &name).built();
    let runtime = tokio::runtime::Handle::current();
    on_a_thread(move || {
        let lost = lock.blocking_run(|guard| {
            runtime.block_on(admin.forget(&name));
            let cause = guard.blocking_lost(bounds::EVENTUALLY).expect("it is told");
            assert!(matches!(cause, LossReason::Gone | LossReason::Session), "{cause}");
            assert_eq!(guard.check().expect_err("the lock is lost").kind(), ErrorKind::Lost);
        });
        assert_eq!(lost.expect_err("the lock was lost during the work").kind(), ErrorKind::Lost);
    })
    .await;
}
