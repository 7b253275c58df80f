//! A replica set of three members that loses its primary under load.

use std::sync::Arc;
use std::time::Duration;

use lock_conformance::Data;
use lock_conformance::contention::{Contenders, KeptLocks};
use lock_conformance::timing::{released, still_held};
use lock_core::{Client, Options};
use lock_test_servers::{Cluster, MongoDb, Settings};

use crate::server::run;

const TTL: Duration = Duration::from_secs(6);
const LONG: Duration = Duration::from_secs(60);
/// The longest time that a failover may take on a busy machine, in a set whose elections take a second.
const FAILOVER: Duration = Duration::from_secs(20);

async fn client(set: &Cluster) -> Client {
    lock_mongo::connect_with(&set.url(), Options::default()).await.expect("the set has a primary")
}

async fn blocking<T: Send + 'static>(what: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(what).await.unwrap()
}

/// Makes the set lose its primary three times, by `how`. Clients take turns meanwhile, and one client holds a lock
/// throughout.
async fn lose_primaries(set: Arc<Cluster>, how: fn(&Cluster) -> usize) {
    let mut contenders = Contenders::new(TTL, Duration::from_secs(60));
    for n in 0..6 {
        contenders.take_turns(&client(&set).await, &format!("name {}", n % 2));
    }
    let (holder, other) = (client(&set).await, client(&set).await);
    let long = holder.lock("held throughout").ttl(LONG).build().unwrap().acquire().await.unwrap();
    let long = Arc::new(long);
    contenders.contest(&other, &long);
    for round in 0..3 {
        let kept = KeptLocks::begin(client(&set).await, &format!("round {round}")).await;
        let hurt = set.clone();
        let gone = blocking(move || how(&hurt)).await;
        contenders.go_on(4, TTL + FAILOVER).await;
        kept.is_kept(&other).await;
        still_held(&long);
        let healed = set.clone();
        blocking(move || {
            let member = &healed.members()[gone];
            if member.process_id().is_none() {
                member.restart(Data::Kept).expect("the member starts again");
            }
            healed.become_whole().expect("the member finds its set again");
        })
        .await;
    }
    still_held(&long);
    long.renew(LONG).await.unwrap();
    contenders.end().await;
    released(Arc::into_inner(long).expect("the contender for the lock has ended")).await;
}

fn set() -> Arc<Cluster> {
    Arc::new(MongoDb::set(&Settings::default()).expect("such a set was started before"))
}

// Proves: survives-a-server, mongodb-failover, B14, another-server, replica-promoted, elections
pub(crate) fn a_killed_primary_costs_no_exclusion() {
    run(async {
        lose_primaries(blocking(set).await, |set| {
            let primary = set.leader().expect("the set has a primary");
            set.members()[primary].kill().expect("the primary runs");
            primary
        })
        .await;
    });
}

// Proves: mongodb-failover, elections
pub(crate) fn a_primary_that_steps_down_costs_no_lock() {
    run(async {
        lose_primaries(blocking(set).await, |set| {
            MongoDb::step_down(set, Duration::from_secs(5)).expect("it does")
        })
        .await;
    });
}
