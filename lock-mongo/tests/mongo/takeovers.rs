//! Takeovers: the lock goes to another owner of the same client, and is not free in between.

use std::time::Duration;

use lock_conformance::Step;
use lock_conformance::proxy::Direction;
use lock_core::driver::{LossReason, Predecessor, Release, Renewal, Revocation, Takeover, When};
use lock_core::{Client, Effect, ErrorKind, Label, Owner, OwnerBytes, Random};
use lock_mongo::mongodb::bson::doc;
use lock_test_servers::{Clock, MongoDb, Product};

use crate::grant::{hangs, sent_twice, through};
use crate::server::{
    LONG, PATIENCE, Server, busy, claim, claim_with, document, granted, held, key, name, open, run,
    succeeded, until,
};

pub(crate) fn a_takeover_has_its_own_token_and_lease() {
    run(async {
        for product in [&MongoDb::Set as &'static dyn Product, &MongoDb::Standalone] {
            let server = Server::start(product, &[]);
            let (client, locks) = (server.client().await, server.locks().await);
            let (mut before, named, first) = held(&client, "a", LONG).await;
            let older = vec![doc! { "$set": {
                "expires": { "$add": ["$$NOW", 2_000] }, "token": { "$subtract": ["$token", 1_000_000_i64] },
                "label": "before",
            } }];
            locks.update_one(doc! { "_id": key("a") }, older).await.unwrap();
            let mut after = claim(&client, "a", LONG);
            let (grant, others) = succeeded(&mut after, &named).await;
            assert!(grant.token > first.token, "{grant:?} after {first:?}: it follows the clock");
            assert!(grant.valid_for > LONG / 2 && grant.valid_for <= LONG, "{grant:?}");
            assert_eq!(others, Some(false));
            let left = document(&locks, "a").await.unwrap();
            let token = i64::try_from(grant.token.get()).unwrap();
            assert_eq!((left.get_str("label"), left.get_i64("token")), (Ok("$owner"), Ok(token)), "{left}");
            let forget = left.get_datetime("forget").unwrap().timestamp_millis();
            assert_eq!(forget, token / 1000 + 24 * 3600 * 1000, "a day after its token");
            assert_eq!(before.renew(LONG).await.unwrap(), Renewal::Lost(LossReason::Taken));
            assert_eq!(before.release().await.unwrap(), Release::NotHeld);
            assert_eq!(granted(&mut after).await.token, grant.token, "an attempt finds the lock its own");
            assert_eq!(after.release().await.unwrap(), Release::Released { others: Some(false) });

            let (_, named, _) = held(&client, "a", LONG).await;
            let ahead = vec![doc! { "$set": { "token": { "$add": ["$token", 3_600_000_000_i64] } } }];
            locks.update_one(doc! { "_id": key("a") }, ahead).await.unwrap();
            let ahead = document(&locks, "a").await.unwrap().get_i64("token").unwrap().unsigned_abs();
            let (grant, _) = succeeded(&mut claim(&client, "a", LONG), &named).await;
            assert_eq!(grant.token.get(), ahead + 1, "it follows a token that is ahead of the clock");
        }
    });
}

pub(crate) fn a_predecessor_without_the_lock_has_no_successor() {
    run(async {
        let server = Server::start(&MongoDb::Set, &[]);
        let (client, locks) = (server.client().await, server.locks().await);
        let (mut before, named, _) = held(&client, "a", LONG).await;
        let ended = vec![doc! { "$set": { "expires": { "$subtract": ["$$NOW", 1] } } }];
        locks.update_one(doc! { "_id": key("a") }, ended).await.unwrap();
        changes_nothing(&server, &client, &named, "its lease has ended").await;
        before.release().await.unwrap();
        changes_nothing(&server, &client, &named, "it has released the lock").await;
        granted(&mut claim(&client, "a", LONG)).await;
        changes_nothing(&server, &client, &named, "another owner holds the lock").await;
        locks.delete_one(doc! { "_id": key("a") }).await.unwrap();
        changes_nothing(&server, &client, &named, "there is no document").await;
        for when in [When::HoldersDeadline, When::Now] {
            let (_, named, _) = held(&client, "a", LONG).await;
            let revoked = OwnerBytes::new(named.owner.as_bytes().to_vec());
            let by = Owner::mint(&Random::system());
            let revocation = Revocation::new(revoked, by, Label::new("ops"), when, PATIENCE);
            client.driver().revoke(&name("a"), revocation).await.unwrap();
            changes_nothing(&server, &client, &named, &format!("revoked, {when:?}")).await;
            locks.delete_one(doc! { "_id": key("a") }).await.unwrap();
        }
    });
}

async fn changes_nothing(server: &Server, client: &Client, named: &Predecessor, why: &str) {
    let locks = server.locks().await;
    let before = document(&locks, "a").await;
    let outcome = claim(client, "a", LONG).take_over(named).await.unwrap();
    assert_eq!(outcome, Takeover::NotHeld, "{why}");
    assert_eq!(document(&locks, "a").await, before, "{why}");
}

/// A standalone server does not number requests: only the deadline protects. The predecessor still holds the lock.
pub(crate) fn a_late_one_is_refused_by_its_deadline() {
    run(async {
        let server = Server::start(&MongoDb::Standalone, &[]);
        let (proxy, client) = through(&server).await;
        let locks = server.locks().await;
        let (mut before, named, first) = held(&client, "a", LONG).await;
        let mut late = claim_with(&client, "a", LONG, Duration::from_millis(500));
        hangs(&proxy, late.take_over(&named)).await;
        assert_eq!(late.release().await.unwrap(), Release::NotHeld);
        let asked = matched(&server).await;
        proxy.deliver(Direction::ToServer);
        until("it was carried out", LONG, || async { matched(&server).await > asked }).await;
        let left = document(&locks, "a").await.unwrap();
        assert_eq!(left.get_i64("token").unwrap().unsigned_abs(), first.token.get(), "{left}");
        assert!(matches!(before.renew(LONG).await.unwrap(), Renewal::Held { .. }));
    });
}

/// Returns how many `findAndModify` commands the server has ended.
async fn matched(server: &Server) -> i64 {
    let status = server.admin(doc! { "serverStatus": 1 }).await;
    let commands = status.get_document("metrics").unwrap().get_document("commands").unwrap();
    commands.get_document("findAndModify").unwrap().get_i64("total").unwrap()
}

/// The clock is set back while the takeover is on its way, so that its deadline lies an hour ahead.
pub(crate) fn a_late_one_is_refused_by_its_number() {
    run(async {
        let server = Server::start_with(&MongoDb::Set, &[], Clock::Own);
        let (proxy, client) = through(&server).await;
        let locks = server.locks().await;
        let (_, named, first) = held(&open(server.0.url()).await, "a", LONG).await;
        let mut late = claim(&client, "a", LONG);
        hangs(&proxy, late.take_over(&named)).await;
        // The attempt that follows has a higher number in the same session.
        busy(&mut late).await;
        server.0.step_clock(Step::Back(Duration::from_secs(3600))).unwrap();
        let refused = || async {
            let status = server.admin(doc! { "serverStatus": 1 }).await;
            let commands = status.get_document("metrics").unwrap().get_document("commands").unwrap();
            commands.get_document("findAndModify").unwrap().get_i64("failed").unwrap()
        };
        let before = refused().await;
        proxy.deliver(Direction::ToServer);
        until("it was refused", LONG, || async { refused().await > before }).await;
        let left = document(&locks, "a").await.unwrap();
        assert_eq!(left.get_i64("token").unwrap().unsigned_abs(), first.token.get(), "{left}");
    });
}

pub(crate) fn one_refused_for_an_old_estimate_is_sent_again() {
    run(async {
        let server = Server::start_with(&MongoDb::Set, &[], Clock::Own);
        let client = server.client().await;
        let (_, named, _) = held(&client, "a", LONG).await;
        // Its deadline is in the past, but the refusal tells the server's time. The lease of the predecessor goes on.
        server.0.step_clock(Step::Forward(LONG / 2)).unwrap();
        succeeded(&mut claim(&client, "a", LONG), &named).await;
        // Now the lease has ended as well.
        let (_, named, _) = held(&client, "b", LONG).await;
        server.0.step_clock(Step::Forward(LONG * 2)).unwrap();
        assert_eq!(claim(&client, "b", LONG).take_over(&named).await.unwrap(), Takeover::NotHeld);
    });
}

/// The second one finds no document of the predecessor's, and the server answers with what it recorded for
/// the first one.
pub(crate) fn an_answer_that_the_server_kept_is_understood() {
    run(async {
        let server = Server::start(&MongoDb::Set, &[]);
        let client = server.client().await;
        let (_, named, _) = held(&client, "a", LONG).await;
        let mut after = claim(&client, "a", LONG);
        sent_twice(&server).await;
        let (grant, others) = succeeded(&mut after, &named).await;
        assert!(grant.valid_for > LONG / 2 && grant.valid_for <= LONG + PATIENCE, "{grant:?}");
        assert_eq!(others, Some(false));
        assert_eq!(granted(&mut after).await.token, grant.token, "it is the same grant");
    });
}

pub(crate) fn what_a_majority_has_not_acknowledged_is_unknown() {
    run(async {
        let server = Server::start(&MongoDb::Set, &[]);
        let client = server.client().await;
        let (mut before, named, first) = held(&client, "a", LONG).await;
        let denied = doc! {
            "failCommands": ["findAndModify"],
            "writeConcernError": { "code": 64, "errmsg": "waiting for replication timed out" },
        };
        server
            .admin(doc! { "configureFailPoint": "failCommand", "mode": { "times": 1 }, "data": denied })
            .await;
        let mut after = claim(&client, "a", LONG);
        let error = after.take_over(&named).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable { effect: Effect::Unknown }, "{error:?}");
        // The two calls that follow: the takeover was carried out.
        assert_eq!(before.release().await.unwrap(), Release::NotHeld);
        assert!(granted(&mut after).await.token > first.token);
    });
}

pub(crate) fn a_takeover_wakes_no_waiter_but_its_release_does() {
    run(async {
        let server = Server::start(&MongoDb::Set, &[]);
        let (ours, theirs) = (server.client().await, server.client().await);
        let locks = server.locks().await;
        let mark = async || document(&locks, "a").await.unwrap().get_datetime("waiting").ok().copied();
        let (_, named, _) = held(&theirs, "a", LONG).await;
        let mut waiter = claim(&ours, "a", LONG);
        busy(&mut waiter).await;
        waiter.listen().await.unwrap();
        busy(&mut waiter).await;
        while tokio::time::timeout(Duration::from_millis(300), waiter.changed()).await.is_ok() {}
        let marked = mark().await;
        let mut after = claim(&theirs, "a", LONG);
        let (_, others) = succeeded(&mut after, &named).await;
        assert_eq!((others, mark().await), (Some(true), marked), "the mark stays as it is");
        let no_news = tokio::time::timeout(Duration::from_millis(300), waiter.changed()).await;
        assert!(no_news.is_err(), "the lock was not free");
        assert_eq!(after.release().await.unwrap(), Release::Released { others: Some(true) });
        let woken = tokio::time::timeout(Duration::from_secs(5), waiter.changed()).await;
        assert!(woken.is_ok(), "the release wakes the waiter");
    });
}
