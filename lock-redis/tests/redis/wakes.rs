//! Wake-ups.

use std::time::{Duration, Instant};

use lock_conformance::assert_in_time;
use lock_conformance::proxy::{Fault, Proxy};
use lock_conformance::timing::within;
use lock_core::driver::{Claim, Release, Revocation, When};
use lock_core::{Client, Label, Owner, Random};

use crate::server::{Raw, Server, busy, claim, claim_with, granted, name, run, until};

/// The shortest time for which a channel without listeners stays subscribed.
const IDLE: Duration = Duration::from_secs(1);

async fn woken(what: &str, claim: &mut Box<dyn Claim>) {
    within(what, Duration::from_secs(5), claim.changed()).await;
}

/// Returns how many connections are subscribed to the lock's channel.
async fn listeners(raw: &Raw, lock: &str) -> u32 {
    let mut raw = raw.clone();
    let channels: Vec<String> = raw.ask(&["PUBSUB", "CHANNELS", &format!("{lock}???:lock~w")]).await;
    let Some(channel) = channels.first() else { return 0 };
    raw.ask::<(String, u32)>(&["PUBSUB", "NUMSUB", channel]).await.1
}

async fn subscription_connections(raw: &Raw) -> usize {
    raw.clone().ask::<String>(&["CLIENT", "LIST", "TYPE", "pubsub"]).await.lines().count()
}

/// Returns how many scripts the server has run for attempts and releases, and how many looks it has answered.
async fn scripts_and_looks(raw: &Raw) -> (u64, u64) {
    let stats: String = raw.clone().ask(&["INFO", "commandstats"]).await;
    let calls = |command: &str| {
        let line = stats.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls=")));
        line.and_then(|line| line.split(',').next()?.parse().ok()).unwrap_or(0)
    };
    (calls("evalsha"), calls("pttl"))
}

/// A release by an owner that had to wait tells how many listen, and each waiter counts the releases since it came.
pub(crate) fn a_waiter_behind_others_looks_before_it_asks() {
    run(async {
        let server = Server::start(&[]);
        let raw = server.raw().await;
        let holders = server.client("").await;
        let (mut first, mut clients) = (claim(&server.client("").await, "a", 20_000), Vec::new());
        let mut holder = claim(&holders, "a", 20_000);
        granted(&mut holder).await;
        busy(&mut first).await;
        first.listen().await.unwrap();
        for _ in 0..4 {
            holder = handed_on(&holders, holder).await;
        }
        for _ in 0..3 {
            let mut later = claim(&server.client("").await, "a", 20_000);
            busy(&mut later).await;
            later.listen().await.unwrap();
            clients.push(later);
        }
        holder = handed_on(&holders, holder).await;
        let mut last = clients.pop().unwrap();
        woken("the release wakes the first waiter", &mut first).await;
        woken("the release wakes the last waiter", &mut last).await;
        let before = scripts_and_looks(&raw).await;
        busy(&mut last).await;
        let between = scripts_and_looks(&raw).await;
        assert_eq!(
            (between.0 - before.0, between.1 - before.1),
            (0, 1),
            "the last one looks, and asks no script"
        );
        busy(&mut first).await;
        let after = scripts_and_looks(&raw).await;
        // Inside of the script there is another PTTL.
        assert_eq!((after.0 - between.0, after.1 - between.1), (1, 1), "the first one asks at once");
        holder.release().await.unwrap();
    });
}

/// The holder releases the lock, and another owner has it, which had to wait for it.
async fn handed_on(client: &Client, mut holder: Box<dyn Claim>) -> Box<dyn Claim> {
    let mut next = claim(client, "a", 20_000);
    busy(&mut next).await;
    holder.release().await.unwrap();
    granted(&mut next).await;
    next
}

pub(crate) fn a_release_and_a_revoke_wake_listeners() {
    run(async {
        let server = Server::start(&[]);
        let (ours, theirs) = (server.client("").await, server.client("").await);
        let mut holder = claim(&theirs, "a", 20_000);
        let mut waiter = claim(&ours, "a", 20_000);
        granted(&mut holder).await;
        busy(&mut waiter).await;
        waiter.listen().await.unwrap();
        assert_eq!(listeners(&server.raw().await, "a").await, 1, "confirmed when listen returns");
        holder.release().await.unwrap();
        woken("the release wakes the waiter", &mut waiter).await;
        let token = granted(&mut waiter).await.token;

        busy(&mut holder).await;
        holder.listen().await.unwrap();
        let shown = ours.driver().inspect(&name("a"), Duration::from_secs(1)).await.unwrap().holder.unwrap();
        assert_eq!(shown.token, Some(token));
        let revocation = Revocation::new(
            shown.owner,
            Owner::mint(&Random::system()),
            Label::new("ops"),
            When::Now,
            Duration::from_secs(1),
        );
        ours.driver().revoke(&name("a"), revocation).await.unwrap();
        woken("the revoke wakes the claim", &mut holder).await;
        granted(&mut holder).await;
    });
}

pub(crate) fn a_release_knows_whether_others_wait() {
    run(async {
        let server = Server::start(&[]);
        let (ours, theirs) = (server.client("").await, server.client("").await);
        let mut holder = claim(&ours, "a", 20_000);
        let mut neighbour = claim(&ours, "a", 20_000);
        let mut stranger = claim(&theirs, "a", 20_000);

        granted(&mut holder).await;
        assert_eq!(holder.release().await.unwrap(), Release::Released { others: Some(false) });
        neighbour.listen().await.unwrap();
        granted(&mut holder).await;
        assert_eq!(
            holder.release().await.unwrap(),
            Release::Released { others: Some(false) },
            "the only listener is this client's"
        );
        stranger.listen().await.unwrap();
        granted(&mut holder).await;
        assert_eq!(holder.release().await.unwrap(), Release::Released { others: Some(true) });
        drop(neighbour);
        granted(&mut holder).await;
        assert_eq!(holder.release().await.unwrap(), Release::Released { others: Some(true) });
    });
}

pub(crate) fn a_holder_takes_no_wake_ups_from_waiters() {
    run(async {
        let server = Server::start(&[]);
        let mut raw = server.raw().await;
        let client = server.client("").await;
        let (mut first, mut second) = (claim(&client, "a", 20_000), claim(&client, "a", 20_000));
        first.listen().await.unwrap();
        second.listen().await.unwrap();
        granted(&mut first).await;
        woken("the claim that stops listening passes its wake-up on", &mut second).await;
        // A holder waits for messages about its own lock.
        let holder = tokio::spawn(async move { first.changed().await });
        for _ in 0..3 {
            let channel: Vec<String> = raw.ask(&["PUBSUB", "CHANNELS", "a*"]).await;
            let _: u32 = raw.ask(&["PUBLISH", &channel[0], "x"]).await;
            woken("a message on the channel", &mut second).await;
        }
        assert!(!holder.is_finished());
    });
}

pub(crate) fn one_connection_serves_all_claims_and_unsubscribes_unused_channels() {
    run(async {
        let server = Server::start(&[]);
        let raw = server.raw().await;
        let client = server.client("").await;
        assert_eq!(subscription_connections(&raw).await, 0, "there is none before a claim listens");
        let locks: Vec<String> = (0..50).map(|n| format!("lock-{n}.")).collect();
        let mut claims: Vec<_> = locks.iter().map(|lock| claim(&client, lock, 20_000)).collect();
        for claim in &mut claims {
            claim.listen().await.unwrap();
        }
        assert_eq!(subscription_connections(&raw).await, 1);
        for lock in &locks {
            assert_eq!(listeners(&raw, lock).await, 1);
        }
        let kept = claims.pop().unwrap();
        let left = Instant::now();
        drop(claims);
        let still = listeners(&raw, "lock-0.").await;
        assert_in_time!(left.elapsed() < IDLE, "the channel may have been unsubscribed before this look");
        assert_eq!(still, 1, "a name that is handed over often is not subscribed anew");
        until("the others are unsubscribed", async || listeners(&raw, "lock-0.").await == 0).await;
        assert_eq!(listeners(&raw, "lock-49.").await, 1, "a claim listens to this one");
        let mut again = claim(&client, "lock-0.", 20_000);
        again.listen().await.unwrap();
        assert_eq!(listeners(&raw, "lock-0.").await, 1);

        drop((kept, again));
        drop(client);
        let alone = async || raw.clone().ask::<String>(&["CLIENT", "LIST"]).await.lines().count() == 1;
        until("the connections end with their client", alone).await;
    });
}

pub(crate) fn frequent_hand_overs_cause_no_new_subscription() {
    run(async {
        let server = Server::start(&[]);
        let mut raw = server.raw().await;
        let client = server.client("").await;
        let _: () = raw.ask(&["CONFIG", "RESETSTAT"]).await;
        let began = Instant::now();
        for _ in 0..20 {
            claim(&client, "a", 20_000).listen().await.unwrap();
            // As long as a lock might be held.
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_in_time!(began.elapsed() < IDLE, "the channel may have been unsubscribed meanwhile");
        assert_eq!(raw.calls("subscribe").await, 1);
    });
}

// Proves: flushed-or-killed
pub(crate) fn a_broken_subscription_is_restored_and_all_listeners_look() {
    run(async {
        let server = Server::start(&[]);
        let mut raw = server.raw().await;
        let proxy = Proxy::start(&format!("127.0.0.1:{}", server.port())).await.unwrap();
        let client = lock_redis::connect(&format!("redis://{}", proxy.address())).await.unwrap();
        let mut holder = claim(&client, "a", 20_000);
        let mut waiter = claim(&client, "a", 20_000);
        granted(&mut holder).await;
        busy(&mut waiter).await;
        waiter.listen().await.unwrap();
        for _ in 0..3 {
            // The gap lasts until the first wake-up was taken: two wake-ups that were not taken yet count as one.
            let refused = proxy.count(Fault::Refused);
            proxy.refuse();
            let killed: u32 = raw.ask(&["CLIENT", "KILL", "TYPE", "pubsub"]).await;
            assert_eq!(killed, 1, "the client has one subscription connection");
            woken("the break wakes the claim, because messages are lost", &mut waiter).await;
            until("the client tries to connect again", async || proxy.count(Fault::Refused) > refused).await;
            proxy.accept();
            until("the channel is subscribed again", async || listeners(&raw, "a").await == 1).await;
            woken("the new connection wakes it once more", &mut waiter).await;
        }
        holder.release().await.unwrap();
        woken("the release wakes the waiter", &mut waiter).await;
        granted(&mut waiter).await;
    });
}

pub(crate) fn a_command_does_not_hide_its_gap() {
    run(async {
        let server = Server::start(&[]);
        let mut raw = server.raw().await;
        let proxy = Proxy::start(&format!("127.0.0.1:{}", server.port())).await.unwrap();
        let client = lock_redis::connect(&format!("redis://{}", proxy.address())).await.unwrap();
        let mut holder = claim(&client, "a", 20_000);
        granted(&mut holder).await;
        holder.watch().await.unwrap();
        let refused = proxy.count(Fault::Refused);
        proxy.refuse();
        let killed: u32 = raw.ask(&["CLIENT", "KILL", "TYPE", "pubsub"]).await;
        assert_eq!(killed, 1, "the client has one subscription connection");
        woken("the break wakes the claim, because messages are lost", &mut holder).await;
        // The feed pauses for longer each time, and in a pause it takes orders for the next connection.
        until("its pauses are long", async || proxy.count(Fault::Refused) >= refused + 4).await;
        proxy.accept();
        claim_with(&client, "b", 20_000, Duration::from_secs(10)).watch().await.unwrap();
        woken("the new connection wakes it once more", &mut holder).await;
    });
}

pub(crate) fn listening_fails_in_time_without_a_server() {
    run(async {
        let server = Server::start(&[]);
        let client = server.client("").await;
        drop(server);
        let error = claim(&client, "a", 20_000).listen().await.unwrap_err();
        assert!(error.is_transient() && !error.may_have_taken_effect(), "{error:?}");
    });
}
