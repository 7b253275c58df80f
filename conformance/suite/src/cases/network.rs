//! Messages that are lost, late or doubled: the real client and the real server, with a proxy between them.

mod held_up;
mod slow;

use std::time::{Duration, Instant};

use lock_core::driver::{Lease, Wakes};
use lock_core::{Client, Effect, Ending, ErrorKind, Guard, LockBuilder, Name, Options};

use crate::bounds;
use crate::case::{Case, case};
use crate::harness::{OneTrip, Replays, ThroughProxy};
use crate::proxy::{Direction, Fault, Proxy};
use crate::setting::{Contend, Net, Setting, granted_within, holder_of, ms, waits};
use crate::timing::{Answered, Returned, assert_in_time, released, still_held, until, void, within};

use held_up::{
    a_release_delayed_between_requests_wakes_the_waiter, an_attempt_cut_off_before_an_answer_leaves_nothing,
    an_attempt_held_up_between_its_requests_takes_nothing,
    an_attempt_that_arrives_after_its_release_takes_nothing, listening_waits_for_the_server,
};
use slow::{
    a_network_that_trickles_costs_nothing_but_time, a_slow_answer_counts_against_the_lease,
    answers_belong_to_their_calls_whatever_was_cancelled,
};

pub(crate) const CASES: &[Case] = &[
    case!(an_attempt_whose_answer_is_lost_is_undone, "nothing-left, answer-lost", [B2, B15]),
    case!(an_attempt_that_arrives_after_its_release_takes_nothing, "late-attempts, request-late", [B2]),
    case!(an_attempt_held_up_between_its_requests_takes_nothing, "late-attempts, request-late", [B2]),
    case!(an_attempt_cut_off_before_an_answer_leaves_nothing, "nothing-left", [B2]),
    case!(a_release_delayed_between_requests_wakes_the_waiter, "acquire, request-late", [B4]; if |s| s.info.wakes == Wakes::Pushed),
    case!(listening_waits_for_the_server, "acquire", [B4]; if |s| s.info.wakes == Wakes::Pushed && s.info.lease == Lease::Lock),
    case!(a_renewal_without_an_answer_is_repeated_in_time, "hiccups-cost-nothing, answer-lost", [B1, B11]),
    case!(a_release_whose_answer_is_lost_is_one, "release-repeated, answer-lost", [B18]),
    case!(what_arrives_twice_counts_once, "holder-alone-releases, request-twice", [B3, B9]),
    case!(a_slow_answer_counts_against_the_lease, "deadline-before-lease, network-slow", [B12]),
    case!(a_network_that_trickles_costs_nothing_but_time, "deadline-before-lease, network-slow", [B12]),
    case!(answers_belong_to_their_calls_whatever_was_cancelled, "cancelled-acquire, network-slow", [B17]),
];

/// Longer than any case lasts: a lock that becomes free earlier was released.
const LONG: Duration = Duration::from_secs(25);
/// Returns how long each call of these cases may take. An attempt may be several requests, and the backend's pace
/// determines the lease.
pub(super) fn patience(s: &Setting) -> Duration {
    s.ttl() * 3 / 4
}

/// Opens a client with its own patience behind a proxy, and does everything with it that happens only at first use.
async fn warm_client(s: &Setting, net: &dyn ThroughProxy, proxy: &Proxy) -> Client {
    let client = net.client(proxy, Options::default().patience(patience(s))).await;
    let guard = s.hold_by(&client, &s.name()).await;
    guard.renew(s.ttl()).answered().await;
    released(guard).await;
    // Opens a session, where locks belong to sessions.
    released(long(&client, &s.name()).held().await).await;
    client
}

/// Makes the proxy lose the next answer.
pub(super) fn lose_an_answer(s: &Setting, proxy: &Proxy) {
    match s.facts.multiplexes {
        true => proxy.hold_open_ones(Direction::ToClient),
        false => proxy.swallow(Direction::ToClient, 1),
    }
}

fn long(client: &Client, name: &Name) -> LockBuilder {
    client.lock(name.as_str()).ttl(LONG)
}

async fn an_attempt_whose_answer_is_lost_is_undone(s: Setting, net: Net, _: OneTrip) {
    let (name, proxy, direct) = (s.name(), net.proxy().await, s.client().await);
    let client = warm_client(&s, &*net, &proxy).await;
    let (lock, seen) = (long(&client, &name).built(), long(&direct, &name).built());
    // A name that was used before is granted by the first answer.
    released(s.hold_by(&direct, &name).await).await;
    lose_an_answer(&s, &proxy);
    let asked = Instant::now();
    let attempt = tokio::spawn(async move { lock.try_acquire().await.map(|guard| guard.is_some()) });
    until("the server granted it", patience(&s), || async { holder_of(&seen).await.is_some() }).await;
    let error = attempt.await.returned().expect_err("no answer came");
    assert_eq!(error.kind(), ErrorKind::Unavailable { effect: Effect::Unknown }, "{error:?}");
    assert_in_time!(asked.elapsed() < patience(&s) + ms(150), "it was told after {:?}", asked.elapsed());
    let other = within("it is undone", bounds::EVENTUALLY, seen.acquire()).answered().await;
    // The second release, after the attempt's patience, must not release the other client's lock.
    tokio::time::sleep(patience(&s)).await;
    released(other).await;
}

async fn a_renewal_without_an_answer_is_repeated_in_time(s: Setting, net: Net) {
    let (proxy, guard, ttl) = held_through(&s, &*net).await;
    guard.renew(ttl).answered().await;
    for _ in 0..2 {
        let before = proxy.count(Fault::Swallowed(Direction::ToClient));
        proxy.swallow(Direction::ToClient, 1);
        let is_lost = || async { proxy.count(Fault::Swallowed(Direction::ToClient)) > before };
        until("a renewal's answer is lost", ttl, is_lost).await;
        s.stays_held(&guard, ttl * 5 / 4, ttl / 8).await;
    }
    s.freed(guard).await;
}

/// Acquires a lock through a proxy. Returns the proxy, the guard and the ttl.
pub(super) async fn held_through(s: &Setting, net: &dyn ThroughProxy) -> (Proxy, Guard, Duration) {
    let (proxy, ttl) = (net.proxy().await, s.ttl() * 2);
    let client = net.client(&proxy, Options::default()).await;
    let guard = s.lock(&client, &s.name()).ttl(ttl).held().await;
    (proxy, guard, ttl)
}

async fn a_release_whose_answer_is_lost_is_one(s: Setting, net: Net) {
    let (name, proxy) = (s.name(), net.proxy().await);
    let client = warm_client(&s, &*net, &proxy).await;
    let guard = long(&client, &name).held().await;
    lose_an_answer(&s, &proxy);
    let asked = Instant::now();
    let release = tokio::spawn(guard.release());
    let next = long(&s.client().await, &name).held_within("it is free", patience(&s)).await;
    // The repeated release can't tell whether the first one was in time. Either answer is correct.
    within("the release is repeated", bounds::EVENTUALLY, release).await.returned();
    assert!(asked.elapsed() >= patience(&s), "{:?}", asked.elapsed());
    released(next).await;
}

/// A client whose requests all arrive twice hands the lock to a client whose requests don't, again and again.
async fn what_arrives_twice_counts_once(s: Setting, net: Net, _: Replays) {
    let (name, proxy, ttl) = (s.name(), net.proxy().await, Duration::from_secs(3));
    proxy.double();
    let (doubled, direct) = (net.client(&proxy, Options::default()).await, s.client().await);
    let lock = |client: &Client| s.lock(client, &name).ttl(ttl).wait(ttl * 2).built();
    let (doubled, direct) = (lock(&doubled), lock(&direct));
    let mut last = None;
    for _ in 0..25 {
        let guard = match doubled.acquire().await {
            // The client that just released it had it after the release: the holder is a late second copy of an attempt,
            // which these protocols exclude. The proxy can't tell the answer to one copy from that to another request.
            Err(e) if e.kind() == ErrorKind::Timeout && s.facts.multiplexes && last.is_some() => {
                void("the second copy of an attempt came after its release")
            }
            granted => std::future::ready(granted).answered().await,
        };
        assert!(last < Some(guard.token()), "{last:?}, then {}", guard.token());
        let left = guard.renew(ttl).answered().await;
        still_held(&guard);
        assert!(left <= ttl);
        let (token, next) = (guard.token(), waits(direct.clone()));
        let before = proxy.count(Fault::Doubled);
        // Where a chunk is not one request, the second copy may come first. Then the first one finds nothing.
        let ending = guard.release().await;
        if !s.facts.multiplexes {
            assert_eq!(ending, Ending::Released);
        }
        let next = granted_within("one release frees it", ms(1000), next).await;
        let has_arrived = || async { proxy.count(Fault::Doubled) > before };
        until("the release has arrived twice", ms(1000), has_arrived).await;
        last = Some(next.token());
        assert!(last > Some(token), "{token}, then {last:?}");
        next.renew(ttl).answered().await;
        released(next).await;
    }
    until("each request was asked twice", ms(1000), || async { proxy.count(Fault::Doubled) >= 75 }).await;
}
