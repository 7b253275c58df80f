//! Every waiter gets the lock in time, whatever has happened to earlier holders and waiters.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::processes::{Lease, TTL, dies_while_another_waits, holding, is_not_renewed};
use crate::bounds;
use crate::case::{Case, case};
use crate::harness::{Data, Durable, LockProgram, OwnServers, Processes};
use crate::part::{Order, Part, PartProcess};
use crate::setting::{Contend, Setting, granted_within, ms, waits};
use crate::timing::{Answered, assert_in_time, released};

pub(crate) const CASES: &[Case] = &[
    case!(a_killed_holder_frees_it_though_the_server_restarts, "takeover-after-restart, server-and-holder-killed", [B5, B31]; load Medium),
    case!(a_killed_holder_elsewhere_in_time_zones_frees_it, "takeover-unhindered, holder-in-time-zone", [B6, B7]; load Medium),
    case!(dead_and_stopped_waiters_block_no_other_waiter, "takeover-unhindered, waiters-dead", [B5]; load Medium),
];

const LONG: Duration = Duration::from_secs(20);

async fn a_killed_holder_frees_it_though_the_server_restarts(
    s: Setting,
    servers: Arc<dyn OwnServers>,
    program: Arc<dyn LockProgram>,
    _: Durable,
) {
    let (name, mut server) = (s.name(), servers.start().await);
    let url = server.url().expect("its harness can run the program");
    let holder = holding(&*program, &url, &name, None).await;
    let lock = s.lock_on(&*server, &name).await.ttl(TTL).built();
    if lock.try_acquire().answered().await.is_some() {
        is_not_renewed(holder).await;
    }
    let looking = lock.clone();
    let waiter = tokio::spawn(async move { lock.acquire().await.map(|guard| (Instant::now(), guard)) });
    tokio::time::sleep(TTL / 2).await;
    let (lease, killed) = Lease::of_killed(&s, holder, &looking).await;
    server.kill();
    let died = Instant::now();
    tokio::time::sleep(ms(200)).await;
    server.start(Data::Kept);
    let down = died.elapsed();
    let (granted, guard) = granted_within("the lease ends", LONG, waiter).await;
    let took = granted - killed;
    let bound = bounds::after_a_death_and_a_restart(&s.info, TTL, down) + server.recovers_in();
    assert_in_time!(took <= bound, "{took:?}, {down:?} without a server: no more than {bound:?} is promised");
    lease.is_over(&guard, granted, took);
}

/// Clocks that are fourteen hours ahead of Greenwich time and eleven behind. No end of a lease is written in local
/// time.
async fn a_killed_holder_elsewhere_in_time_zones_frees_it(s: Setting, program: Arc<dyn LockProgram>) {
    let there = |zone| dies_while_another_waits(&s, &*program, Some(zone));
    tokio::join!(there("<+14>-14"), there("<-11>+11"));
}

/// Of the waiters in front, two are killed, one is stopped, and one has given up. The last one gets the lock.
async fn dead_and_stopped_waiters_block_no_other_waiter(s: Setting, processes: Arc<dyn Processes>) {
    let (name, client, last) = (s.name(), s.client().await, s.client().await);
    let guard = client.lock(name.as_str()).ttl(LONG).held().await;
    let killed = [waiting(&*processes, &name).await, waiting(&*processes, &name).await];
    let mut stopped = waiting(&*processes, &name).await;
    let lock = last.lock(name.as_str()).ttl(TTL).built();
    let given_up = waits(lock.clone());
    // They have looked and found it held. Whether they listen by now makes no difference to the last waiter.
    tokio::time::sleep(ms(100)).await;
    for part in &killed {
        part.process().kill().expect("it waits");
    }
    stopped.process().pause().expect("it waits");
    given_up.abort();
    let survivor = waits(lock);
    tokio::time::sleep(ms(100)).await;
    let freed = Instant::now();
    released(guard).await;
    let next = granted_within("the last waiter has it", LONG, survivor).await;
    // The stopped waiter may have been granted the lock before it could be told.
    let (took, bound) = (freed.elapsed(), bounds::after_a_death(&s.info, TTL));
    assert_in_time!(took <= bound, "{took:?} after the release: no more than {bound:?} is promised");
    stopped.process().resume().expect("it was stopped");
    let token = next.token();
    released(next).await;
    assert!(stopped.holds().await > token, "it continues to wait when it runs again");
}

/// Starts a process that has found the lock held, and waits.
async fn waiting(processes: &dyn Processes, name: &lock_core::Name) -> PartProcess {
    let mut part = Order { part: Part::Waits, name: name.to_string(), ttl: TTL }.start(processes);
    assert_eq!(part.says().await, "waits");
    part
}
