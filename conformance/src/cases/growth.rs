//! What grows, and what doesn't: names that nobody uses any more cost nothing in the end, neither the server nor a
//! client, and locks that share a session share its heartbeats.

use std::time::Duration;

use lock_core::driver::Lease;
use lock_core::{Client, Ending, Guard};
use tokio::task::JoinSet;

use super::case;
use super::names::pass_through;
use crate::runner::Case;
use crate::setting::{Setting, ms};
use crate::timing::{assert_in_time, released, still_held, until};

pub(crate) const CASES: &[Case] = &[
    case!(names_that_are_used_once_leave_their_tokens_only, [B27, B28]; needs [Residue, Age]; load Heavy),
    case!(locks_of_one_session_share_its_heartbeats, [B28, B30]; needs [Counters]; load Heavy; if |info| info.lease == Lease::Session),
];

/// Longer than any backend remembers a token.
const OLD: Duration = Duration::from_secs(48 * 3600);
/// Who releases so often sweeps up, if it sweeps at all.
const ROUND: usize = 100;

/// While the tokens are young they stay, one thing for each name; once they are old, they go by the time that as many
/// locks were released again.
async fn names_that_are_used_once_leave_their_tokens_only(s: Setting) {
    let names = s.size("names that are used once", 500, 100_000);
    let (client, run, again) = (s.client().await, s.name(), s.name());
    let residue = s.harness.residue().await;
    // What the first one leaves behind may be more: a session, a channel.
    pass_through(&s, &client, &again, 0..ROUND).await;
    let (before, tasks) = (s.harness.kept().await, tasks());
    pass_through(&s, &client, &run, 0..names).await;
    until("nothing but tokens is left", ms(5000), || async { s.harness.residue().await <= residue }).await;
    let left = s.harness.kept().await.saturating_sub(before);
    assert!(left <= names as u64, "{left} things are left of {names} names");
    until("no task is left", ms(4000), || async { self::tasks() <= tasks }).await;

    s.harness.age(OLD).await;
    let lock = s.lock(&client, &s.name()).build().expect("fine terms");
    for _ in 0..names / ROUND {
        for _ in 0..ROUND {
            released(lock.acquire().await.expect("no other client has it")).await;
        }
        if s.harness.kept().await <= before + 1 {
            return;
        }
    }
    // A sweep may end a little after the release that it comes with.
    until("old tokens are gone", ms(2000), || async { s.harness.kept().await <= before + 1 }).await;
}

/// What is asked while a thousand locks are held is what is asked while one is, but for how much fits into a request;
/// and a heartbeat may come sooner for one of so many.
async fn locks_of_one_session_share_its_heartbeats(s: Setting) {
    let locks = s.size("locks held by one client", 1000, 10_000);
    let client = s.client().await;
    let mut held = hold(&s, &client, 1).await;
    let one = asked(&s).await;
    held.extend(hold(&s, &client, locks).await);
    let many = asked(&s).await;
    held.iter().for_each(|guard| still_held(guard));
    let most = 2 * one * (1 + locks / s.harness.proven_at_once());
    // On a slow machine what is counted takes longer.
    assert_in_time!((many <= most), late by ms(1000), "{many} requests while {locks} locks are held, {one} while one is");
    while !held.is_empty() {
        let some: JoinSet<_> = held.drain(..held.len().min(AT_ONCE)).map(Guard::release).collect();
        some.join_all().await.into_iter().for_each(|ending| assert_eq!(ending, Ending::Released));
    }
}

/// A thousand requests at once have a server busy for longer than a case's lease.
const AT_ONCE: usize = 50;

/// What a thousand locks are renewed in, on a machine that does other things too.
fn long(s: &Setting) -> Duration {
    s.ttl() * 3
}

/// Locks that are held, and that have been renewed since.
async fn hold(s: &Setting, client: &Client, locks: usize) -> Vec<Guard> {
    let mut held = Vec::new();
    while held.len() < locks {
        let some: JoinSet<_> = (held.len()..locks.min(held.len() + AT_ONCE))
            .map(|_| s.lock(client, &s.name()).ttl(long(s)).build().expect("fine terms"))
            .map(async |lock| lock.acquire().await.expect("no other client has it"))
            .collect();
        held.extend(some.join_all().await);
    }
    tokio::time::sleep(long(s) / 2).await;
    held
}

/// How many requests come while a lease is renewed twice.
async fn asked(s: &Setting) -> usize {
    let before = s.harness.counters().await.requests;
    tokio::time::sleep(long(s) * 2 / 3).await;
    let asked = s.harness.counters().await.requests - before;
    usize::try_from(asked).expect("few are asked")
}

/// Tasks of this process that have not ended.
fn tasks() -> usize {
    tokio::runtime::Handle::current().metrics().num_alive_tasks()
}
