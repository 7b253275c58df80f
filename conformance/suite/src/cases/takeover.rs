//! A lock goes from one owner to the next one of the same client in one request. Where the server can, it is nothing but
//! a release and an attempt.

use std::time::{Duration, Instant};

use lock_core::driver::{Claim, Grant, Predecessor, Queueing, Release, Renewal, Wakes, When};
use lock_core::driver::{Takeover, Takeovers};
use lock_core::{Client, Guard, Name, Options};

use super::exclusion::count;
use super::network::{lose_an_answer, patience};
use crate::bounds;
use crate::case::{Case, case};
use crate::claims::{self, Terms, busy, granted, succeeded};
use crate::harness::OneTrip;
use crate::proxy::{Direction, Proxy};
use crate::setting::{Contend, Net, Setting, Waiter, granted_within, holder_of, ms, stays_unheld, waits};
use crate::timing::{Answered, Returned, released, still_held, until, within};

pub(crate) const CASES: &[Case] = &[
    case!(a_takeover_is_a_release_and_a_grant, "one-request-hand-over", [B9, B13]; if in_one_request),
    case!(a_takeover_that_was_not_heard_is_granted_again, "one-request-hand-over", [B2, B3]; if in_one_request),
    case!(an_owner_that_holds_nothing_has_no_successor, "one-request-hand-over", [B9, B10]; if in_one_request),
    case!(a_revoked_owner_has_no_successor, "one-request-hand-over", [B9, B10]; if in_one_request),
    case!(the_release_after_a_takeover_wakes_a_waiter_elsewhere, "one-request-hand-over", [B4, B30]; if in_one_request),
    case!(tasks_of_one_client_hand_it_over, "even-turns", [B13, B30, B34]; load Heavy),
    case!(a_hand_over_whose_answer_is_lost_is_settled, "one-request-hand-over", [B2, B18]; if in_one_request),
    case!(a_hand_over_that_arrives_late_takes_nothing, "one-request-hand-over", [B2]; if in_one_request),
];

fn in_one_request(s: &Setting) -> bool {
    s.info.takeovers == Takeovers::InOneRequest
}

/// Returns a claim, and how its successor names it.
fn owned(client: &Client, name: &Name, ttl: Duration) -> (Box<dyn Claim>, Predecessor) {
    let terms = Terms { ttl, patience: Duration::from_secs(2), waits: Queueing::Queued, label: "a case" };
    claims::predecessor(client, name.as_str(), terms)
}

async fn finds_nothing(claim: &mut Box<dyn Claim>, predecessor: &Predecessor) {
    match claim.take_over(predecessor).answered().await {
        Takeover::NotHeld => {}
        granted => panic!("granted after an owner that does not hold the lock: {granted:?}"),
    }
}

async fn a_takeover_is_a_release_and_a_grant(s: Setting) {
    let (name, client, ttl) = (s.name(), s.client().await, s.long());
    let (mut first, mut predecessor) = owned(&client, &name, ttl);
    let mut last_token = granted(&mut first).await.token;
    for _ in 0..10 {
        let (mut next, successor) = owned(&client, &name, ttl);
        let (Grant { token, valid_for, .. }, _) = succeeded(&mut next, &predecessor).await;
        assert!(token > last_token, "the token {token} follows {last_token}");
        assert!(valid_for > ttl / 2 && valid_for <= ttl + ms(1), "{valid_for:?} of {ttl:?}");
        assert!(matches!(first.renew(ttl).answered().await, Renewal::Lost(_)));
        assert_eq!(first.release().answered().await, Release::NotHeld);
        assert!(matches!(next.renew(ttl).answered().await, Renewal::Held { .. }));
        let holder = holder_of(&s.lock(&client, &name).built()).await.expect("it is held");
        assert_eq!((holder.token, holder.label.as_deref()), (Some(token), Some("a case")));
        (first, predecessor, last_token) = (next, successor, token);
    }
    let other = s.client().await;
    busy(&mut s.claim(&other, &name, s.ttl(), Queueing::No)).await;
    assert!(matches!(first.release().answered().await, Release::Released { .. }));
    assert!(s.is_free(&name).await);
}

async fn a_takeover_that_was_not_heard_is_granted_again(s: Setting) {
    let (name, client, ttl) = (s.name(), s.client().await, s.long());
    let (mut first, predecessor) = owned(&client, &name, ttl);
    granted(&mut first).await;
    let mut next = owned(&client, &name, ttl).0;
    let (Grant { token, .. }, _) = succeeded(&mut next, &predecessor).await;
    finds_nothing(&mut owned(&client, &name, ttl).0, &predecessor).await;
    assert_eq!(granted(&mut next).await.token, token, "the same token again");
    assert!(matches!(next.release().answered().await, Release::Released { .. }));
    assert_eq!(next.release().answered().await, Release::NotHeld);
    assert!(s.is_free(&name).await);
}

async fn an_owner_that_holds_nothing_has_no_successor(s: Setting) {
    let (name, client, ttl) = (s.name(), s.client().await, s.long());
    let (mut first, predecessor) = owned(&client, &name, ttl);
    let mut next = owned(&client, &name, ttl).0;
    finds_nothing(&mut next, &predecessor).await;
    assert!(s.is_free(&name).await, "it was never held");
    granted(&mut first).await;
    first.release().answered().await;
    finds_nothing(&mut next, &predecessor).await;
    assert!(s.is_free(&name).await, "it was released");
    let (mut brief, of_brief) = owned(&client, &name, s.ttl());
    let lease = granted(&mut brief).await.valid_for;
    // The server's clock may count in milliseconds.
    tokio::time::sleep(lease + ms(2)).await;
    finds_nothing(&mut next, &of_brief).await;
    let guard = s.hold_long(&name).await;
    for predecessor in [&predecessor, &of_brief] {
        finds_nothing(&mut next, predecessor).await;
    }
    still_held(&guard);
    s.is_kept(&guard, &name).await;
    released(guard).await;
}

async fn a_revoked_owner_has_no_successor(s: Setting) {
    let (name, client, ttl) = (s.name(), s.client().await, s.long());
    let (mut first, predecessor) = owned(&client, &name, ttl);
    granted(&mut first).await;
    let lock = s.lock(&client, &name).built();
    let holder = holder_of(&lock).await.expect("it is held");
    lock.revoke(&holder.owner, When::HoldersDeadline).answered().await;
    let mut next = owned(&client, &name, ttl).0;
    finds_nothing(&mut next, &predecessor).await;
    assert!(!s.is_free(&name).await, "until its holder's deadline no other owner gets it");
    assert!(matches!(first.release().answered().await, Release::Released { .. }));
    finds_nothing(&mut next, &predecessor).await;
    assert!(s.is_free(&name).await);
}

async fn the_release_after_a_takeover_wakes_a_waiter_elsewhere(s: Setting) {
    let (name, client, other) = (s.name(), s.client().await, s.client().await);
    let (mut first, mut predecessor) = owned(&client, &name, s.long());
    granted(&mut first).await;
    let waiter = s.lock(&other, &name).ttl(s.long()).waits();
    // By then it listens, or has let the server know in another way.
    tokio::time::sleep(s.ttl()).await;
    for _ in 0..5 {
        let (mut next, successor) = owned(&client, &name, s.long());
        let (_, others) = succeeded(&mut next, &predecessor).await;
        assert_ne!(others, Some(false), "a client waits");
        (first, predecessor) = (next, successor);
    }
    assert!(!waiter.is_finished());
    let began = Instant::now();
    first.release().answered().await;
    let guard = granted_within("the waiter has it", bounds::EVENTUALLY, waiter).await;
    if other.info().wakes == Wakes::Pushed {
        assert!(began.elapsed() < ms(1000), "woken after {:?}", began.elapsed());
    }
    released(guard).await;
}

/// Two clients, each with six tasks that wait for each other.
async fn tasks_of_one_client_hand_it_over(s: Setting) {
    count(&s, 2, 6, s.size("cycles of each of 12 tasks", 10, 100)).await;
}

/// Returns a client whose one task holds the lock, the guard of that task, and its other task, which waits for the lock.
async fn pair(s: &Setting, net: &Net, proxy: &Proxy, name: &Name) -> (Client, Guard, Waiter) {
    let client = net.client(proxy, Options::default().patience(patience(s))).await;
    let lock = s.lock(&client, name).ttl(s.long()).built();
    // What happens at first use is over after this.
    released(lock.acquire().answered().await).await;
    let guard = lock.acquire().answered().await;
    let waiter = waits(lock);
    tokio::task::yield_now().await;
    (client, guard, waiter)
}

async fn a_hand_over_whose_answer_is_lost_is_settled(s: Setting, net: Net, _: OneTrip) {
    let (name, proxy) = (s.name(), net.proxy().await);
    let (client, guard, waiter) = pair(&s, &net, &proxy, &name).await;
    let token = guard.token();
    lose_an_answer(&s, &proxy);
    // The release is repeated, and can't tell whether the first request was in time.
    let releasing = tokio::spawn(guard.release());
    let next = granted_within("the next task has it", bounds::EVENTUALLY, waiter).await;
    within("the release is answered", bounds::EVENTUALLY, releasing).await.returned();
    assert!(next.token() > token);
    s.is_kept(&next, &name).await;
    released(next).await;
    assert_eq!(client.shutdown(bounds::EVENTUALLY).await, 0);
    assert!(s.is_free(&name).await);
}

async fn a_hand_over_that_arrives_late_takes_nothing(s: Setting, net: Net, _: OneTrip) {
    let direct = s.client().await;
    for late in [ms(0), patience(&s) * 2] {
        let (name, proxy) = (s.name(), net.proxy().await);
        let (client, guard, waiter) = pair(&s, &net, &proxy, &name).await;
        let held = proxy.held(Direction::ToServer);
        proxy.hold_open_ones(Direction::ToServer);
        let releasing = tokio::spawn(guard.release());
        let is_under_way = || async { proxy.held(Direction::ToServer) > held };
        until("the request is under way", bounds::EVENTUALLY, is_under_way).await;
        waiter.abort();
        within("the release is answered", bounds::EVENTUALLY, releasing).await.returned();
        assert_eq!(client.shutdown(bounds::EVENTUALLY).await, 0);
        tokio::time::sleep(late).await;
        let looking = s.lock(&direct, &name).ttl(s.long()).built();
        assert!(holder_of(&looking).await.is_none());
        proxy.deliver_late(Direction::ToServer).await;
        let took = format!("{late:?} after its patience it took the lock");
        stays_unheld(&looking, patience(&s), &took).await;
        s.holding_claim(&direct, &name, s.ttl()).await;
    }
}
