//! A replica set of three members that loses its primary under load.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use lock_conformance::Data;
use lock_conformance::assert_in_time;
use lock_conformance::servers::{ReplicaSet, Settings};
use lock_core::{Client, Ending, FencingToken, Options};

use crate::server::run;
use lock_conformance::timing::{released, still_held};

const TTL: Duration = Duration::from_secs(6);
/// A failover of a set whose elections take a second, on a busy machine.
const FAILOVER: Duration = Duration::from_secs(20);

/// When somebody was certain of a name, and with which token.
#[derive(Clone, Copy, Debug)]
struct Held {
    from: Instant,
    to: Instant,
    token: FencingToken,
}

type History = Arc<Mutex<HashMap<String, Vec<Held>>>>;

async fn client(set: &ReplicaSet) -> Client {
    lock_mongo::connect_with(&set.url(), Options::default()).await.expect("it has a primary")
}

/// Takes and gives back the name until told to stop.
async fn work(client: Client, name: String, history: History, stop: Arc<AtomicBool>) {
    let lock = client.lock(name.as_str()).ttl(TTL).wait(Duration::from_secs(60)).build().unwrap();
    while !stop.load(Ordering::SeqCst) {
        let guard = match lock.acquire().await {
            Ok(guard) => guard,
            Err(e) => {
                assert!(e.is_transient() || e.kind() == lock_core::ErrorKind::Timeout, "{e:?}");
                continue;
            }
        };
        let from = Instant::now();
        tokio::time::sleep(Duration::from_millis(5)).await;
        let sure = guard.valid_for();
        let to = Instant::now().min(Instant::now() + sure);
        if guard.is_held() {
            history.lock().unwrap().entry(name.clone()).or_default().push(Held {
                from,
                to,
                token: guard.token(),
            });
        }
        let _: Ending = guard.release().await;
    }
}

/// No two were certain at once, and tokens rise in the order in which they held.
fn check(history: &History) -> usize {
    let history = history.lock().unwrap();
    for (name, held) in history.iter() {
        let mut held = held.clone();
        held.sort_by_key(|held| held.from);
        for pair in held.windows(2) {
            assert!(pair[0].to <= pair[1].from, "{name}: two holders: {pair:?}");
            assert!(pair[0].token < pair[1].token, "{name}: a token that does not rise: {pair:?}");
        }
    }
    history.values().map(Vec::len).sum()
}

async fn blocking<T: Send + 'static>(what: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(what).await.unwrap()
}

/// The primary goes three times, by `how`; workers go on, a holder's fate is `how`'s.
async fn lose_primaries(set: Arc<ReplicaSet>, how: fn(&ReplicaSet) -> usize) {
    let (history, stop) = (History::default(), Arc::new(AtomicBool::new(false)));
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..6 {
        let (client, name) = (client(&set).await, format!("name {}", n % 2));
        tasks.spawn(work(client, name, history.clone(), stop.clone()));
    }
    let holder = client(&set).await;
    let long =
        holder.lock("held throughout").ttl(Duration::from_secs(60)).build().unwrap().acquire().await.unwrap();
    for _ in 0..3 {
        let (hurt, before) = (set.clone(), check(&history));
        let gone = blocking(move || how(&hurt)).await;
        let asked = Instant::now();
        while check(&history) < before + 4 {
            assert_in_time!(asked.elapsed() < TTL + FAILOVER, "nobody is granted anything after a failover");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let healed = set.clone();
        blocking(move || {
            let member = &healed.members()[gone];
            if member.process_id().is_none() {
                member.restart(Data::Kept).expect("it starts again");
            }
            healed.become_whole().expect("it finds its set again");
        })
        .await;
    }
    still_held(&long);
    long.renew(Duration::from_secs(60)).await.unwrap();
    released(long).await;
    stop.store(true, Ordering::SeqCst);
    while let Some(task) = tasks.join_next().await {
        task.unwrap();
    }
    println!("{} grants, disjoint", check(&history));
}

fn set() -> Arc<ReplicaSet> {
    Arc::new(ReplicaSet::start(&Settings::default()).expect("one was started before"))
}

pub(crate) fn a_killed_primary_costs_no_exclusion() {
    run(async {
        lose_primaries(blocking(set).await, |set| {
            let primary = set.primary().expect("it has one");
            set.members()[primary].kill().expect("it runs");
            primary
        })
        .await;
    });
}

pub(crate) fn a_primary_that_steps_down_costs_no_lock() {
    run(async {
        lose_primaries(blocking(set).await, |set| set.step_down(Duration::from_secs(5)).expect("it does"))
            .await;
    });
}
