//! Messages that are lost, late or doubled: the real client and the real server, with a proxy between them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use lock_core::driver::{Lease, Queueing, Wakes};
use lock_core::{Client, Effect, Ending, ErrorKind, FencingToken, Lock, Name, Options, Random};

use crate::bounds;
use crate::case::{Case, case};
use crate::harness::{OneTrip, Replays, ThroughProxy};
use crate::proxy::{Direction, Fault, Proxy};
use crate::setting::{Setting, lost_eventually, ms};
use crate::timing::{Answered, Returned, assert_in_time, released, still_held, until, void, within};

pub(crate) const CASES: &[Case] = &[
    case!(an_attempt_whose_answer_is_lost_is_undone, [B2, B15]),
    case!(an_attempt_that_arrives_after_its_release_takes_nothing, [B2]),
    case!(an_attempt_held_up_between_its_requests_takes_nothing, [B2]),
    case!(a_release_held_up_between_its_requests_wakes_the_waiter, [B4]; if |s| s.info.wakes == Wakes::Pushed),
    case!(listening_waits_for_the_server, [B4]; if |s| s.info.wakes == Wakes::Pushed && s.info.lease == Lease::Lock),
    case!(a_renewal_whose_answer_is_lost_is_repeated_in_time, [B1, B11]),
    case!(a_release_whose_answer_is_lost_is_one, [B18]),
    case!(what_arrives_twice_counts_once, [B3, B9]),
    case!(a_slow_answer_counts_against_the_lease, [B12]),
    case!(a_network_that_trickles_costs_nothing_but_time, [B12]),
    case!(answers_belong_to_their_calls_whatever_was_cancelled, [B17]),
];

/// Longer than any case lasts: a lock that becomes free earlier was released.
const LONG: Duration = Duration::from_secs(25);
/// Returns how long each call of these cases may take. An attempt may be several requests, and the backend's pace
/// determines the lease.
fn patience(s: &Setting) -> Duration {
    s.ttl() * 3 / 4
}

/// Opens a client with its own patience behind a proxy, and does everything with it that happens only at first use.
async fn warm_client(s: &Setting, net: &dyn ThroughProxy, proxy: &Proxy) -> Client {
    let client = net.client(proxy, Options::default().patience(patience(s))).await;
    let guard = s.hold_by(&client, &s.name()).await;
    guard.renew(s.ttl()).answered().await;
    released(guard).await;
    // Opens a session, where locks belong to sessions.
    let guard = long(&client, &s.name()).acquire().answered().await;
    released(guard).await;
    client
}

/// Makes the proxy lose the next answer.
fn lose_an_answer(net: &dyn ThroughProxy, proxy: &Proxy) {
    match net.multiplexes() {
        true => proxy.hold_open_ones(Direction::ToClient),
        false => proxy.swallow(Direction::ToClient, 1),
    }
}

fn long(client: &Client, name: &Name) -> Lock {
    client.lock(name.as_str()).ttl(LONG).build().expect("fine terms")
}

async fn an_attempt_whose_answer_is_lost_is_undone(s: Setting, net: Arc<dyn ThroughProxy>, _: OneTrip) {
    let (name, proxy, direct) = (s.name(), net.proxy().await, s.client().await);
    let client = warm_client(&s, &*net, &proxy).await;
    let (lock, seen) = (long(&client, &name), long(&direct, &name));
    // A name that was used before is granted by the first answer.
    released(s.hold_by(&direct, &name).await).await;
    lose_an_answer(&*net, &proxy);
    let asked = Instant::now();
    let attempt = tokio::spawn(async move { lock.try_acquire().await.map(|guard| guard.is_some()) });
    until("the server granted it", patience(&s), || async {
        seen.inspect().answered().await.holder.is_some()
    })
    .await;
    let error = attempt.await.returned().expect_err("no answer came");
    assert_eq!(error.kind(), ErrorKind::Unavailable { effect: Effect::Unknown }, "{error:?}");
    assert_in_time!(asked.elapsed() < patience(&s) + ms(150), "it was told after {:?}", asked.elapsed());
    let other = within("it is undone", bounds::EVENTUALLY, seen.acquire()).answered().await;
    // The second release, after the attempt's patience, must not release the other client's lock.
    tokio::time::sleep(patience(&s)).await;
    released(other).await;
}

async fn an_attempt_that_arrives_after_its_release_takes_nothing(
    s: Setting,
    net: Arc<dyn ThroughProxy>,
    _: OneTrip,
) {
    let (proxy, direct) = (net.proxy().await, s.client().await);
    for late in [ms(0), patience(&s) * 2] {
        let name = s.name();
        let client = warm_client(&s, &*net, &proxy).await;
        // Its connection hangs; the connections that it opens instead work.
        let held = proxy.count(Fault::Held(Direction::ToServer));
        proxy.hold_open_ones(Direction::ToServer);
        let error = long(&client, &name).try_acquire().await.map(drop).expect_err("no answer came");
        assert_eq!(error.kind(), ErrorKind::Unavailable { effect: Effect::Unknown }, "{error:?}");
        assert!(proxy.count(Fault::Held(Direction::ToServer)) > held, "the attempt is on its way");
        // The release has been answered by now.
        assert_eq!(client.shutdown(bounds::EVENTUALLY).await, 0);
        tokio::time::sleep(late).await;
        let looking = long(&direct, &name);
        assert!(looking.inspect().answered().await.holder.is_none());
        proxy.deliver_late(Direction::ToServer).await;
        // Looks all the time: a grant that is undone at once is a grant, too.
        let end = Instant::now() + patience(&s);
        while Instant::now() < end {
            let holder = looking.inspect().answered().await.holder;
            assert!(holder.is_none(), "{late:?} after its patience it took the lock: {holder:?}");
        }
        assert!(s.is_free(&name).await);
    }
}

/// More requests than any attempt or release has.
const MANY: u64 = 6;

/// The request that takes the lock need not be the first one of an attempt, which may be a look. So each request is
/// held up in turn.
async fn an_attempt_held_up_between_its_requests_takes_nothing(s: Setting, net: Arc<dyn ThroughProxy>) {
    let direct = s.client().await;
    for sent in 1..=MANY {
        let (name, proxy) = (s.name(), net.proxy().await);
        let client = warm_client(&s, &*net, &proxy).await;
        let held = || proxy.count(Fault::Held(Direction::ToServer)) > 0;
        proxy.hold_open_ones_after(Direction::ToServer, sent);
        let error = match long(&client, &name).try_acquire().await {
            // Those were all of its requests. The next one belongs to the release, or to a session.
            Ok(guard) => {
                let release = tokio::spawn(guard.expect("no other claim has this name").release());
                until("a request is held", LONG, || std::future::ready(held())).await;
                proxy.deliver(Direction::ToServer);
                release.await.returned();
                return;
            }
            Err(error) => error,
        };
        assert!(error.is_transient() && held(), "{error:?}");
        // It releases on another connection whatever it has got.
        let looking = long(&direct, &name);
        let holder = || async { looking.inspect().answered().await.holder };
        until("it is free", patience(&s) * 2, || async { holder().await.is_none() }).await;
        tokio::time::sleep(patience(&s)).await;
        proxy.deliver_late(Direction::ToServer).await;
        let end = Instant::now() + patience(&s);
        while Instant::now() < end {
            let holder = holder().await;
            assert!(
                holder.is_none(),
                "its request {} took the lock after its patience: {holder:?}",
                sent + 1
            );
        }
        assert!(s.is_free(&name).await);
    }
    panic!("an attempt of more than {MANY} requests");
}

/// A waiter that is notified before the lock is free would find it held and go back to sleep.
async fn a_release_held_up_between_its_requests_wakes_the_waiter(s: Setting, net: Arc<dyn ThroughProxy>) {
    let direct = s.client().await;
    for sent in 1..=MANY {
        let (name, proxy) = (s.name(), net.proxy().await);
        let client = warm_client(&s, &*net, &proxy).await;
        let held = || proxy.count(Fault::Held(Direction::ToServer)) > 0;
        let guard = long(&client, &name).acquire().answered().await;
        let waiter = long(&direct, &name);
        let waiter = tokio::spawn(async move { waiter.acquire().await });
        tokio::time::sleep(s.ttl()).await;
        proxy.hold_open_ones_after(Direction::ToServer, sent);
        let release = tokio::spawn(guard.release());
        until("it is held up, or done", LONG, || std::future::ready(held() || release.is_finished())).await;
        let is_done = release.is_finished();
        if is_done {
            // The proxy has to hold something, otherwise this round has shown nothing.
            let again = long(&client, &s.name());
            let again = tokio::spawn(async move { again.try_acquire().await.map(drop) });
            until("a request is held", LONG, || std::future::ready(held())).await;
            again.abort();
        } else {
            // As long as a waiter needs that was notified too early.
            tokio::time::sleep(patience(&s) / 3).await;
        }
        proxy.deliver(Direction::ToServer);
        // A waiter that is not told again looks by itself, but only seconds later.
        let what = format!("the waiter is told after the release's request {}", sent + 1);
        let next = within(&what, ms(1000), waiter).await.returned().expect("the server is up");
        release.await.returned();
        released(next).await;
        if is_done {
            return;
        }
    }
    panic!("a release of more than {MANY} requests");
}

/// A claim that listens hears of the next release, although nothing of what it has asked the server has arrived yet.
/// Otherwise it does not listen.
async fn listening_waits_for_the_server(s: Setting, net: Arc<dyn ThroughProxy>) {
    let (name, proxy) = (s.name(), net.proxy().await);
    let client = warm_client(&s, &*net, &proxy).await;
    let claim = |name: &Name| s.claim(&client, name, s.ttl(), Queueing::Queued);
    let (mut other, mut waiter) = (claim(&s.name()), claim(&name));
    // Opens the connection for wake-ups, where there is one.
    other.listen().answered().await;
    let holder = long(&s.client().await, &name).acquire().answered().await;
    proxy.hold(Direction::ToServer);
    let listened = waiter.listen().await;
    // The proxy has to hold something, also of a client that hears of all releases already and asks nothing.
    let request = tokio::spawn(async move {
        other.attempt().await?;
        other.release().await
    });
    let held = || proxy.count(Fault::Held(Direction::ToServer)) > 0;
    until("a request is held", LONG, || std::future::ready(held())).await;
    released(holder).await;
    proxy.deliver(Direction::ToServer);
    if listened.is_ok() {
        within("a claim that listens hears of it", ms(1000), waiter.changed()).await;
    }
    // Its attempt may have been too late.
    drop(request.await.returned());
}

async fn a_renewal_whose_answer_is_lost_is_repeated_in_time(s: Setting, net: Arc<dyn ThroughProxy>) {
    let (name, proxy) = (s.name(), net.proxy().await);
    let (client, ttl) = (net.client(&proxy, Options::default()).await, s.ttl() * 2);
    let lock = client.lock(name.as_str()).ttl(ttl).build().expect("fine terms");
    let guard = lock.acquire().answered().await;
    guard.renew(ttl).answered().await;
    for _ in 0..2 {
        let before = proxy.count(Fault::Swallowed(Direction::ToClient));
        proxy.swallow(Direction::ToClient, 1);
        until("a renewal's answer is lost", ttl, || async {
            proxy.count(Fault::Swallowed(Direction::ToClient)) > before
        })
        .await;
        let end = Instant::now() + ttl * 5 / 4;
        while Instant::now() < end {
            still_held(&guard);
            s.is_kept(&guard, &name).await;
            tokio::time::sleep(ttl / 8).await;
        }
    }
    released(guard).await;
    assert!(s.is_free(&name).await);
}

async fn a_release_whose_answer_is_lost_is_one(s: Setting, net: Arc<dyn ThroughProxy>) {
    let (name, proxy) = (s.name(), net.proxy().await);
    let client = warm_client(&s, &*net, &proxy).await;
    let guard = long(&client, &name).acquire().answered().await;
    lose_an_answer(&*net, &proxy);
    let asked = Instant::now();
    let release = tokio::spawn(guard.release());
    let successor = s.client().await;
    let successor = long(&successor, &name);
    let next = within("it is free", patience(&s), successor.acquire()).answered().await;
    // The repeated release can't tell whether the first one was in time. Either answer is correct.
    within("the release is repeated", bounds::EVENTUALLY, release).await.returned();
    assert!(asked.elapsed() >= patience(&s), "{:?}", asked.elapsed());
    still_held(&next);
    released(next).await;
}

/// A client whose requests all arrive twice hands the lock to a client whose requests don't, again and again.
async fn what_arrives_twice_counts_once(s: Setting, net: Arc<dyn ThroughProxy>, _: Replays) {
    let (name, proxy, ttl) = (s.name(), net.proxy().await, Duration::from_secs(3));
    proxy.double();
    let (doubled, direct) = (net.client(&proxy, Options::default()).await, s.client().await);
    let lock = |client: &Client| client.lock(name.as_str()).ttl(ttl).build().expect("fine terms");
    let (doubled, direct) = (lock(&doubled), lock(&direct));
    let mut last = None;
    for _ in 0..25 {
        let guard = doubled.acquire().answered().await;
        assert!(last < Some(guard.token()), "{last:?}, then {}", guard.token());
        let left = guard.renew(ttl).answered().await;
        still_held(&guard);
        assert!(left <= ttl);
        let (token, next) = (guard.token(), direct.clone());
        let next = tokio::spawn(async move { next.acquire().await });
        let before = proxy.count(Fault::Doubled);
        // Where a chunk is not one request, the second copy may come first. Then the first one finds nothing.
        let ending = guard.release().await;
        if !net.multiplexes() {
            assert_eq!(ending, Ending::Released);
        }
        let next = within("one release frees it", ms(1000), next).await.returned().expect("the server is up");
        until("the release has arrived twice", ms(1000), || async { proxy.count(Fault::Doubled) > before })
            .await;
        last = Some(next.token());
        assert!(last > Some(token), "{token}, then {last:?}");
        next.renew(ttl).answered().await;
        released(next).await;
    }
    until("each request was asked twice", ms(1000), || async { proxy.count(Fault::Doubled) >= 75 }).await;
}

async fn a_slow_answer_counts_against_the_lease(s: Setting, net: Arc<dyn ThroughProxy>) {
    let (name, proxy) = (s.name(), net.proxy().await);
    // An attempt may take several answers, one after the other.
    let (ttl, slow) = (s.ttl() * 3, s.ttl() / 4);
    let client = net.client(&proxy, Options::default().patience(ttl)).await;
    // Everything that happens only at first use is done here, so that each later call takes one answer.
    let guard = client.lock(name.as_str()).ttl(ttl).build().expect("fine terms").acquire().answered().await;
    guard.renew(ttl).answered().await;
    released(guard).await;
    proxy.delay(Direction::ToClient, slow);
    let lock = client.lock(name.as_str()).ttl(ttl).fixed_lease().build().expect("fine terms");
    let asked = Instant::now();
    let guard = lock.acquire().await.expect("it is slow, but in time");
    let left = guard.valid_for();
    assert!(asked.elapsed() >= slow);
    assert!(left <= ttl - slow, "{left:?} of {ttl:?}");
    still_held(&guard);
    let left = guard.renew(ttl).answered().await;
    assert!(left <= ttl - slow, "{left:?} of {ttl:?}");
    still_held(&guard);
    proxy.delay(Direction::ToClient, Duration::ZERO);
    lost_eventually(&guard).await;
    until("the server agrees", s.ttl(), || s.is_free(&name)).await;
}

/// Requests and answers come byte by byte: first without a pause, then at a thousand bytes a second to the server.
async fn a_network_that_trickles_costs_nothing_but_time(s: Setting, net: Arc<dyn ThroughProxy>) {
    let (name, proxy) = (s.name(), net.proxy().await);
    // A renewal may take as many steps as a message has bytes, and must be answered after a third of the ttl.
    let ttl = s.ttl() * 10;
    let client = net.client(&proxy, Options::default().patience(ttl)).await;
    let lock = client.lock(name.as_str()).ttl(ttl).build().expect("fine terms");
    for pause in [Duration::ZERO, ms(1)] {
        released(lock.acquire().answered().await).await;
        proxy.trickle(Direction::ToClient, Duration::ZERO);
        proxy.trickle(Direction::ToServer, pause);
        let asked = Instant::now();
        let guard = lock.acquire().await.expect("it is slow, but in time");
        let took = asked.elapsed();
        assert!(took >= pause * 40, "{took:?}: a request has more bytes than that");
        still_held(&guard);
        // A session may have been proven meanwhile.
        assert!(guard.valid_for() + took <= ttl || s.info.lease == Lease::Session, "{took:?} of {ttl:?}");
        guard.renew(ttl).answered().await;
        s.is_kept(&guard, &name).await;
        released(guard).await;
        assert!(s.is_free(&name).await);
    }
}

/// One client asks about names that another client holds. Its calls are cancelled at arbitrary moments.
async fn answers_belong_to_their_calls_whatever_was_cancelled(s: Setting, net: Arc<dyn ThroughProxy>) {
    let (proxy, direct) = (net.proxy().await, s.client().await);
    let client = net.client(&proxy, Options::default()).await;
    let mut held = Vec::new();
    for _ in 0..6 {
        let name = s.name();
        held.push((long(&client, &name), long(&direct, &name).acquire().answered().await));
    }
    let (mut answered, mut cancelled) = ([0; 3], 0);
    for round in 0..8 {
        // Too late for calls with the patience of the short ttl, which is a third of it. Not too late for the other
        // calls of the same round.
        proxy.delay(Direction::ToClient, if round % 2 == 0 { s.ttl() / 2 } else { ms(5) });
        let mut calls = tokio::task::JoinSet::new();
        for n in 0..60 {
            let (lock, guard) = &held[n % held.len()];
            let enough = Random::system().up_to(s.ttl());
            let short = s.lock(&client, lock.name()).build().expect("fine terms");
            let lock = if n % 5 == 0 { short } else { lock.clone() };
            let (token, what) = (guard.token(), n / held.len() % 3);
            calls.spawn(async move { (what, tokio::time::timeout(enough, ask(lock, token, what)).await) });
        }
        while let Some(call) = calls.join_next().await {
            // Answered in time or not, every answer was right.
            match call.returned() {
                (what, Ok(true)) => answered[what] += 1,
                (_, Ok(false)) => {}
                (_, Err(_)) => cancelled += 1,
            }
        }
    }
    // A call that waits for a held lock gets no answer.
    if answered[0] == 0 || answered[1] == 0 || cancelled == 0 {
        void(&format!("{answered:?} of its calls were answered, by kind, and {cancelled} were cancelled"));
    }
    proxy.delay(Direction::ToClient, Duration::ZERO);
    for (lock, guard) in held {
        until("it answers again", ms(1000), || ask(lock.clone(), guard.token(), 0)).await;
        released(guard).await;
        // Waiters whose wait was cancelled may still be leaving.
        until("it is free", ms(1000), || s.is_free(lock.name())).await;
    }
}

/// Asks something about a held lock, whose holder has this token. Returns whether it was answered.
async fn ask(lock: Lock, token: FencingToken, what: usize) -> bool {
    let outcome = match what {
        // There is no token if too few of several servers have answered to say which one it is.
        0 => lock.inspect().await.map(|seen| {
            let seen = seen.holder.expect("it is held").token;
            assert!(seen.is_none_or(|seen| seen == token), "{seen:?} for {token:?}");
        }),
        1 => lock.try_acquire().await.map(|guard| assert!(guard.is_none(), "{guard:?}")),
        _ => lock.acquire().await.map(|guard| panic!("{guard:?}")),
    };
    outcome.map_err(|e| assert!(e.is_transient(), "{e:?}")).is_ok()
}
