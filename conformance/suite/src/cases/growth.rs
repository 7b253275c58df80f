//! Things that grow, and things that don't. Names that are not used any more cost nothing in the end, neither the
//! server nor a client. Locks that share a session share its heartbeats.

use std::sync::Arc;
use std::time::Duration;

use lock_core::driver::Lease;
use lock_core::{Client, Ending, ErrorKind, Guard};
use tokio::task::JoinSet;

use super::names::pass_through;
use crate::bounds;
use crate::case::{Case, case};
use crate::harness::{Age, Count, Residue};
use crate::setting::{Contend, Setting, ms};
use crate::timing::{assert_in_time, released, still_held, until};

pub(crate) const CASES: &[Case] = &[
    case!(names_that_are_used_once_leave_their_tokens_only, "no-residue, zk-folder", [B27, B28]; load Heavy),
    case!(locks_of_one_session_share_its_heartbeats, "zk-sessions, etcd-heartbeats", [B28, B30]; load Heavy; if |s| s.info.lease == Lease::Session),
];

/// Longer than any backend remembers a token.
const OLD: Duration = Duration::from_secs(48 * 3600);
/// A client that releases this often removes old records, if it removes any.
const ROUND: usize = 100;

/// Young tokens stay, one record for each name. Once they are old, they are removed by the time that as many locks have
/// been released again.
async fn names_that_are_used_once_leave_their_tokens_only(
    s: Setting,
    left: Arc<dyn Residue>,
    records: Arc<dyn Age>,
) {
    let names = s.size("names that are used once", 500, 100_000);
    let (client, run, again) = (s.client().await, s.name(), s.name());
    let residue = left.residue().await;
    // The first acquisition may leave more behind: a session, a channel.
    pass_through(&s, &client, &again, 0..ROUND).await;
    waits_in_vain(&s, &client).await;
    let (before, tasks) = (records.kept().await, tasks());
    pass_through(&s, &client, &run, 0..names).await;
    let cleared = || async { left.residue().await <= residue };
    until("nothing but tokens is left", bounds::cleared(s.long()), cleared).await;
    let kept = records.kept().await.saturating_sub(before);
    assert!(kept <= names as u64, "{kept} things are left of {names} names");
    until("no task is left", bounds::EVENTUALLY, || async { self::tasks() <= tasks }).await;

    records.age(OLD).await;
    let lock = s.lock(&client, &s.name()).built();
    for _ in 0..names / ROUND {
        for _ in 0..ROUND {
            released(lock.acquire().await.expect("no other client has it")).await;
        }
        if records.kept().await <= before + 1 {
            return;
        }
    }
    // The removal of old records may end a little after the release that started it.
    until("old tokens are gone", ms(2000), || async { records.kept().await <= before + 1 }).await;
}

/// Starts the task that hears of releases and revokes: on some servers each client has one, from its first waiter or its
/// first hold of some length on.
async fn waits_in_vain(s: &Setting, client: &Client) {
    let name = s.name();
    let guard = s.hold(&name).await;
    let waiter = s.lock(client, &name).wait(ms(200)).built();
    assert_eq!(waiter.acquire().await.expect_err("it is held").kind(), ErrorKind::Timeout);
    released(guard).await;
}

/// While a thousand locks are held, a client sends as many requests as while one is held, except for how many locks fit
/// into a request. With so many locks, a heartbeat may also come sooner.
async fn locks_of_one_session_share_its_heartbeats(s: Setting, admin: Arc<dyn Count>) {
    let locks = s.size("locks held by one client", 1000, 10_000);
    let client = s.client().await;
    let mut held = hold(&s, &client, 1).await;
    let one = asked(&s, &*admin).await;
    held.extend(hold(&s, &client, locks).await);
    let many = asked(&s, &*admin).await;
    held.iter().for_each(|guard| still_held(guard));
    let most = 2 * one * (1 + locks / s.facts.proven_at_once);
    // On a slow machine the counting takes longer.
    assert_in_time!((many <= most), "{many} requests while {locks} locks are held, {one} while one is");
    while !held.is_empty() {
        let some: JoinSet<_> = held.drain(..held.len().min(AT_ONCE)).map(Guard::release).collect();
        some.join_all().await.into_iter().for_each(|ending| assert_eq!(ending, Ending::Released));
    }
}

/// A thousand requests at once would keep a server busy for longer than a case's lease.
const AT_ONCE: usize = 50;

/// Returns a ttl in which a thousand locks can be renewed, on a machine that does other work too.
fn long(s: &Setting) -> Duration {
    s.ttl() * 3
}

/// Returns locks that are held, and that have been renewed since.
async fn hold(s: &Setting, client: &Client, locks: usize) -> Vec<Guard> {
    let mut held = Vec::new();
    while held.len() < locks {
        let some: JoinSet<_> = (held.len()..locks.min(held.len() + AT_ONCE))
            .map(|_| s.lock(client, &s.name()).ttl(long(s)).built())
            .map(async |lock| lock.acquire().await.expect("no other client has it"))
            .collect();
        held.extend(some.join_all().await);
    }
    tokio::time::sleep(long(s) / 2).await;
    held
}

/// Returns how many requests arrive while a lease is renewed twice.
async fn asked(s: &Setting, admin: &dyn Count) -> usize {
    let before = admin.counters().await.requests;
    tokio::time::sleep(long(s) * 2 / 3).await;
    let asked = admin.counters().await.requests - before;
    usize::try_from(asked).expect("few are asked")
}

/// Returns the number of tasks of this process that have not ended.
fn tasks() -> usize {
    tokio::runtime::Handle::current().metrics().num_alive_tasks()
}
