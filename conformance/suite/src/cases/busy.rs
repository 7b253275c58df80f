//! Names that another program keeps busy at the server cost a client none of its other locks, however many they are.

use std::sync::Arc;
use std::time::Instant;

use lock_core::driver::{Lists, When};
use lock_core::{Client, Guard, Name};
use tokio::task::JoinSet;

use crate::bounds;
use crate::case::{Case, case};
use crate::harness::KeepBusy;
use crate::setting::{Contend, Setting, holder_of, lost_eventually};
use crate::timing::{Answered, assert_in_time, released, still_held, until, within};

pub(crate) const CASES: &[Case] = &[
    case!(names_that_are_waited_for_cost_no_other_lock, "busy-names", [B36]; load Heavy),
    case!(names_that_are_held_cost_no_other_lock, "busy-names", [B36]; load Heavy),
    case!(names_that_are_released_cost_no_other_lock, "busy-names", [B36]; load Heavy),
    case!(looks_and_breaks_of_names_cost_no_other_lock, "busy-names", [B36]; load Heavy),
    case!(a_crowd_on_one_name_costs_no_other_lock, "busy-names", [B36]; load Medium),
];

/// The numbers of busy names: fewer than a client has connections, and more.
const COUNTS: [usize; 2] = [3, 10];

/// Clients, each with some names of its own that another program keeps busy. The client with the most names has the server
/// to itself, as a server has work with each.
async fn for_each_count<F: Future<Output = ()> + Send + 'static>(
    s: &Setting,
    busy: Arc<dyn KeepBusy>,
    part: impl Fn(Scene, Arc<dyn KeepBusy>) -> F,
) {
    let many = s.size("busy names", 40, 80);
    for counts in [&COUNTS[..], &[many]] {
        let mut parts = JoinSet::new();
        for count in counts {
            let names = (0..*count).map(|_| s.name()).collect();
            parts.spawn(part(Scene { s: s.clone(), client: s.client().await, names }, busy.clone()));
        }
        parts.join_all().await;
    }
}

/// A client, and the names that are about to be busy.
#[derive(Clone)]
struct Scene {
    s: Setting,
    client: Client,
    names: Vec<Name>,
}

impl Scene {
    /// Holds and releases each name once, so that the server has something of it.
    async fn use_names(&self) {
        for name in &self.names {
            released(self.s.hold_long_by(&self.client, name).await).await;
        }
    }

    /// Holds these names, with a ttl of so many times the case's own.
    async fn hold(&self, names: &[Name], times: u32) -> Vec<Guard> {
        let mut guards = Vec::new();
        for name in names {
            guards.push(self.s.lock(&self.client, name).ttl(self.s.ttl() * times).held().await);
        }
        guards
    }

    /// Checks for two leases that what the client holds is renewed, that it takes what is free, and that its releases get
    /// through.
    async fn others_go_on(&self, others: &[Guard]) {
        let (s, ttl) = (&self.s, self.s.ttl() * 2);
        let (end, patience) = (Instant::now() + ttl, bounds::patience(ttl));
        while Instant::now() < end {
            others.iter().for_each(still_held);
            let guard = self
                .client
                .lock(s.name().as_str())
                .ttl(ttl)
                .held_within("another lock, which is free", patience)
                .await;
            let asked = Instant::now();
            released(guard).await;
            assert_in_time!(asked.elapsed() <= patience, "released after {:?}", asked.elapsed());
            tokio::time::sleep(s.ttl() / 8).await;
        }
        others.iter().for_each(still_held);
    }

    /// Keeps the names busy while this work is begun on them, and checks that the client's other locks go on meanwhile. Returns
    /// what the work came to when the names are free again.
    async fn while_busy<T: Send + 'static>(
        &self,
        busy: &dyn KeepBusy,
        work: impl IntoIterator<Item = impl Future<Output = T> + Send + 'static>,
    ) -> Vec<T> {
        let others = self.hold_others().await;
        let kept = busy.keep_busy(&self.names).await;
        let work: JoinSet<T> = work.into_iter().collect();
        self.others_go_on(&others).await;
        kept.end().await;
        within("the work on names that were busy", bounds::EVENTUALLY, work.join_all()).await
    }

    /// Holds locks that are not busy: of the shortest ttl, and of one that they share with names that are.
    async fn hold_others(&self) -> Vec<Guard> {
        let pair = || [self.s.name(), self.s.name()];
        let mut guards = self.hold(&pair(), 1).await;
        guards.extend(self.hold(&pair(), 2).await);
        guards
    }
}

async fn names_that_are_waited_for_cost_no_other_lock(s: Setting, busy: Arc<dyn KeepBusy>) {
    for_each_count(&s, busy, |scene, busy| async move {
        scene.use_names().await;
        let waiters = scene.names.iter().map(|name| {
            let lock = scene.s.lock(&scene.client, name).built();
            async move { lock.acquire().await }
        });
        for granted in scene.while_busy(&*busy, waiters).await {
            granted.expect("it waits without end").release().await;
        }
    })
    .await;
}

async fn names_that_are_held_cost_no_other_lock(s: Setting, busy: Arc<dyn KeepBusy>) {
    for_each_count(&s, busy, |scene, busy| async move {
        // Some of them end before the names are free again, and some do not.
        let (short, long) = scene.names.split_at(scene.names.len() / 2);
        let long = scene.hold(long, 6).await;
        let short = scene.hold(short, 2).await;
        let others = scene.hold_others().await;
        let kept = busy.keep_busy(&scene.names).await;
        scene.others_go_on(&others).await;
        for guard in short {
            lost_eventually(&guard).await;
        }
        long.iter().for_each(still_held);
        kept.end().await;
        tokio::time::sleep(scene.s.ttl() * 6).await;
        for guard in long {
            released(guard).await;
        }
    })
    .await;
}

async fn names_that_are_released_cost_no_other_lock(s: Setting, busy: Arc<dyn KeepBusy>) {
    for_each_count(&s, busy, |scene, busy| async move {
        let releases = scene.hold(&scene.names, 20).await.into_iter().map(Guard::release);
        scene.while_busy(&*busy, releases).await;
        for name in &scene.names {
            until("it is free", bounds::EVENTUALLY, || scene.s.is_free(name)).await;
        }
    })
    .await;
}

/// They can be looked at, and their names are listed, while they are busy. They are broken when they are so no longer.
async fn looks_and_breaks_of_names_cost_no_other_lock(s: Setting, busy: Arc<dyn KeepBusy>) {
    for_each_count(&s, busy, |scene, busy| async move {
        let broken = scene.hold(&scene.names, 20).await.into_iter().map(|guard| {
            let lock = scene.s.lock(&scene.client, guard.name()).built();
            let (client, lists) = (scene.client.clone(), scene.s.info.lists);
            async move {
                let holder = holder_of(&lock).await.expect("it is held");
                if lists == Lists::Held {
                    assert_eq!(client.list(lock.name().as_str()).answered().await.len(), 1);
                }
                while let Err(error) = lock.revoke(&holder.owner, When::Now).await {
                    assert!(error.is_transient(), "{error:?}");
                }
                guard
            }
        });
        for guard in scene.while_busy(&*busy, broken).await {
            lost_eventually(&guard).await;
        }
    })
    .await;
}

async fn a_crowd_on_one_name_costs_no_other_lock(s: Setting) {
    let (scene, crowded) = (Scene { s: s.clone(), client: s.client().await, names: Vec::new() }, s.name());
    let others = scene.hold_others().await;
    let holder = s.hold_long(&crowded).await;
    let mut clients = vec![scene.client.clone()];
    for _ in 0..s.size("other clients that wait for one name", 10, 100) {
        clients.push(s.client().await);
    }
    let mut waiters = JoinSet::new();
    for client in &clients {
        let lock = client.lock(crowded.as_str()).ttl(s.long()).built();
        for _ in 0..20 {
            let lock = lock.clone();
            waiters.spawn(async move { lock.acquire().await.map(drop) });
        }
    }
    scene.others_go_on(&others).await;
    // The name goes from hand to hand.
    released(holder).await;
    scene.others_go_on(&others).await;
    for guard in others {
        released(guard).await;
    }
    for client in &clients {
        client.shutdown(bounds::EVENTUALLY).await;
    }
    waiters.join_all().await;
}
