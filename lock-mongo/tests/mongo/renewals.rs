//! Tests of renewals that share a request.

use std::time::{Duration, Instant};

use lock_conformance::assert_in_time;
use lock_conformance::holders::Holders;
use lock_core::driver::LossReason;
use lock_mongo::mongodb::bson::{Bson, DateTime, Document, doc};
use lock_test_servers::{MongoDb, Product};

use crate::server::{LONG, PATIENCE, Server, document, key, run, terms};

pub(crate) fn renewals_in_one_moment_share_requests() {
    const KINDS: [&dyn Product; 2] = [&MongoDb::Set, &MongoDb::Standalone];
    run(async {
        for product in KINDS {
            let server = Server::start(product, &[]);
            let client = server.client().await;
            let holders = Holders::of(&client, 300, terms(LONG, PATIENCE)).await;
            let locks = server.locks().await;
            let earlier = doc! { "$set": { "expires": { "$subtract": ["$expires", 9000] } } };
            locks.update_many(doc! {}, vec![earlier]).await.unwrap();
            let now = DateTime::now().timestamp_millis();
            let (alone, together) = (server.commands("findAndModify").await, server.commands("update").await);
            holders.renew().expect(300, &[]).await;
            let after = DateTime::from_millis(now + 15_000);
            assert_eq!(locks.count_documents(doc! { "expires": { "$gt": after } }).await.unwrap(), 300);
            let alone = server.commands("findAndModify").await - alone;
            let together = server.commands("update").await - together;
            assert!(alone <= 10 && (3..=30).contains(&together), "{alone} alone, {together} together");
        }
    });
}

pub(crate) fn each_batched_renewal_request_has_its_own_answer() {
    run(async {
        let server = Server::start(&MongoDb::Set, &[]);
        let holders = Holders::of(&server.client().await, 12, terms(LONG, PATIENCE)).await;
        let lost =
            [(3, LossReason::Revoked), (5, LossReason::Taken), (7, LossReason::Gone), (9, LossReason::Gone)];
        let locks = server.locks().await;
        let set = async |name, change: Document| {
            locks.update_one(doc! { "_id": key(name) }, vec![doc! { "$set": change }]).await.unwrap();
        };
        set("lock-003", doc! { "revoked": "$owner", "owner": key("another") }).await;
        set("lock-005", doc! { "owner": key("another") }).await;
        locks.delete_one(doc! { "_id": key("lock-007") }).await.unwrap();
        set("lock-009", doc! { "expires": DateTime::from_millis(1) }).await;
        let mut others = Vec::new();
        for name in ["lock-003", "lock-005", "lock-009"] {
            others.push((name, document(&locks, name).await));
        }
        holders.renew().expect(12, &lost).await;
        for (name, before) in others {
            assert_eq!(document(&locks, name).await, before, "what is another's was changed");
        }
        assert_eq!(locks.count_documents(doc! {}).await.unwrap(), 11, "a document was created");
    });
}

pub(crate) fn an_open_transaction_delays_only_its_own_document() {
    run(async {
        let server = Server::start(&MongoDb::Set, &[]);
        let holders = Holders::of(&server.client().await, 40, terms(LONG, PATIENCE)).await;
        let raw = server.raw().await;
        let mut keeper = raw.start_session().await.unwrap();
        keeper.start_transaction().await.unwrap();
        let kept = doc! { "_id": key("lock-020") };
        let locks = crate::server::locks(&raw);
        locks.update_one(kept, doc! { "$set": { "label": "kept" } }).session(&mut keeper).await.unwrap();
        let (began, mut renewing) = (Instant::now(), holders.renew());
        renewing.expect(39, &[]).await;
        // The server works on a shared request for a second at most. The others go by themselves then.
        assert_in_time!(began.elapsed() < Duration::from_secs(3), "the others have waited");
        keeper.commit_transaction().await.unwrap();
        renewing.expect(1, &[]).await;
    });
}

pub(crate) fn a_batched_request_awaits_a_majority_and_its_journal() {
    run(async {
        let server = Server::start(&MongoDb::Set, &[]);
        let holders = Holders::of(&server.client().await, 4, terms(LONG, PATIENCE)).await;
        // The profile of an update has no write concern. The log has it.
        let onelock = server.raw().await.database("onelock");
        onelock.run_command(doc! { "profile": 0, "slowms": -1 }).await.unwrap();
        holders.renew().expect(4, &[]).await;
        let log = server.admin(doc! { "getLog": "global" }).await;
        let lines = log.get_array("log").unwrap().iter().filter_map(Bson::as_str);
        let updates: Vec<_> = lines.filter(|line| line.contains("{\"update\":\"onelock_locks\"")).collect();
        assert!(!updates.is_empty(), "{log}");
        for update in updates {
            assert!(update.contains("\"writeConcern\":{\"w\":\"majority\",\"j\":true"), "{update}");
        }
    });
}

pub(crate) fn what_a_majority_has_not_acknowledged_renews_nothing() {
    run(async {
        let server = Server::start(&MongoDb::Set, &[]);
        let holders = Holders::of(&server.client().await, 12, terms(LONG, PATIENCE)).await;
        let denied = doc! {
            "failCommands": ["update"],
            "writeConcernError": { "code": 64, "errmsg": "waiting for replication timed out" },
        };
        let denied = doc! { "configureFailPoint": "failCommand", "mode": "alwaysOn", "data": denied };
        server.admin(denied).await;
        let alone = server.commands("findAndModify").await;
        holders.renew().expect(12, &[]).await;
        assert_eq!(server.commands("findAndModify").await - alone, 12);
    });
}
