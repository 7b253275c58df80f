//! A lock goes from one owner to the next one of the same client in one request. Where the server can, it is nothing but
//! a release and an attempt.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lock_core::driver::{Attempt, Claim, Predecessor, Queueing, Release, Renewal, Request, Wakes, When};
use lock_core::driver::{Takeover, Takeovers};
use lock_core::{Client, FencingToken, Guard, Label, Name, Options, Owner, Random};
use tokio::task::{JoinHandle, JoinSet};

use crate::bounds;
use crate::case::{Case, case};
use crate::claims::{busy, granted};
use crate::harness::{OneTrip, ThroughProxy};
use crate::proxy::{Direction, Fault};
use crate::setting::{Setting, ms};
use crate::timing::{Answered, Returned, released, still_held, until, within};

pub(crate) const CASES: &[Case] = &[
    case!(a_takeover_is_a_release_and_a_grant, promise = "one-request-hand-over", classes = [B9, B13]; if in_one_request),
    case!(a_takeover_that_was_not_heard_is_granted_again, promise = "one-request-hand-over", classes = [B2, B3]; if in_one_request),
    case!(an_owner_that_holds_nothing_has_no_successor, promise = "one-request-hand-over", classes = [B9, B10]; if in_one_request),
    case!(a_revoked_owner_has_no_successor, promise = "one-request-hand-over", classes = [B9, B10]; if in_one_request),
    case!(the_release_after_a_takeover_wakes_a_waiter_elsewhere, promise = "one-request-hand-over", classes = [B4, B30]; if in_one_request),
    case!(tasks_of_one_client_hand_it_over, promise = "even-turns", classes = [B13, B30, B34]; load Heavy),
    case!(a_hand_over_whose_answer_is_lost_is_settled, promise = "one-request-hand-over", classes = [B2, B18]; if in_one_request),
    case!(a_hand_over_that_arrives_late_takes_nothing, promise = "one-request-hand-over", classes = [B2]; if in_one_request),
];

fn in_one_request(s: &Setting) -> bool {
    s.info.takeovers == Takeovers::InOneRequest
}

/// A claim, and how its successor names it.
struct Owned {
    claim: Box<dyn Claim>,
    predecessor: Predecessor,
}

fn owned(client: &Client, name: &Name, ttl: Duration) -> Owned {
    let (owner, label) = (Owner::mint(&Random::system()), Label::new("a case"));
    let mut request = Request::new(name.clone(), owner, ttl, Duration::from_secs(2), client.clock().clone());
    (request.waits, request.label) = (Queueing::Queued, label.clone());
    Owned { claim: client.driver().claim(request), predecessor: Predecessor::new(owner, label) }
}

async fn succeeded(claim: &mut Box<dyn Claim>, predecessor: &Predecessor) -> (u64, Duration) {
    match claim.take_over(predecessor).answered().await {
        Takeover::Granted { grant, .. } => (grant.token.get(), grant.valid_for),
        Takeover::NotHeld => panic!("the predecessor holds the lock, and the server says that it does not"),
    }
}

async fn finds_nothing(claim: &mut Box<dyn Claim>, predecessor: &Predecessor) {
    match claim.take_over(predecessor).answered().await {
        Takeover::NotHeld => {}
        granted => panic!("granted after an owner that does not hold the lock: {granted:?}"),
    }
}

async fn a_takeover_is_a_release_and_a_grant(s: Setting) {
    let (name, client, ttl) = (s.name(), s.client().await, s.long());
    let mut first = owned(&client, &name, ttl);
    let mut last_token = granted(&mut first.claim).await.token.get();
    for _ in 0..10 {
        let mut next = owned(&client, &name, ttl);
        let (token, valid_for) = succeeded(&mut next.claim, &first.predecessor).await;
        assert!(token > last_token, "the token {token} follows {last_token}");
        assert!(valid_for > ttl / 2 && valid_for <= ttl + ms(1), "{valid_for:?} of {ttl:?}");
        assert!(matches!(first.claim.renew(ttl).answered().await, Renewal::Lost(_)));
        assert_eq!(first.claim.release().answered().await, Release::NotHeld);
        assert!(matches!(next.claim.renew(ttl).answered().await, Renewal::Held { .. }));
        let holder = s.lock(&client, &name).build().expect("fine terms").inspect().answered().await.holder;
        let holder = holder.expect("it is held");
        assert_eq!(
            (holder.token.map(FencingToken::get), holder.label.as_deref()),
            (Some(token), Some("a case"))
        );
        (first, last_token) = (next, token);
    }
    let other = s.client().await;
    busy(&mut s.claim(&other, &name, s.ttl(), Queueing::No)).await;
    assert!(matches!(first.claim.release().answered().await, Release::Released { .. }));
    assert!(s.is_free(&name).await);
}

async fn a_takeover_that_was_not_heard_is_granted_again(s: Setting) {
    let (name, client, ttl) = (s.name(), s.client().await, s.long());
    let mut first = owned(&client, &name, ttl);
    granted(&mut first.claim).await;
    let mut next = owned(&client, &name, ttl);
    let (token, _) = succeeded(&mut next.claim, &first.predecessor).await;
    finds_nothing(&mut owned(&client, &name, ttl).claim, &first.predecessor).await;
    assert_eq!(granted(&mut next.claim).await.token.get(), token, "the same token again");
    assert!(matches!(next.claim.release().answered().await, Release::Released { .. }));
    assert_eq!(next.claim.release().answered().await, Release::NotHeld);
    assert!(s.is_free(&name).await);
}

async fn an_owner_that_holds_nothing_has_no_successor(s: Setting) {
    let (name, client, ttl) = (s.name(), s.client().await, s.long());
    let mut first = owned(&client, &name, ttl);
    let mut next = owned(&client, &name, ttl);
    finds_nothing(&mut next.claim, &first.predecessor).await;
    assert!(s.is_free(&name).await, "it was never held");
    granted(&mut first.claim).await;
    first.claim.release().answered().await;
    finds_nothing(&mut next.claim, &first.predecessor).await;
    assert!(s.is_free(&name).await, "it was released");
    let mut brief = owned(&client, &name, s.ttl());
    let lease = granted(&mut brief.claim).await.valid_for;
    // The server's clock may count in milliseconds.
    tokio::time::sleep(lease + ms(2)).await;
    finds_nothing(&mut next.claim, &brief.predecessor).await;
    let guard = s.hold_long(&name).await;
    for predecessor in [&first.predecessor, &brief.predecessor] {
        finds_nothing(&mut next.claim, predecessor).await;
    }
    still_held(&guard);
    s.is_kept(&guard, &name).await;
    released(guard).await;
}

async fn a_revoked_owner_has_no_successor(s: Setting) {
    let (name, client, ttl) = (s.name(), s.client().await, s.long());
    let mut first = owned(&client, &name, ttl);
    granted(&mut first.claim).await;
    let lock = s.lock(&client, &name).build().expect("fine terms");
    let holder = lock.inspect().answered().await.holder.expect("it is held");
    lock.revoke(&holder.owner, When::HoldersDeadline).answered().await;
    let mut next = owned(&client, &name, ttl);
    finds_nothing(&mut next.claim, &first.predecessor).await;
    assert!(!s.is_free(&name).await, "until its holder's deadline no other owner gets it");
    assert!(matches!(first.claim.release().answered().await, Release::Released { .. }));
    finds_nothing(&mut next.claim, &first.predecessor).await;
    assert!(s.is_free(&name).await);
}

async fn the_release_after_a_takeover_wakes_a_waiter_elsewhere(s: Setting) {
    let (name, client, other) = (s.name(), s.client().await, s.client().await);
    let mut first = owned(&client, &name, s.long());
    granted(&mut first.claim).await;
    let lock = other.lock(name.as_str()).ttl(s.long()).build().expect("fine terms");
    let waiter = tokio::spawn(async move { lock.acquire().await });
    // By then it listens, or has let the server know in another way.
    tokio::time::sleep(s.ttl()).await;
    for _ in 0..5 {
        let mut next = owned(&client, &name, s.long());
        let answer = next.claim.take_over(&first.predecessor).answered().await;
        let Takeover::Granted { others, .. } = answer else { panic!("{answer:?}") };
        assert_ne!(others, Some(false), "a client waits");
        first = next;
    }
    assert!(!waiter.is_finished());
    let began = std::time::Instant::now();
    first.claim.release().answered().await;
    let guard = within("the waiter has it", bounds::EVENTUALLY, waiter).await.returned().expect("granted");
    if other.info().wakes == Wakes::Pushed {
        assert!(began.elapsed() < ms(1000), "woken after {:?}", began.elapsed());
    }
    released(guard).await;
}

/// A counter without any protection of its own, and the tokens in the order of its changes: two clients, each with tasks
/// that wait for each other.
async fn tasks_of_one_client_hand_it_over(s: Setting) {
    let (name, last) = (s.name(), Arc::new(AtomicU64::new(0)));
    let cycles = s.size("cycles of each of 12 tasks", 10, 100);
    let mut tasks = JoinSet::new();
    for _ in 0..2 {
        let client = s.client().await;
        for _ in 0..6 {
            let lock = client.lock(name.as_str()).ttl(s.long()).build().expect("fine terms");
            let last = last.clone();
            tasks.spawn(async move {
                for _ in 0..cycles {
                    let guard = lock.acquire().answered().await;
                    let before = last.load(Ordering::SeqCst);
                    tokio::task::yield_now().await;
                    assert!(guard.token().get() > before, "{} follows {before}", guard.token());
                    let changed = last.compare_exchange(
                        before,
                        guard.token().get(),
                        Ordering::SeqCst,
                        Ordering::SeqCst,
                    );
                    assert!(changed.is_ok(), "another task changed it meanwhile");
                    released(guard).await;
                }
            });
        }
    }
    while let Some(outcome) = tasks.join_next().await {
        outcome.returned();
    }
    assert!(s.is_free(&name).await);
}

/// Returns the longest time that each call takes in the cases with a proxy.
fn patience(s: &Setting) -> Duration {
    s.ttl() * 3 / 4
}

/// A client whose one task holds the lock, and whose other task waits for it.
struct Pair {
    client: Client,
    guard: Guard,
    waiter: JoinHandle<lock_core::Result<Guard>>,
}

impl Pair {
    async fn behind(s: &Setting, net: &dyn ThroughProxy, proxy: &crate::proxy::Proxy, name: &Name) -> Pair {
        let client = net.client(proxy, Options::default().patience(patience(s))).await;
        let lock = client.lock(name.as_str()).ttl(s.long()).build().expect("fine terms");
        // What happens at first use is over after this.
        released(lock.acquire().answered().await).await;
        let guard = lock.acquire().answered().await;
        let waiter = tokio::spawn(async move { lock.acquire().await });
        tokio::task::yield_now().await;
        Pair { client, guard, waiter }
    }
}

async fn a_hand_over_whose_answer_is_lost_is_settled(s: Setting, net: Arc<dyn ThroughProxy>, _: OneTrip) {
    let (name, proxy) = (s.name(), net.proxy().await);
    let Pair { client, guard, waiter } = Pair::behind(&s, &*net, &proxy, &name).await;
    let token = guard.token();
    match net.multiplexes() {
        true => proxy.hold_open_ones(Direction::ToClient),
        false => proxy.swallow(Direction::ToClient, 1),
    }
    // The release is repeated, and can't tell whether the first request was in time.
    let releasing = tokio::spawn(guard.release());
    let next = within("the next task has it", bounds::EVENTUALLY, waiter).await.returned();
    let next = next.expect("the server is up");
    within("the release is answered", bounds::EVENTUALLY, releasing).await.returned();
    assert!(next.token() > token);
    s.is_kept(&next, &name).await;
    released(next).await;
    assert_eq!(client.shutdown(bounds::EVENTUALLY).await, 0);
    assert!(s.is_free(&name).await);
}

async fn a_hand_over_that_arrives_late_takes_nothing(s: Setting, net: Arc<dyn ThroughProxy>, _: OneTrip) {
    let direct = s.client().await;
    for late in [ms(0), patience(&s) * 2] {
        let (name, proxy) = (s.name(), net.proxy().await);
        let Pair { client, guard, waiter } = Pair::behind(&s, &*net, &proxy, &name).await;
        let held = proxy.count(Fault::Held(Direction::ToServer));
        proxy.hold_open_ones(Direction::ToServer);
        let releasing = tokio::spawn(guard.release());
        let is_under_way = || std::future::ready(proxy.count(Fault::Held(Direction::ToServer)) > held);
        until("the request is under way", bounds::EVENTUALLY, is_under_way).await;
        waiter.abort();
        within("the release is answered", bounds::EVENTUALLY, releasing).await.returned();
        assert_eq!(client.shutdown(bounds::EVENTUALLY).await, 0);
        tokio::time::sleep(late).await;
        let looking = direct.lock(name.as_str()).ttl(s.long()).build().expect("fine terms");
        assert!(looking.inspect().answered().await.holder.is_none());
        proxy.deliver_late(Direction::ToServer).await;
        let end = std::time::Instant::now() + patience(&s);
        while std::time::Instant::now() < end {
            let holder = looking.inspect().answered().await.holder;
            assert!(holder.is_none(), "{late:?} after its patience it took the lock: {holder:?}");
        }
        assert!(matches!(
            s.claim(&direct, &name, s.ttl(), Queueing::No).attempt().answered().await,
            Attempt::Granted(_)
        ));
    }
}
