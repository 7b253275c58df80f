//! Wake-ups.

use std::time::Duration;

use lock_core::driver::{Claim, Release, Renewal, Revocation, Wakes, When};
use lock_core::{ErrorKind, Label, Owner, Random};
use lock_mongo::mongodb::bson::{DateTime, doc};
use lock_test_servers::{MongoDb, Product};

use crate::server::{
    LONG, PATIENCE, Server, busy, claim, claim_with, document, granted, key, name, run, until,
};

async fn woken(claim: &mut Box<dyn Claim>) -> bool {
    tokio::time::timeout(Duration::from_secs(5), claim.changed()).await.is_ok()
}

/// Consumes the wake-ups that the claim has so far.
async fn calm(claim: &mut Box<dyn Claim>) {
    while tokio::time::timeout(Duration::from_millis(300), claim.changed()).await.is_ok() {}
}

/// Returns how many change streams are open on the server.
async fn streams(server: &Server) -> usize {
    let status = server.admin(doc! { "serverStatus": 1 }).await;
    let cursors =
        status.get_document("metrics").unwrap().get_document("cursor").unwrap().get_document("open").unwrap();
    usize::try_from(cursors.get_i64("total").unwrap()).unwrap()
}

pub(crate) fn a_release_and_a_revoke_wake_listeners() {
    run(async {
        let server = Server::start(&MongoDb::Set, &[]);
        let (ours, theirs) = (server.client().await, server.client().await);
        for label in ["", "a longer one, so that a change is stored in another way"] {
            let lock = format!("a {label}");
            let mut holder = claim(&theirs, &lock, LONG);
            let mut waiter = claim(&ours, &lock, LONG);
            granted(&mut holder).await;
            busy(&mut waiter).await;
            waiter.listen().await.unwrap();
            calm(&mut waiter).await;
            assert!(matches!(holder.renew(LONG).await.unwrap(), Renewal::Held { .. }));
            assert!(
                tokio::time::timeout(Duration::from_millis(300), waiter.changed()).await.is_err(),
                "a renewal wakes no waiter"
            );
            holder.release().await.unwrap();
            assert!(woken(&mut waiter).await, "a release wakes the waiter");
            granted(&mut waiter).await;

            busy(&mut holder).await;
            holder.listen().await.unwrap();
            calm(&mut holder).await;
            let seen = theirs.driver().inspect(&name(&lock), PATIENCE).await.unwrap().holder.unwrap();
            let by = Owner::mint(&Random::system());
            let revocation = Revocation::new(seen.owner, by, Label::new("x"), When::Now, PATIENCE);
            theirs.driver().revoke(&name(&lock), revocation).await.unwrap();
            assert!(woken(&mut holder).await, "a revoke wakes the waiter");
            granted(&mut holder).await;

            busy(&mut waiter).await;
            waiter.listen().await.unwrap();
            calm(&mut waiter).await;
            server.locks().await.delete_one(doc! { "_id": key(&lock) }).await.unwrap();
            assert!(woken(&mut waiter).await, "an administrator's delete wakes the waiter");
        }
        assert_eq!(ours.info().wakes, Wakes::Pushed);
    });
}

// Proves: flushed-or-killed
pub(crate) fn a_stream_that_was_killed_is_opened_again() {
    run(async {
        let server = Server::start(&MongoDb::Set, &[]);
        let (ours, theirs) = (server.client().await, server.client().await);
        let mut holder = claim(&theirs, "a", LONG);
        let mut waiter = claim(&ours, "a", LONG);
        granted(&mut holder).await;
        busy(&mut waiter).await;
        waiter.listen().await.unwrap();
        for _ in 0..3 {
            server.admin(doc! { "killAllSessions": [] }).await;
            // The `mongodb` crate resumes the stream after this. Only the dropped collection, below, ends it for good.
        }
        server.locks().await.drop().await.unwrap();
        granted(&mut claim(&theirs, "a", LONG)).await;
        until("it is open again", LONG, || async { streams(&server).await > 0 }).await;
        calm(&mut waiter).await;
        let seen = theirs.driver().inspect(&name("a"), PATIENCE).await.unwrap().holder.unwrap();
        let revocation =
            Revocation::new(seen.owner, Owner::mint(&Random::system()), Label::new("x"), When::Now, PATIENCE);
        theirs.driver().revoke(&name("a"), revocation).await.unwrap();
        assert!(woken(&mut waiter).await);
        granted(&mut waiter).await;
    });
}

pub(crate) fn without_listeners_there_is_no_stream() {
    run(async {
        let server = Server::start(&MongoDb::Set, &[]);
        let client = server.client().await;
        granted(&mut claim(&client, "held", LONG)).await;
        let mut waiter = claim(&client, "held", LONG);
        assert_eq!(streams(&server).await, 0);
        waiter.listen().await.unwrap();
        assert_eq!(streams(&server).await, 1, "one stream serves all claims");
        let mut another = claim(&client, "other", LONG);
        another.listen().await.unwrap();
        assert_eq!(streams(&server).await, 1);
        drop((waiter, another));
        until("it is closed", LONG, || async { streams(&server).await == 0 }).await;
        let mut again = claim(&client, "held", LONG);
        again.listen().await.unwrap();
        assert_eq!(streams(&server).await, 1);
    });
}

pub(crate) fn a_standalone_server_is_looked_at() {
    run(async {
        let server = Server::start(&MongoDb::Standalone, &[]);
        let client = server.client().await;
        assert_eq!(client.info().wakes, Wakes::Polled);
        assert_eq!(claim(&client, "a", LONG).listen().await.unwrap_err().kind(), ErrorKind::Unsupported);
        assert!(client.info().data_loss.contains("standalone"));
    });
}

pub(crate) fn a_release_knows_whether_others_wait() {
    run(async {
        for product in [&MongoDb::Set as &'static dyn Product, &MongoDb::Standalone] {
            let server = Server::start(product, &[]);
            let (ours, theirs) = (server.client().await, server.client().await);
            let (mut holder, mut waiter) = (claim(&theirs, "a", LONG), claim(&ours, "a", LONG));
            granted(&mut holder).await;
            busy(&mut waiter).await;
            assert_eq!(holder.release().await.unwrap(), Release::Released { others: Some(false) });
            let mut holder = claim(&theirs, "a", LONG);
            granted(&mut holder).await;
            assert_eq!(marked(&server).await, None, "a claim that only looks leaves no mark");

            wait_for(&mut waiter).await;
            let mark = marked(&server).await.expect("a waiter leaves a mark");
            listen(&mut claim(&ours, "a", LONG)).await;
            assert_eq!(marked(&server).await, Some(mark), "a fresh mark is not written again");
            let before = updates(&server).await;
            wait_for(&mut claim(&ours, "a", LONG)).await;
            busy(&mut waiter).await;
            assert_eq!(updates(&server).await, before, "a waiter that sees a mark writes none");
            assert_eq!(holder.release().await.unwrap(), Release::Released { others: Some(true) });

            let mut holder = claim(&theirs, "a", LONG);
            granted(&mut holder).await;
            assert_eq!(marked(&server).await, Some(mark), "a grant keeps the mark, because others wait too");
            let aged = grow_old(&server).await;
            busy(&mut waiter).await;
            let kept_up = marked(&server).await.unwrap();
            assert!(kept_up > aged, "{kept_up} after {aged}: a waiter that goes on waiting renews the mark");
            holder.release().await.unwrap();
        }
    });
}

/// Waits as the core does: looks, listens if it can, looks again.
async fn wait_for(waiter: &mut Box<dyn Claim>) {
    busy(waiter).await;
    listen(waiter).await;
    busy(waiter).await;
}

async fn listen(waiter: &mut Box<dyn Claim>) {
    if let Err(e) = waiter.listen().await {
        assert_eq!(e.kind(), ErrorKind::Unsupported, "{e:?}");
    }
}

pub(crate) fn waiters_count_releases_and_the_earliest_attempts_first() {
    run(async {
        let server = Server::start(&MongoDb::Set, &[]);
        let (ours, theirs) = (server.client().await, server.client().await);
        let (mut holder, mut waiter) = (claim(&theirs, "a", LONG), claim(&ours, "a", LONG));
        granted(&mut holder).await;
        wait_for(&mut waiter).await;
        let asks = async |waiter: &mut Box<dyn Claim>| {
            let before = asked(&server).await;
            busy(waiter).await;
            let after = asked(&server).await;
            (after.0 - before.0, after.1 - before.1)
        };

        // The first release that it hears, and the last owner had heard eight: most of the others came before it.
        release_and_hold(&server, 8).await;
        assert!(woken(&mut waiter).await, "the release wakes the waiter");
        assert_eq!(asks(&mut waiter).await, (1, 0), "it looks, and finds the lock held");
        assert_eq!(asks(&mut waiter).await, (0, 1), "without another release it asks");

        // The eighth.
        for _ in 0..7 {
            release_and_hold(&server, 8).await;
            assert!(woken(&mut waiter).await, "each release wakes the waiter");
        }
        assert_eq!(asks(&mut waiter).await, (0, 1), "it is its turn: it asks at once");

        // Those in front have gone: it looks, and then takes what is free.
        let mut late = claim(&ours, "a", LONG);
        wait_for(&mut late).await;
        release_and_hold(&server, 8).await;
        assert!(woken(&mut late).await, "the release wakes a waiter");
        release(&server, 8).await;
        granted(&mut late).await;
        drop(waiter);
        late.release().await.unwrap();
        let released = document(&server.locks().await, "a").await.unwrap();
        let heard = released.get_i64("heard").expect("the owner that waited tells what it has heard");
        assert!((1..=2).contains(&heard), "{heard}: the second release may have come before the grant");
        granted(&mut holder).await;
        assert!(document(&server.locks().await, "a").await.unwrap().get("heard").is_none());
    });
}

/// Frees the lock, as an owner does that has heard so many releases while it waited.
async fn release(server: &Server, heard: i64) {
    let freed = doc! { "$set": { "expires": DateTime::from_millis(0), "heard": heard } };
    server.locks().await.update_one(doc! { "_id": key("a") }, freed).await.unwrap();
}

/// The same; then another owner has it.
async fn release_and_hold(server: &Server, heard: i64) {
    release(server, heard).await;
    let held =
        vec![doc! { "$set": { "expires": { "$add": ["$$NOW", 60_000] } } }, doc! { "$unset": "heard" }];
    server.locks().await.update_one(doc! { "_id": key("a") }, held).await.unwrap();
}

/// Returns how many `update` commands the server has received. Attempts, renewals and releases are other commands.
async fn updates(server: &Server) -> i64 {
    server.commands("update").await
}

/// Returns how many looks and how many attempts, renewals or releases the server has received.
async fn asked(server: &Server) -> (i64, i64) {
    (server.commands("find").await, server.commands("findAndModify").await)
}

async fn marked(server: &Server) -> Option<DateTime> {
    document(&server.locks().await, "a").await.unwrap().get_datetime("waiting").ok().copied()
}

/// Sets the mark so that it counts for ten more seconds.
async fn grow_old(server: &Server) -> DateTime {
    let old = vec![doc! { "$set": { "waiting": { "$add": ["$$NOW", 10_000] } } }];
    server.locks().await.update_one(doc! { "_id": key("a") }, old).await.unwrap();
    marked(server).await.unwrap()
}

/// Otherwise each waiter of a document on which a transaction is open would keep a connection.
pub(crate) fn a_mark_waits_for_no_transaction_beyond_its_call() {
    run(async {
        let server = Server::start(&MongoDb::Set, &[]);
        let client = server.client().await;
        granted(&mut claim(&client, "a", LONG)).await;
        let raw = server.raw().await;
        let mut keeper = raw.start_session().await.unwrap();
        keeper.start_transaction().await.unwrap();
        let (kept, locks) = (doc! { "_id": key("a") }, crate::server::locks(&raw));
        locks.update_one(kept, doc! { "$set": { "label": "kept" } }).session(&mut keeper).await.unwrap();
        let mut waiter = claim_with(&client, "a", LONG, PATIENCE / 2);
        let listens = tokio::spawn(async move { waiter.listen().await });
        let marks = async || {
            let operations = doc! { "currentOp": 1, "op": "update", "ns": "onelock.onelock_locks" };
            server.admin(operations).await.get_array("inprog").unwrap().len()
        };
        until("it writes its mark", PATIENCE, async || marks().await == 1).await;
        listens.await.unwrap().expect("the time that is left is enough to listen");
        until("no request waits for the transaction", PATIENCE, async || marks().await == 0).await;
        keeper.abort_transaction().await.unwrap();
    });
}
