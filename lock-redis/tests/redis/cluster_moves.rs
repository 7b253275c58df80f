//! Slots that move under locks of every layout.

use std::collections::BTreeSet;
use std::time::Duration;

use lock_conformance::timing::{until, within};
use lock_core::driver::{Release, Renewal};
use lock_test_servers::{RedisCluster, Settings};

use crate::cluster::slot;
use crate::server::{claim, granted, raw_at, run_within};

const LIMIT: Duration = Duration::from_secs(90);
const SOON: Duration = Duration::from_secs(5);
const TTL: Duration = Duration::from_secs(20);
const LAYOUTS: [&str; 4] = ["", "?fair=true&grace=60s", "?layout=redisson", "?layout=redisson&fenced=1"];

/// The progress of the slot's move when the lock is released.
#[derive(Clone, Copy, Debug)]
enum Stage {
    Begun,
    LockMoved,
    AllButLockMoved,
}

/// The keys of a lock are at two members then.
pub(crate) fn a_lock_whose_slot_moves_is_renewed_and_released() {
    run_within(LIMIT, async {
        // No replica takes the place of a primary that a busy machine lets wait.
        let args = ["--cluster-node-timeout", "15000"].map(str::to_owned).to_vec();
        let cluster = RedisCluster::start(&Settings { args, ..Settings::default() }).unwrap();
        let (slot, mut round) = (slot("n"), 0);
        // The other members learn of a move later.
        let mut from = cluster.primary_of(slot, 0).unwrap();
        for layout in LAYOUTS {
            let client = lock_redis::connect(&cluster.url(layout)).await.unwrap();
            let other = lock_redis::connect(&cluster.url(layout)).await.unwrap();
            for stage in [Stage::Begun, Stage::LockMoved, Stage::AllButLockMoved] {
                round += 1;
                let what = format!("{layout:?}, {stage:?}");
                let to = (from + 1) % 3;
                let mut holder = claim(&client, "n", 20_000);
                granted(&mut holder).await;
                // The keys of a fair lock's queue are there.
                let mut waiter = claim(&other, "n", 20_000);
                drop(waiter.attempt().await.unwrap());
                waiter.listen().await.unwrap();
                cluster.begin_to_move(slot, from, to).unwrap();
                for key in cluster.keys_of(slot, from).unwrap() {
                    if (key == "n") == matches!(stage, Stage::LockMoved) && !matches!(stage, Stage::Begun) {
                        cluster.move_key(&key, from, to).unwrap();
                    }
                }
                let renewed = holder.renew(TTL).await;
                assert!(matches!(renewed, Ok(Renewal::Held { .. })), "{what}: {renewed:?}");
                let released = holder.release().await;
                assert!(matches!(released, Ok(Release::Released { .. })), "{what}: {released:?}");
                let at = raw_at(cluster.members()[from].url()).await.ask::<Vec<String>>(&["KEYS", "n"]).await;
                assert!(at.is_empty(), "{what}");
                within(&format!("{what}: the waiter is told"), SOON, waiter.changed()).await;
                for key in cluster.keys_of(slot, from).unwrap() {
                    cluster.move_key(&key, from, to).unwrap();
                }
                cluster.end_to_move(slot, from, to).unwrap();
                every_member_knows_the_epoch_of(&cluster, to).await;
                granted(&mut waiter).await;
                waiter.release().await.unwrap();
                from = to;
            }
        }
        assert_eq!(round, 12);
    });
}

/// Waits until all members know the epoch with which this one has taken the slot. Before that, the next member to take it
/// would claim it with too low an epoch: the others would have it give the slot back, and lead clients in a circle.
async fn every_member_knows_the_epoch_of(cluster: &RedisCluster, member: usize) {
    let id: String = raw_at(cluster.members()[member].url()).await.ask(&["CLUSTER", "MYID"]).await;
    until("the epoch is known", SOON, async || {
        let mut epochs = BTreeSet::new();
        for asked in cluster.members() {
            let nodes: String = raw_at(asked.url()).await.ask(&["CLUSTER", "NODES"]).await;
            let line = nodes.lines().find(|line| line.starts_with(&id));
            epochs.insert(line.and_then(|line| line.split(' ').nth(6)).map(str::to_owned));
        }
        epochs.len() == 1
    })
    .await;
}
