//! Scenes in which a client or a server fails. Those about servers have servers of their own.

use std::time::{Duration, Instant};

use lock_conformance::Data;
use lock_conformance::claims::claim;
use lock_conformance::proxy::{Direction, Fault, Proxy};
use lock_core::driver::{Attempt, Queueing};
use lock_test_servers::{Clock, Owned, ServerUrl};

use super::{Figures, TTL, figures, flag, millis, name, open, release, terms};
use crate::Outcome;
use crate::argument::scene::{follow_for_a_moment, granted_within};
use crate::argument::stories::Story;
use crate::claims::play::harness::Tried;
use crate::clusters::{start, url_of};

/// A lease that is not renewed while a scene lasts: what a failed server costs is then seen.
const LONG: Duration = lock_core::DEFAULT_TTL;
const BETWEEN_TRIES: Duration = Duration::from_millis(20);

/// A client dies when the first request of its attempt has been sent. `deadlock` is whether the lock is still held when
/// its lease would have ended long ago.
pub(super) async fn dies(tried: &Tried) -> Outcome<Figures> {
    let proxy = Proxy::start(&ServerUrl::parse(&tried.url)?.address(6379)).await?;
    let dying = open(&tried.at(&format!("redis://{}", proxy.address()))).await?;
    let (name, other) = (name(), open(tried).await?);
    let mut cut_off = claim(&dying, &name, terms(Queueing::No));
    proxy.hold_open_ones_after(Direction::ToServer, 1);
    let began = Instant::now();
    // It is granted if one request is all that it takes. Then the client dies before its next one.
    while proxy.count(Fault::Held(Direction::ToServer)) == 0 {
        drop(cut_off.attempt().await);
    }
    drop(cut_off);
    let mut next = claim(&other, &name, terms(Queueing::No));
    let ends = Instant::now() + TTL * 3;
    let mut deadlock = true;
    while deadlock && Instant::now() < ends {
        deadlock = matches!(next.attempt().await?, Attempt::Busy(_));
        tokio::time::sleep(BETWEEN_TRIES).await;
    }
    let watched = began.elapsed();
    next.release().await?;
    Ok(figures([("deadlock", flag(deadlock)), ("watched_ms", millis(watched)), ("ttl_ms", millis(TTL))]))
}

/// A replica that was cut off before the grant takes the place of its primary. `two_held` is whether it lets a second
/// client in, and `token_rises` whether a resource can tell which one came later.
pub(super) async fn failover(tried: &Tried) -> Outcome<Figures> {
    let servers = start(2, Clock::Machines)?;
    let [primary, replica] = &servers[..] else { return Err("there are two of them".into()) };
    follow_for_a_moment(primary, replica).await?;
    let name = name();
    let first = open(&tried.at(primary.url())).await?.lock(name.as_str()).build()?.acquire().await?;
    primary.kill()?;
    let second = granted_within(&tried.at(replica.url()), &name, LONG, Duration::from_secs(1)).await?;
    let two_held = second.is_some() && first.is_held();
    let rises = second.is_some_and(|second| second.token() > first.token());
    Ok(figures([("two_held", flag(two_held)), ("token_rises", flag(rises))]))
}

/// A client tries for so long while servers fail. A connection that broke costs a try.
const TRIES: Duration = Duration::from_secs(3);

/// One of five servers is dead, then a second one answers nothing.
pub(super) async fn minority(tried: &Tried) -> Outcome<Figures> {
    let (servers, tried) = started(tried, "").await?;
    let [dead, silent, ..] = &servers[..] else { return Err("there are five of them".into()) };
    dead.kill()?;
    let with_one_dead = takes_and_releases(&tried).await?;
    silent.pause()?;
    let with_one_silent_too = takes_and_releases(&tried).await?;
    silent.resume()?;
    Ok(figures([
        ("granted_with_one_dead", flag(with_one_dead)),
        ("granted_with_one_silent_too", flag(with_one_silent_too)),
    ]))
}

async fn takes_and_releases(tried: &Tried) -> Outcome<bool> {
    match granted_within(tried, &name(), TTL, TRIES).await? {
        Some(guard) => release(guard).await.map(|()| true),
        None => Ok(false),
    }
}

/// The first client has A, B and C. C forgets. The second client finds C, D and E. `two_held` is whether it is granted
/// the lock while the first one holds it.
pub(super) async fn empty_restart(tried: &Tried) -> Outcome<Figures> {
    let result = Story::Restart.play(tried.of).await?;
    match result.granted {
        true => Ok(figures([("two_held", flag(result.two_held))])),
        false => Err("a majority is there, and grants nothing".into()),
    }
}

/// The longest ttl of the servers of `crashed_majority`.
const MAX_TTL: Duration = Duration::from_secs(2);

/// Three of five servers restart empty. `unavailable_ms` is how long no lock is granted then.
pub(super) async fn crashed_majority(tried: &Tried) -> Outcome<Figures> {
    let (servers, tried) = started(tried, &format!("?max_ttl={}ms", MAX_TTL.as_millis())).await?;
    let before = granted_within(&tried, &name(), TTL, TRIES).await?.ok_or("five servers grant nothing")?;
    release(before).await?;
    servers[..3].iter().try_for_each(|server| server.restart(Data::Lost))?;
    let restarted = Instant::now();
    let guard =
        granted_within(&tried, &name(), TTL, MAX_TTL * 5).await?.ok_or("no lock is granted any more")?;
    let unavailable = restarted.elapsed();
    release(guard).await?;
    Ok(figures([("unavailable_ms", millis(unavailable)), ("max_ttl_ms", millis(MAX_TTL))]))
}

/// Starts five servers, and prepares them for locks.
async fn started(tried: &Tried, parameters: &str) -> Outcome<(Vec<Owned>, Tried)> {
    let servers = start(5, Clock::Machines)?;
    let tried = tried.at(&format!("{}{parameters}", url_of(&servers)));
    tried.init().await?;
    Ok((servers, tried))
}
