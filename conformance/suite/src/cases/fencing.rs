//! A token is never granted twice and never falls, under the assumption that `Info` names.

use std::sync::Arc;

use lock_core::driver::Fencing;
use lock_core::{Fence, FencingToken};

use crate::bounds;
use crate::case::{Case, case};
use crate::harness::{Data, Durable, Forget, OwnServer, OwnServers};
use crate::setting::{Contend, Setting, lost_eventually, ms, opened};
use crate::timing::{released, until, within};

pub(crate) const CASES: &[Case] = &[
    case!(tokens_rise_over_all_holders, "tokens-rise", [B13]),
    case!(tokens_rise_after_expiry, "tokens-rise", [B13]),
    case!(tokens_rise_after_the_lock_was_forgotten, "tokens-rise, key-deleted", [B13]),
    case!(tokens_rise_after_a_restart_with_data, "token-data-kept, server-restarted", [B13]),
    case!(tokens_rise_after_the_data_was_lost, "token-data-lost, data-lost", [B13]; if outlives_the_data),
    case!(a_late_write_is_refused_by_the_resource, "token-keeps-order, fence, stopped", [B9, B13]),
];

/// Returns whether tokens rise even after all data was lost.
pub(super) fn outlives_the_data(s: &Setting) -> bool {
    !matches!(s.info.fencing, Fencing::UntilAMajorityLosesItsData { .. })
}

async fn token_of(s: &Setting, name: &lock_core::Name) -> FencingToken {
    let guard = s.hold(name).await;
    let token = guard.token();
    guard.release().await;
    token
}

async fn tokens_rise_over_all_holders(s: Setting) {
    let name = s.name();
    let clients = [s.client().await, s.client().await];
    let mut last = None;
    for n in 0..100 {
        let guard = s.hold_by(&clients[n % 2], &name).await;
        assert!(last < Some(guard.token()), "{last:?}, then {:?}", guard.token());
        last = Some(guard.token());
        guard.release().await;
    }
}

async fn tokens_rise_after_expiry(s: Setting) {
    let (name, client) = (s.name(), s.client().await);
    let guard = s.lock(&client, &name).fixed_lease().held().await;
    let first = guard.token();
    lost_eventually(&guard).await;
    let next = s.lock(&client, &name).wait(s.ttl() * 20).built();
    let guard = next.acquire().await.expect("free one ttl later");
    assert!(guard.token() > first);
}

async fn tokens_rise_after_the_lock_was_forgotten(s: Setting, admin: Arc<dyn Forget>) {
    let name = s.name();
    let mut last = token_of(&s, &name).await;
    for _ in 0..5 {
        let guard = s.hold(&name).await;
        assert!(guard.token() > last);
        last = guard.token();
        admin.forget(&name).await;
        drop(guard);
    }
    assert!(token_of(&s, &name).await > last);
}

async fn tokens_rise_after_a_restart_with_data(s: Setting, servers: Arc<dyn OwnServers>, _: Durable) {
    tokens_rise_over(s, &*servers, Data::Kept).await;
}

async fn tokens_rise_after_the_data_was_lost(s: Setting, servers: Arc<dyn OwnServers>) {
    tokens_rise_over(s, &*servers, Data::Lost).await;
}

async fn tokens_rise_over(s: Setting, servers: &dyn OwnServers, data: Data) {
    let (name, mut server) = (s.name(), servers.start().await);
    let mut last = None;
    for _ in 0..3 {
        // Many grants in a row drive the token ahead of a clock that only counts milliseconds.
        let client = opened(&*server).await;
        for _ in 0..20 {
            let guard = s.hold_by(&client, &name).await;
            assert!(last < Some(guard.token()), "{last:?}, then {:?}", guard.token());
            last = Some(guard.token());
            guard.release().await;
        }
        server.kill();
        server.start(data);
        recovered(&s, &*server).await;
    }
}

/// Waits until the server grants locks again.
async fn recovered(s: &Setting, server: &dyn OwnServer) {
    let lock = s.lock_on(server, &s.name()).await.built();
    let guard = within("it grants again", server.recovers_in() + ms(3000), lock.acquire()).await;
    released(guard.expect("the server is up")).await;
}

/// A write with an older token is refused after one with a newer token.
async fn a_late_write_is_refused_by_the_resource(s: Setting, admin: Arc<dyn Forget>) {
    let name = s.name();
    let resource = Fence::new();
    let first = s.hold(&name).await;
    resource.accept(first.token()).expect("the first");
    resource.accept(first.token()).expect("a holder may write more than once");
    admin.forget(&name).await;
    let second = s.hold(&name).await;
    resource.accept(second.token()).expect("the successor");
    let stale = resource.accept(first.token()).expect_err("the predecessor's write comes late");
    assert_eq!((stale.offered, stale.highest), (first.token(), second.token()));
    until("the first holder is told", bounds::EVENTUALLY, || async { !first.is_held() }).await;
}
