//! Slots that move under locks of every layout.

use std::time::Duration;

use lock_conformance::timing::within;
use lock_core::driver::{Release, Renewal};

use crate::cluster::{slot, start};
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
        let cluster = start();
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
                granted(&mut waiter).await;
                waiter.release().await.unwrap();
                from = to;
            }
        }
        assert_eq!(round, 12);
    });
}
