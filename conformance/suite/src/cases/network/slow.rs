//! A network that takes its time, and calls that are cancelled meanwhile.

use std::time::{Duration, Instant};

use lock_core::driver::Lease;
use lock_core::{FencingToken, Lock, Options, Random};

use super::long;
use crate::proxy::Direction;
use crate::setting::{Contend, Net, Setting, lost_eventually, ms};
use crate::timing::{Answered, Returned, released, still_held, until, void};

/// Twice as many requests where a lease is written by a client that looks first, and may have to read what it has written.
fn pace(s: &Setting) -> u32 {
    let looks_first = s.info.lease == Lease::Lock && s.facts.one_trip.is_err();
    if looks_first { 2 } else { 1 }
}

pub(super) async fn a_slow_answer_counts_against_the_lease(s: Setting, net: Net) {
    let (name, proxy) = (s.name(), net.proxy().await);
    // An attempt may take two answers, one after the other.
    let (ttl, slow) = (s.ttl() * 3, s.ttl() / 2 / pace(&s));
    let client = net.client(&proxy, Options::default().patience(ttl)).await;
    // Everything that happens only at first use is done here, so that each later call takes one answer.
    let guard = client.lock(name.as_str()).ttl(ttl).held().await;
    guard.renew(ttl).answered().await;
    released(guard).await;
    proxy.delay(Direction::ToClient, slow);
    let lock = client.lock(name.as_str()).ttl(ttl).fixed_lease().built();
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
pub(super) async fn a_network_that_trickles_costs_nothing_but_time(s: Setting, net: Net) {
    let (name, proxy) = (s.name(), net.proxy().await);
    // A renewal may take as many steps as a message has bytes, and must be answered after a third of the ttl.
    let ttl = s.ttl() * 10 * pace(&s);
    let client = net.client(&proxy, Options::default().patience(ttl)).await;
    let lock = client.lock(name.as_str()).ttl(ttl).built();
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
        s.freed(guard).await;
    }
}

/// One client asks about names that another client holds. Its calls are cancelled at arbitrary moments.
pub(super) async fn answers_belong_to_their_calls_whatever_was_cancelled(s: Setting, net: Net) {
    let (proxy, direct) = (net.proxy().await, s.client().await);
    let client = net.client(&proxy, Options::default()).await;
    let mut held = Vec::new();
    for _ in 0..6 {
        let name = s.name();
        held.push((long(&client, &name).built(), long(&direct, &name).held().await));
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
            let short = s.lock(&client, lock.name()).built();
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
