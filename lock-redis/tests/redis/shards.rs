//! Wake-ups on a cluster whose members have sharded channels.

use std::time::Duration;

use lock_conformance::timing::within;
use lock_core::driver::{Attempt, Claim, Finding, Level, Release, Wakes};
use lock_core::{Client, ErrorKind};
use lock_test_servers::{RedisCluster, Settings};

use crate::cluster::{client, slot, start};
use crate::server::{Raw, busy, claim, granted, raw_at, run, until};

const SOON: Duration = Duration::from_secs(5);
const FAIR: &str = "?fair=true&grace=60s";

async fn client_of(cluster: &RedisCluster, rest: &str) -> Client {
    lock_redis::connect(&cluster.url(rest)).await.expect("the cluster can be reached")
}

/// Returns a connection to each member.
async fn members(cluster: &RedisCluster) -> Vec<Raw> {
    let mut members = Vec::new();
    for member in cluster.members() {
        members.push(raw_at(member.url()).await);
    }
    members
}

/// Returns how many connections are subscribed to sharded channels of this member.
pub(crate) async fn listeners(member: &mut Raw) -> u64 {
    let channels: Vec<String> = member.ask(&["PUBSUB", "SHARDCHANNELS"]).await;
    let mut all = 0;
    for channel in channels {
        all += member.ask::<(String, u64)>(&["PUBSUB", "SHARDNUMSUB", &channel]).await.1;
    }
    all
}

/// A waiter that has seen the lock held, and listens.
async fn waits(client: &Client, lock: &str) -> Box<dyn Claim> {
    let mut waiter = claim(client, lock, 60_000);
    assert!(matches!(waiter.attempt().await.unwrap(), Attempt::Busy(_)));
    waiter.listen().await.unwrap();
    waiter
}

async fn woken(what: &str, claim: &mut Box<dyn Claim>) {
    within(what, SOON, claim.changed()).await;
}

pub(crate) fn releases_stay_at_the_members_that_have_the_slot() {
    run(async {
        let cluster = start();
        let mut members = members(&cluster).await;
        let home = cluster.primary_of(slot("n"), 0).unwrap();
        for layout in ["", FAIR, "?layout=redisson"] {
            let (a, b) = (client_of(&cluster, layout).await, client_of(&cluster, layout).await);
            for member in &mut members {
                let _: () = member.ask(&["CONFIG", "RESETSTAT"]).await;
            }
            let mut holder = claim(&a, "n", 20_000);
            granted(&mut holder).await;
            let mut waiter = waits(&b, "n").await;
            assert_eq!(listeners(&mut members[home]).await, 1, "{layout}");
            let released = holder.release().await.unwrap();
            assert_eq!(released, Release::Released { others: Some(true) }, "{layout}");
            woken("the waiter is told", &mut waiter).await;
            granted(&mut waiter).await;
            waiter.release().await.unwrap();
            for (nth, member) in members.iter_mut().enumerate() {
                assert_eq!(member.calls("publish").await, 0, "{layout}: member {nth} passes it on to all");
            }
            assert!(members[home].calls("spublish").await >= 1, "{layout}");
            drop((holder, waiter));
            until("no client listens", async || listeners(&mut members[home]).await == 0).await;
        }
    });
}

pub(crate) fn a_fair_lock_wakes_only_its_first_waiter() {
    run(async {
        let cluster = start();
        let mut holder = claim(&client_of(&cluster, FAIR).await, "n", 60_000);
        granted(&mut holder).await;
        let clients = [client_of(&cluster, FAIR).await, client_of(&cluster, FAIR).await];
        let mut first = waits(&clients[0], "n").await;
        let mut second = waits(&clients[1], "n").await;
        holder.release().await.unwrap();
        woken("the first one is told", &mut first).await;
        granted(&mut first).await;
        // Both have had the message.
        assert!(tokio::time::timeout(Duration::from_millis(50), second.changed()).await.is_err());
        first.release().await.unwrap();
        woken("the second one is told", &mut second).await;
        granted(&mut second).await;
    });
}

fn move_slot(cluster: &RedisCluster, slot: u16, from: usize, to: usize) {
    cluster.begin_to_move(slot, from, to).unwrap();
    for key in cluster.keys_of(slot, from).unwrap() {
        cluster.move_key(&key, from, to).unwrap();
    }
    cluster.end_to_move(slot, from, to).unwrap();
}

pub(crate) fn a_moving_slot_wakes_only_its_waiters() {
    run(async {
        let cluster = start();
        let (a, b) = (client(&cluster).await, client(&cluster).await);
        let mut members = members(&cluster).await;
        let from = cluster.primary_of(slot("n"), 0).unwrap();
        let to = (from + 1) % 3;
        let neighbour = (0..1000)
            .map(|nth| format!("m{nth}"))
            .find(|name| cluster.primary_of(slot(name), 0).unwrap() == from)
            .unwrap();
        let (mut holder, mut beside) = (claim(&a, "n", 20_000), claim(&a, &neighbour, 20_000));
        granted(&mut holder).await;
        granted(&mut beside).await;
        let mut waiter = waits(&b, "n").await;
        let mut unmoved = waits(&b, &neighbour).await;
        move_slot(&cluster, slot("n"), from, to);
        woken("the waiter is told that the slot has moved", &mut waiter).await;
        assert!(tokio::time::timeout(Duration::from_millis(50), unmoved.changed()).await.is_err());
        busy(&mut waiter).await;
        assert_eq!((listeners(&mut members[from]).await, listeners(&mut members[to]).await), (1, 1));
        holder.release().await.unwrap();
        woken("the waiter is told of the release", &mut waiter).await;
        granted(&mut waiter).await;
        beside.release().await.unwrap();
        woken("so is the other one, at the old member", &mut unmoved).await;
    });
}

/// The release is carried out at the member to which the key has gone. The waiter listens at the other one,
/// which has the slot.
pub(crate) fn releasing_a_moving_lock_wakes_its_waiter() {
    run(async {
        let cluster = start();
        let (a, b) = (client(&cluster).await, client(&cluster).await);
        let slot = slot("n");
        let from = cluster.primary_of(slot, 0).unwrap();
        let to = (from + 1) % 3;
        let mut holder = claim(&a, "n", 20_000);
        granted(&mut holder).await;
        let mut waiter = waits(&b, "n").await;
        cluster.begin_to_move(slot, from, to).unwrap();
        for key in cluster.keys_of(slot, from).unwrap() {
            cluster.move_key(&key, from, to).unwrap();
        }
        assert!(matches!(holder.release().await.unwrap(), Release::Released { .. }));
        woken("the waiter is told", &mut waiter).await;
        cluster.end_to_move(slot, from, to).unwrap();
        woken("the waiter is told that the slot has moved", &mut waiter).await;
        granted(&mut waiter).await;
    });
}

pub(crate) fn a_returned_slot_is_listened_to_again() {
    run(async {
        let cluster = start();
        let (a, b) = (client(&cluster).await, client(&cluster).await);
        let mut members = members(&cluster).await;
        let home = cluster.primary_of(slot("n"), 0).unwrap();
        let other = (home + 1) % 3;
        let mut holder = claim(&a, "n", 20_000);
        granted(&mut holder).await;
        let mut waiter = waits(&b, "n").await;
        move_slot(&cluster, slot("n"), home, other);
        // The client has tried to subscribe again, and has given it up.
        let refused = async |member: &mut Raw| {
            let stats: String = member.ask(&["INFO", "commandstats"]).await;
            let line = stats.lines().find(|line| line.starts_with("cmdstat_ssubscribe:")).map(str::to_owned);
            line.is_some_and(|line| !line.contains("rejected_calls=0"))
        };
        until("it was told that the slot is elsewhere", async || refused(&mut members[home]).await).await;
        move_slot(&cluster, slot("n"), other, home);
        woken("the waiter is told that the slot has moved", &mut waiter).await;
        // The first look finds that nothing is reported to the waiter, and the second one changes that.
        busy(&mut waiter).await;
        busy(&mut waiter).await;
        assert_eq!(listeners(&mut members[home]).await, 1);
        holder.release().await.unwrap();
        woken("the waiter is told of the release", &mut waiter).await;
    });
}

async fn found(client: &Client, subject: &str) -> Finding {
    let findings = client.check().await.expect("the cluster can be reached");
    findings.into_iter().find(|finding| finding.subject == subject).expect("one finding per question")
}

pub(crate) fn a_user_without_sharded_channels_releases_and_polls() {
    run(async {
        let cluster = RedisCluster::start(&Settings::default()).expect("another was started before");
        for member in &mut members(&cluster).await {
            let rules = ["~*", "&*", "+@all", "-ssubscribe", "-spublish"];
            let _: () = member.ask(&[&["ACL", "SETUSER", "u", "on", ">secret"], &rules[..]].concat()).await;
        }
        let url = cluster.url("").replace("://", "://u:secret@");
        let client = lock_redis::connect(&url).await.unwrap();
        let (mut holder, mut waiter) = (claim(&client, "n", 20_000), claim(&client, "n", 20_000));
        granted(&mut holder).await;
        busy(&mut waiter).await;
        let error = waiter.listen().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert_eq!(client.info().wakes, Wakes::Polled);
        assert_eq!(holder.release().await.unwrap(), Release::Released { others: None });
        let rights = found(&client, "rights").await;
        assert!(rights.level == Level::Warning && rights.message.contains("+spublish"), "{rights:?}");
        // Revokes do not need them.
        assert_eq!(found(&client, "revokes").await.level, Level::Good);
        granted(&mut waiter).await;
    });
}
