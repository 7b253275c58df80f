//! Members of a cluster that are down, or that are not told by their address.

use std::time::Duration;

use lock_core::driver::{Release, Renewal};
use lock_core::{Client, ErrorKind};
use lock_test_servers::{RedisCluster, Settings};

use crate::cluster::{slot, start};
use crate::server::{claim, granted, name, run_within, until};

const LIMIT: Duration = Duration::from_secs(90);
const TTL: Duration = Duration::from_secs(20);
const PATIENCE: Duration = Duration::from_secs(1);

/// A name whose slot this member has, as another one knows it.
fn name_at(cluster: &RedisCluster, member: usize, asked: usize) -> String {
    let mut names = (0..1000).map(|nth| format!("n{nth}"));
    names.find(|name| cluster.primary_of(slot(name), asked).unwrap() == member).unwrap()
}

/// All calls of a lock follow them, while its slot moves and after that.
async fn follows(cluster: &RedisCluster, client: &Client, what: &str) {
    for from in 0..3 {
        let lock = name_at(cluster, from, 0);
        let (slot, to) = (slot(&lock), (from + 1) % 3);
        let mut holder = claim(client, &lock, 20_000);
        granted(&mut holder).await;
        cluster.begin_to_move(slot, from, to).unwrap();
        cluster.move_key(&lock, from, to).unwrap();
        // ASK, then MOVED.
        for moved in [false, true] {
            if moved {
                for key in cluster.keys_of(slot, from).unwrap() {
                    cluster.move_key(&key, from, to).unwrap();
                }
                cluster.end_to_move(slot, from, to).unwrap();
                let shown = client.driver().inspect(&name(&lock), PATIENCE).await.unwrap();
                assert!(shown.holder.is_some(), "{what}");
            }
            let renewed = holder.renew(TTL).await;
            assert!(matches!(renewed, Ok(Renewal::Held { .. })), "{what}, moved: {moved}: {renewed:?}");
        }
        assert!(matches!(holder.release().await.unwrap(), Release::Released { .. }), "{what}");
    }
}

pub(crate) fn redirections_without_a_host_are_followed() {
    run_within(LIMIT, async {
        // An empty host: the one that answered. A question mark: the member has no name, and another may know its address.
        for kind in ["unknown-endpoint", "hostname"] {
            let args = ["--cluster-preferred-endpoint-type", kind].map(str::to_owned).to_vec();
            let cluster = RedisCluster::start(&Settings { args, ..Settings::default() }).unwrap();
            let client = lock_redis::connect(&cluster.url("")).await.unwrap();
            follows(&cluster, &client, kind).await;
        }
    });
}

pub(crate) fn acknowledgements_need_no_member_that_is_down() {
    run_within(LIMIT, async {
        let args = ["--cluster-require-full-coverage", "no"].map(str::to_owned).to_vec();
        let cluster = RedisCluster::start(&Settings { args, ..Settings::default() }).unwrap();
        let lock = name_at(&cluster, 1, 1);
        let down = name_at(&cluster, 0, 1);
        // A primary is gone, and so is its replica.
        cluster.members()[3].kill().unwrap();
        cluster.members()[0].kill().unwrap();
        let client = lock_redis::connect(&cluster.url("?ack=1")).await.expect("the others can be asked");
        let mut holder = claim(&client, &lock, 20_000);
        granted(&mut holder).await;
        assert!(matches!(holder.release().await.unwrap(), Release::Released { .. }));
        let dead = cluster.members()[0].address();
        let error = claim(&client, &down, 20_000).attempt().await.unwrap_err();
        assert!(error.is_transient() && error.message().contains(&dead), "{error}");
        let findings = client.check().await.unwrap();
        assert!(findings.iter().any(|found| found.message.contains(&dead)), "{findings:?}");
        // All lack a replica: the error names each.
        for replica in &cluster.members()[4..] {
            replica.kill().unwrap();
        }
        until("no replica is attached", async || {
            let error = lock_redis::connect(&cluster.url("?ack=1")).await.map(drop);
            error.is_err_and(|error| {
                [1, 2].iter().all(|nth| error.message().contains(&cluster.members()[*nth].address()))
            })
        })
        .await;
    });
}

/// As Redisson itself, which takes such a lock and can't release it.
pub(crate) fn names_that_redisson_keeps_in_two_slots_are_refused() {
    run_within(LIMIT, async {
        let cluster = start();
        for layout in ["?layout=redisson", "?layout=redisson&fenced=1"] {
            let client = lock_redis::connect(&cluster.url(layout)).await.unwrap();
            for lock in ["a{b", "{", "{}", "{}a", "a}b", "}", "}{"] {
                let error = claim(&client, lock, 20_000).attempt().await.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Rejected, "{lock}: {error}");
                assert!(
                    error.message().contains("two slots") && error.message().contains("name"),
                    "{lock}: {error}"
                );
                assert!(
                    client
                        .driver()
                        .inspect(&name(lock), PATIENCE)
                        .await
                        .map_or(true, |shown| shown.holder.is_none())
                );
            }
            for lock in ["a", "{a}", "a{b}c", "{a}}", "jobs:{7}:x", "{{a}}"] {
                let mut holder = claim(&client, lock, 20_000);
                granted(&mut holder).await;
                assert!(matches!(holder.release().await.unwrap(), Release::Released { .. }), "{lock}");
            }
        }
    });
}
