//! Cases for all servers, even those that know of no waiters.

use std::time::{Duration, Instant};

use lock_conformance::assert_in_time;

use super::{Contender, Foreign, Ours, is_refused, waits_for_a_turn};

/// A name with what names are mangled by: spaces, braces, letters that are not ASCII, and what looks like an encoding.
const AWKWARD: &str = "one waits {größe} 100%25";

/// One client holds a lock. The other one is refused, waits, and has the lock `soon` after its release, and not before.
/// Then the first one is refused.
pub async fn the_waiter_has_it_next(
    one: &mut dyn Contender,
    other: &mut dyn Contender,
    looker: &mut dyn Foreign,
    soon: Duration,
) {
    one.acquire(AWKWARD).await;
    is_refused(other, AWKWARD).await;
    other.ask(AWKWARD).await;
    waits_for_a_turn(other, looker).await;
    one.release(AWKWARD).await;
    let released = Instant::now();
    other.held().await;
    let after = released.elapsed();
    assert_in_time!(after <= soon, "{other} has it {after:?} after {one}'s release, not within {soon:?}");
    is_refused(one, AWKWARD).await;
    other.release(AWKWARD).await;
}

/// A client releases a lock. The other one, which waits, hears nothing of it, and has the lock when the lease is over that
/// it has read.
pub(crate) async fn the_waiter_looks_at_the_leases_end(
    holder: &mut dyn Contender,
    waiter: &mut dyn Contender,
    looker: &mut dyn Foreign,
    lease: Duration,
) {
    let name = "unheard";
    holder.acquire(name).await;
    let asked = Instant::now();
    waiter.ask(name).await;
    // It looks twice before it waits.
    for _ in 0..10 {
        waits_for_a_turn(waiter, looker).await;
    }
    holder.release(name).await;
    let released = Instant::now();
    waiter.held().await;
    let after = released.elapsed();
    // The lease is renewed when a third of it is over: the waiter has read two thirds of it or more, and looks again
    // when they are over.
    let before = released - asked;
    assert_in_time!(before <= lease / 3, "{holder}'s release came {before:?} after {waiter} had asked");
    assert!(after >= lease / 3, "{waiter} has heard of the release: it has the lock after {after:?}");
    assert_in_time!(after <= lease + Duration::from_secs(1), "{waiter} has it after {after:?}");
    waiter.release(name).await;
}

/// A client that holds a lock is killed. The other one, which waits, has the lock when the lease has ended, and not
/// before.
pub(crate) async fn a_killed_holder_keeps_it_for_its_lease(
    mut holder: Box<dyn Foreign>,
    waiter: &mut dyn Contender,
) {
    /// The lease of a driver. Those of Redisson's are longer by as much as a renewal has added.
    const LEASE: Duration = Duration::from_secs(10);
    let name = "killed";
    let asked = Instant::now();
    holder.acquire(name).await;
    waiter.ask(name).await;
    drop(holder);
    let killed = Instant::now();
    waiter.held().await;
    let (at_least, at_most) = (asked.elapsed(), killed.elapsed());
    assert!(at_least >= LEASE, "{waiter} has it {at_least:?} after the holder asked");
    assert_in_time!(at_most <= LEASE + Duration::from_secs(1), "{waiter} has it {at_most:?} after the kill");
    waiter.release(name).await;
}

/// The lock of a client is taken away, and ours has it. When that client releases, it is told so, and ours still has
/// the lock.
pub(crate) async fn a_late_release_releases_nothing(holder: &mut dyn Foreign, ours: &mut Ours) {
    let name = "late";
    holder.acquire(name).await;
    ours.take_away(name).await;
    ours.acquire(name).await;
    holder.release_fails(name).await;
    is_refused(holder, name).await;
    ours.release(name).await;
}

/// Each name is the same lock for both clients, and another lock than the name behind it, which looks alike.
pub(crate) async fn names_are_the_same_for_both(one: &mut dyn Contender, other: &mut dyn Contender) {
    let names = [
        "with a space",
        "with%20a%20space",
        "with+a+space",
        "{tag}",
        "{tag",
        "tag}",
        "a{b}c{d}",
        "gr\u{f6}\u{df}e",
        "gro\u{308}\u{df}e",
        "名前",
        "🔒",
        "tab\tand\nline",
        "jobs:\"quoted\"\\",
    ];
    for (name, alike) in names.into_iter().zip(names.into_iter().cycle().skip(1)) {
        one.acquire(name).await;
        is_refused(other, name).await;
        is_free(other, alike).await;
        one.release(name).await;
        other.acquire(name).await;
        is_refused(one, name).await;
        other.release(name).await;
    }
}

async fn is_free(contender: &mut dyn Contender, name: &str) {
    let answer = contender.attempt(name).await;
    assert_eq!(answer, Some(true), "{contender} was refused a lock that is free: {name}");
    contender.release(name).await;
}

/// The two clients take turns on a lock, each while the other one holds it. The token of each turn is higher than the
/// one before.
pub(crate) async fn tokens_rise_in_one_order<'a>(
    mut holder: &'a mut dyn Contender,
    mut waiter: &'a mut dyn Contender,
) {
    const ROUNDS: usize = 20;
    let name = "tokens";
    holder.acquire(name).await;
    let mut last = token(holder);
    for _ in 0..ROUNDS {
        waiter.ask(name).await;
        holder.release(name).await;
        waiter.held().await;
        let next = token(waiter);
        assert!(next > last, "{waiter} has the token {next}, after {last} of {holder}");
        (holder, waiter, last) = (waiter, holder, next);
    }
    holder.release(name).await;
}

fn token(holder: &dyn Contender) -> u64 {
    holder.token().unwrap_or_else(|| panic!("{holder} has no token"))
}
