//! The attempts that are granted, the moment of the grant, and its token.

use std::time::Duration;

use lock_conformance::Step;
use lock_conformance::proxy::{Direction, Fault, Proxy};
use lock_core::driver::{Attempt, Claim, LossReason, Release, Renewal};
use lock_core::{Client, Effect, ErrorKind, Result};
use lock_mongo::mongodb::bson::{DateTime, Document, doc};
use lock_test_servers::{Clock, MongoDb};

use crate::server::{
    LONG, PATIENCE, Server, busy, claim, claim_with, document, granted, held, key, name, open, run,
    succeeded, until,
};

/// Opens a client behind a proxy, and takes and releases a first lock: the connections and the collection exist then.
pub(crate) async fn through(server: &Server) -> (Proxy, Client) {
    let proxy = Proxy::start(&format!("127.0.0.1:{}", server.0.port())).await.unwrap();
    let client = open(&server.through(proxy.address())).await;
    let mut first = claim(&client, "first", LONG);
    granted(&mut first).await;
    first.release().await.unwrap();
    (proxy, client)
}

/// Sends an attempt that hangs on its way to the server. Connections that are opened later work.
async fn held_up(proxy: &Proxy, claim: &mut Box<dyn Claim>) {
    hangs(proxy, claim.attempt()).await;
}

/// Makes a call that hangs on its way to the server. Connections that are opened later work.
pub(crate) async fn hangs<T: std::fmt::Debug>(proxy: &Proxy, call: impl Future<Output = Result<T>>) {
    let held = proxy.count(Fault::Held(Direction::ToServer));
    proxy.hold_open_ones(Direction::ToServer);
    let error = call.await.expect_err("no answer came");
    assert_eq!(error.kind(), ErrorKind::Unavailable { effect: Effect::Unknown }, "{error:?}");
    let is_held = || async { proxy.count(Fault::Held(Direction::ToServer)) > held };
    until("the request is on its way", Duration::from_secs(5), is_held).await;
}

// Proves: request-late
/// A standalone server does not number requests: only the deadline protects.
pub(crate) fn a_late_attempts_deadline_refuses_it_without_trace() {
    run(async {
        let server = Server::start(&MongoDb::Standalone, &["--setParameter", "ttlMonitorEnabled=false"]);
        let (proxy, client) = through(&server).await;
        let locks = server.locks().await;
        let mut late = claim_with(&client, "a", LONG, Duration::from_millis(500));
        held_up(&proxy, &mut late).await;
        assert_eq!(late.release().await.unwrap(), Release::NotHeld);
        proxy.deliver(Direction::ToServer);
        let left = std::cell::RefCell::default();
        until("it was refused", LONG, || async {
            left.replace(document(&locks, "a").await);
            left.borrow().is_some()
        })
        .await;
        let left = left.take().unwrap();
        assert!(left.get("owner").is_none() && left.get("token").is_none(), "{left}");
        server.admin(doc! { "setParameter": 1, "ttlMonitorEnabled": true }).await;
        until("what it left is gone", LONG, || async { document(&locks, "a").await.is_none() }).await;
    });
}

// Proves: request-late
/// The clock is set back while the attempt is on its way, so that its deadline lies an hour ahead.
pub(crate) fn a_late_attempt_is_refused_by_its_number() {
    run(async {
        let server = Server::start_with(&MongoDb::Set, &[], Clock::Own);
        let (proxy, client) = through(&server).await;
        let locks = server.locks().await;
        // Another client has held the lock before, so that the release finds the document.
        granted(&mut claim(&open(server.0.url()).await, "a", Duration::from_millis(100))).await;
        let mut late = claim(&client, "a", LONG);
        held_up(&proxy, &mut late).await;
        assert_eq!(late.release().await.unwrap(), Release::NotHeld);
        server.0.step_clock(Step::Back(Duration::from_secs(3600))).unwrap();
        server.0.step_clock(Step::Forward(Duration::from_secs(1800))).unwrap();
        let refused = || async {
            let status = server.admin(doc! { "serverStatus": 1 }).await;
            let commands = status.get_document("metrics").unwrap().get_document("commands").unwrap();
            commands.get_document("findAndModify").unwrap().get_i64("failed").unwrap()
        };
        let before = refused().await;
        let free = doc! { "$set": { "expires": DateTime::from_millis(1) } };
        locks.update_one(doc! { "_id": key("a") }, free).await.unwrap();
        proxy.deliver(Direction::ToServer);
        until("it was refused", LONG, || async { refused().await > before }).await;
        let left = document(&locks, "a").await.unwrap();
        assert_eq!(left.get_datetime("expires").unwrap().timestamp_millis(), 1, "{left}");
    });
}

pub(crate) fn an_attempt_with_a_stale_estimate_is_resent() {
    run(async {
        let server = Server::start_with(&MongoDb::Set, &[], Clock::Own);
        let client = server.client().await;
        granted(&mut claim(&client, "a", LONG)).await;
        server.0.step_clock(Step::Forward(Duration::from_secs(3600))).unwrap();
        granted(&mut claim(&client, "b", LONG)).await;
    });
}

// Proves: statement-undone
/// The first document of a name is created by an upsert, and two upserts at the same time collide.
pub(crate) fn of_many_claims_that_create_a_document_one_wins() {
    run(async {
        let server = Server::start(&MongoDb::Set, &[]);
        let mut clients = Vec::new();
        for _ in 0..4 {
            clients.push(server.client().await);
        }
        for n in 0..50 {
            let mut tasks = tokio::task::JoinSet::new();
            for contender in 0..8 {
                let mut claim = claim(&clients[contender % 4], &format!("name {n}"), LONG);
                tasks.spawn(async move { claim.attempt().await.expect("a collision is no error") });
            }
            let outcomes = tasks.join_all().await;
            let winners = outcomes.iter().filter(|outcome| matches!(outcome, Attempt::Granted(_))).count();
            assert_eq!(winners, 1, "{outcomes:?}");
        }
        // Newer servers repeat the upsert by themselves, so the error is also injected.
        let key = doc! { "keyPattern": { "_id": 1 }, "keyValue": { "_id": "one more" } };
        let collision = doc! { "failCommands": ["findAndModify"], "errorCode": 11000, "errorExtraInfo": key };
        server
            .admin(doc! { "configureFailPoint": "failCommand", "mode": { "times": 1 }, "data": collision })
            .await;
        granted(&mut claim(&clients[0], "one more", LONG)).await;
    });
}

/// No other client has taken the lock meanwhile, but one could have taken and released it.
pub(crate) fn a_lease_that_has_ended_is_not_brought_back() {
    run(async {
        let server = Server::start(&MongoDb::Set, &[]);
        let client = server.client().await;
        let mut ended = claim(&client, "a", Duration::from_millis(100));
        granted(&mut ended).await;
        until("it has ended", LONG, || async {
            client.driver().inspect(&name("a"), PATIENCE).await.unwrap().holder.is_none()
        })
        .await;
        assert_eq!(ended.renew(LONG).await.unwrap(), Renewal::Lost(LossReason::Gone));
        assert_eq!(ended.release().await.unwrap(), Release::NotHeld);
    });
}

pub(crate) fn a_busy_look_is_not_in_the_oplog() {
    run(async {
        let server = Server::start(&MongoDb::Set, &[]);
        let (ours, theirs) = (server.client().await, server.client().await);
        granted(&mut claim(&theirs, "a", LONG)).await;
        let raw = server.raw().await;
        let oplog = raw.database("local").collection::<Document>("oplog.rs");
        let entries =
            || async { oplog.count_documents(doc! { "ns": "onelock.onelock_locks" }).await.unwrap() };
        let mut other = claim(&ours, "a", LONG);
        let before = entries().await;
        for _ in 0..20 {
            let holder = busy(&mut other).await.holder;
            assert!(holder.is_some(), "the answer shows the holder");
        }
        assert_eq!(entries().await, before);
    });
}

// Proves: answer-lost
/// The `mongodb` crate repeats a write that it takes for not done. The server then answers with what it recorded for
/// the first one: the document, without the server's time.
pub(crate) fn an_answer_that_the_server_kept_is_understood() {
    run(async {
        let server = Server::start(&MongoDb::Set, &[]);
        let client = server.client().await;
        let twice = || sent_twice(&server);
        let mut claim = claim(&client, "a", LONG);
        twice().await;
        let grant = granted(&mut claim).await;
        assert!(grant.valid_for > LONG / 2 && grant.valid_for <= LONG + PATIENCE, "{grant:?}");
        assert_eq!(granted(&mut claim).await.token, grant.token, "it is the same grant");
        twice().await;
        assert!(
            matches!(claim.renew(LONG).await.unwrap(), Renewal::Held { valid_for, .. } if valid_for > LONG / 2)
        );
        twice().await;
        assert_eq!(claim.release().await.unwrap(), Release::Released { others: Some(false) });
        assert_eq!(claim.release().await.unwrap(), Release::NotHeld);
    });
}

/// Makes the server deny the next write that it carries out, so that the `mongodb` crate sends it again.
pub(crate) async fn sent_twice(server: &Server) {
    let done_and_denied = doc! {
        "failCommands": ["findAndModify"],
        "writeConcernError": { "code": 64, "errmsg": "so it says", "errorLabels": ["RetryableWriteError"] },
    };
    let fail = doc! { "configureFailPoint": "failCommand", "mode": { "times": 1 }, "data": done_and_denied };
    server.admin(fail).await;
}

pub(crate) fn every_write_waits_for_a_majority_and_its_journal() {
    run(async {
        let server = Server::start(&MongoDb::Set, &[]);
        let client = server.client().await;
        let database = server.raw().await.database("onelock");
        database.run_command(doc! { "profile": 2 }).await.unwrap();
        let mut claim = claim(&client, "a", LONG);
        granted(&mut claim).await;
        claim.renew(LONG).await.unwrap();
        claim.release().await.unwrap();
        let (_, named, _) = held(&client, "a", LONG).await;
        succeeded(&mut self::claim(&client, "a", LONG), &named).await;
        let profile = database.collection::<Document>("system.profile");
        let mut writes = profile.find(doc! { "command.findAndModify": "onelock_locks" }).await.unwrap();
        let mut seen = 0;
        while writes.advance().await.unwrap() {
            let write = writes.deserialize_current().unwrap();
            let concern = write.get_document("command").unwrap().get_document("writeConcern").unwrap();
            assert_eq!((concern.get_str("w"), concern.get_bool("j")), (Ok("majority"), Ok(true)), "{write}");
            seen += 1;
        }
        assert_eq!(seen, 5);
    });
}

// Proves: majority-silent
pub(crate) fn what_a_majority_has_not_acknowledged_is_unknown() {
    run(async {
        let server = Server::start(&MongoDb::Set, &[]);
        let client = server.client().await;
        let denied = doc! {
            "failCommands": ["findAndModify"],
            "writeConcernError": { "code": 64, "errmsg": "waiting for replication timed out" },
        };
        server
            .admin(doc! { "configureFailPoint": "failCommand", "mode": { "times": 1 }, "data": denied })
            .await;
        let mut claim = claim(&client, "a", LONG);
        let error = claim.attempt().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable { effect: Effect::Unknown }, "{error:?}");
        assert!(error.message().contains("majority"), "{error}");
        assert!(
            document(&server.locks().await, "a").await.unwrap().get("owner").is_some(),
            "the attempt was carried out"
        );
        assert_eq!(claim.release().await.unwrap(), Release::Released { others: Some(false) });
    });
}
