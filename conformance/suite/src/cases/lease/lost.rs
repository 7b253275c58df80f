//! The lease cannot be kept: its server has forgotten it, or does not answer.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lock_core::{Ending, ErrorKind, Event, LossReason, Options};
use tokio::sync::watch;

use super::ttl_of_renewals;
use crate::bounds;
use crate::cases::work::Endless;
use crate::harness::{Forget, OwnServers};
use crate::setting::{Contend, Setting, lost_in_time, ms, opened, renewed};
use crate::timing::{Answered, Returned, assert_in_time, released, still_held, within};

pub(super) async fn a_forgotten_lock_is_lost_at_the_next_renewal(s: Setting, admin: Arc<dyn Forget>) {
    let (name, client, ttl) = (s.name(), s.client().await, ttl_of_renewals(&s));
    let guard = client.lock(name.as_str()).ttl(ttl).held().await;
    admin.forget(&name).await;
    let cause = within("the loss", bounds::next_renewal(ttl), guard.lost()).await;
    assert!(matches!(cause, LossReason::Gone | LossReason::Taken | LossReason::Session), "{cause}");
    assert!(!guard.is_held() && guard.valid_for().is_zero());
    assert_eq!(guard.lost().await, cause, "it never changes");
    assert_eq!(guard.release().await, Ending::Expired);
}

pub(super) async fn protect_drops_the_work_when_the_lock_goes(s: Setting, admin: Arc<dyn Forget>) {
    let name = s.name();
    let guard = s.hold(&name).await;
    assert_eq!(guard.protect(async { 7 }).await.expect("it is held"), 7);
    let endless = Endless::default();
    let work = endless.work();
    admin.forget(&name).await;
    let lost = within("the loss", bounds::EVENTUALLY, guard.protect(work)).await;
    let lost = lost.expect_err("the lock is gone");
    assert_eq!((lost.kind(), endless.drops()), (ErrorKind::Lost, 1));
    assert!(guard.protect(async { panic!("not polled") }).await.is_err());
}

pub(super) async fn a_dead_server_means_lost_at_the_deadline(s: Setting, servers: Arc<dyn OwnServers>) {
    let (name, mut server) = (s.name(), servers.start().await);
    let guard = s.hold_on(&*server, &name).await;
    tokio::time::sleep(s.ttl()).await;
    renewed(&guard, s.ttl()).await;
    let (asked, left) = (Instant::now(), guard.valid_for());
    server.pause();
    let cause = lost_in_time(&guard, &s.info, s.ttl()).await;
    assert_eq!(cause, LossReason::Expired);
    assert!(asked.elapsed() >= left, "given up after {:?} of {left:?}", asked.elapsed());
    assert!(!guard.is_held());
    let released = within("a release with a dead server", bounds::EVENTUALLY, guard.release());
    assert_eq!(released.await, Ending::Expired);
    server.resume();
    drop(s.lock_on(&*server, &name).await.held_within("it is free again", s.ttl() * 4 + ms(2000)).await);
}

/// The release continues in the background, whether its caller waits, has given up, or has only dropped the guard. The
/// lease would have kept the name for much longer.
pub(super) async fn a_release_unanswered_by_a_dead_server_goes_on(s: Setting, servers: Arc<dyn OwnServers>) {
    let mut server = servers.start().await;
    let (failing, mut failed) = watch::channel(HashSet::new());
    let options = Options::default().patience(ms(200)).observer(move |event| {
        if let Event::Trouble { name, operation: "release", .. } = event {
            failing.send_modify(|failed| _ = failed.insert((*name).clone()));
        }
    });
    let client = server.open(options).answered().await;
    let ttl = Duration::from_secs(25).min(client.info().max_ttl);
    let names = [s.name(), s.name(), s.name()];
    let [waits, gives_up, drops] = names.each_ref().map(|name| client.lock(name.as_str()).ttl(ttl).held());
    let (waits, gives_up, drops) = (waits.await, gives_up.await, drops.await);
    let other = opened(&*server).await;
    server.pause();
    let (waits, gives_up) = (tokio::spawn(waits.release()), tokio::spawn(gives_up.release()));
    drop(drops);
    let all_failed = failed.wait_for(|failed| failed.len() == names.len());
    let met = within("each release has met the dead server", bounds::EVENTUALLY, all_failed).await;
    drop(met.expect("the client lives"));
    assert!(!waits.is_finished(), "the lease has not ended");
    gives_up.abort();
    server.resume();
    let resumed = Instant::now();
    for name in &names {
        let again = s.lock(&other, name).built();
        // Long before the lease would end.
        let limit = (ttl / 4).saturating_sub(resumed.elapsed());
        released(within("it is free again", limit, again.acquire()).answered().await).await;
    }
    // The server may not be able to tell which of the releases was in time.
    waits.await.returned();
}

pub(super) async fn at_risk_comes_before_lost(s: Setting, servers: Arc<dyn OwnServers>) {
    let (name, mut server) = (s.name(), servers.start().await);
    let guard = s.hold_on(&*server, &name).await;
    // Less than half of the ttl, but as much as possible.
    let before = s.ttl() * 49 / 100;
    let risk = tokio::time::timeout(s.ttl() * 2, guard.at_risk(before)).await;
    assert_in_time!(risk.is_err(), "a lock that is renewed is at risk");
    server.pause();
    let cause = within("the risk", bounds::EVENTUALLY, guard.at_risk(before)).await;
    still_held(&guard);
    assert_eq!(cause, LossReason::Expired);
    assert!(guard.valid_for() <= before + ms(5), "{:?}", guard.valid_for());
    assert_eq!(guard.lost().await, cause);
    server.resume();
}
