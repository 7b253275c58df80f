//! The documents in the collection.

use std::time::Duration;

use lock_conformance::paging;
use lock_conformance::proxy::Proxy;
use lock_conformance::timing::Answered;
use lock_core::{ErrorKind, Options};
use lock_mongo::mongodb::bson::spec::BinarySubtype;
use lock_mongo::mongodb::bson::{Binary, Bson, DateTime, Document, doc};
use lock_test_servers::MongoDb;

use crate::server::{LONG, Server, busy, claim, document, granted, key, run};

const DAY: i64 = 24 * 3600 * 1000;

pub(crate) fn a_lock_is_a_document_under_its_bytes() {
    run(async {
        let server = Server::start(&MongoDb::Set, &[]);
        let client = server.client().await;
        let locks = server.locks().await;
        let names = ["$set", "a.b", "a\0b", "", " a", "A", "a", "ä", "a\u{308}", "$$NOW"];
        let names: Vec<&str> = names.into_iter().filter(|name| !name.is_empty()).collect();
        for name in &names {
            granted(&mut claim(&client, name, LONG)).await;
        }
        for name in &names {
            busy(&mut claim(&client, name, LONG)).await;
            let held = document(&locks, name).await.unwrap();
            assert_eq!(held.get_str("label").unwrap(), "$owner", "a label is not read as an expression");
            let fields: Vec<&String> = held.keys().collect();
            assert_eq!(fields, ["_id", "owner", "label", "token", "expires", "forget"]);
            let (Some(Bson::Binary(owner)), Some(Bson::Int64(_))) = (held.get("owner"), held.get("token"))
            else {
                panic!("{held}");
            };
            assert_eq!(owner.bytes.len(), 16);
        }
        assert_eq!(locks.count_documents(doc! {}).await.unwrap(), names.len() as u64);

        let mut claim = claim(&client, "released", LONG);
        granted(&mut claim).await;
        claim.release().await.unwrap();
        let free = document(&locks, "released").await.unwrap();
        let fields: Vec<&String> = free.keys().collect();
        assert_eq!(fields, ["_id", "token", "expires", "forget"], "the token stays");
    });
}

pub(crate) fn the_index_forgets_a_day_after_the_token() {
    run(async {
        let server = Server::start(&MongoDb::Set, &[]);
        let client = server.client().await;
        let locks = server.locks().await;
        let index = locks.list_indexes().await.unwrap();
        let mut index = index;
        let mut names = Vec::new();
        while index.advance().await.unwrap() {
            let index = index.deserialize_current().unwrap();
            let options = index.options.unwrap();
            names.push((options.name.unwrap(), options.expire_after));
        }
        assert!(names.contains(&("onelock schema 1".to_owned(), Some(Duration::ZERO))), "{names:?}");

        let token = granted(&mut claim(&client, "a", LONG)).await.token.get();
        let forget = |document: &Document| document.get_datetime("forget").unwrap().timestamp_millis();
        let held = document(&locks, "a").await.unwrap();
        assert_eq!(forget(&held), i64::try_from(token / 1000).unwrap() + DAY);

        // As after the clock was set back by ten days.
        let ahead = i64::try_from(token).unwrap() + 10 * DAY * 1000;
        let free = doc! { "$set": { "token": ahead, "expires": DateTime::from_millis(0) } };
        locks.update_one(doc! { "_id": key("a") }, free).await.unwrap();
        let next = granted(&mut claim(&client, "a", LONG)).await.token.get();
        assert_eq!(i64::try_from(next).unwrap(), ahead + 1, "the next token is higher by one");
        assert_eq!(forget(&document(&locks, "a").await.unwrap()), (ahead + 1) / 1000 + DAY);

        // A document whose lease is longer than a day is not deleted while the lease lasts.
        let mut long = claim(&client, "b", LONG);
        granted(&mut long).await;
        long.renew(Duration::from_secs(3 * 24 * 3600)).await.unwrap();
        let held = document(&locks, "b").await.unwrap();
        assert_eq!(forget(&held), held.get_datetime("expires").unwrap().timestamp_millis());
    });
}

// Proves: error-kinds
pub(crate) fn what_no_lock_client_has_written_is_rejected() {
    run(async {
        let server = Server::start(&MongoDb::Set, &[]);
        let client = server.client().await;
        let locks = server.locks().await;
        let later = DateTime::from_millis(1 << 45);
        let foreign = [
            doc! { "token": "x" },
            doc! { "owner": 1, "expires": later },
            doc! { "token": 1.5, "expires": later },
        ];
        for (n, mut foreign) in foreign.into_iter().enumerate() {
            let name = format!("foreign {n}");
            foreign.extend(doc! { "_id": key(&name) });
            locks.insert_one(&foreign).await.unwrap();
            let error = claim(&client, &name, LONG).attempt().await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Rejected, "{error:?}");
            assert!(error.message().contains("no lock client"), "{error}");
            let left = document(&locks, &name).await.unwrap();
            assert!(foreign.iter().all(|(field, value)| left.get(field) == Some(value)), "{left}");
        }
    });
}

// Proves: list
/// 25,000 documents take three requests, each with an answer of several pieces. Some have keys of another
/// subtype, by which the server orders as well.
pub(crate) fn a_list_among_many_documents_has_patience_per_request() {
    const PATIENCE: Duration = Duration::from_secs(1);
    run(async {
        let server = Server::start(&MongoDb::Standalone, &[]);
        let other = |n: u32| {
            let subtype = if n.is_multiple_of(2) { BinarySubtype::Generic } else { BinarySubtype::Uuid };
            doc! { "_id": Binary { subtype, bytes: [[0; 12].as_slice(), &n.to_be_bytes()].concat() } }
        };
        server.locks().await.insert_many((0..25_000).map(other)).await.unwrap();
        granted(&mut claim(&server.client().await, "held", LONG)).await;
        let proxy = Proxy::start(&format!("127.0.0.1:{}", server.0.port())).await.unwrap();
        let url = server.through(proxy.address());
        let client = lock_mongo::connect_with(&url, Options::default().patience(PATIENCE)).answered().await;
        let delay = Duration::from_millis(400);
        paging::has_a_patience_for_each_request(&client, PATIENCE, &proxy, delay, "documents").await;
    });
}

// Proves: list
pub(crate) fn a_list_looks_at_no_lock_that_was_released() {
    run(async {
        let server = Server::start(&MongoDb::Standalone, &[]);
        let client = server.client().await;
        for n in 0..20 {
            let mut claim = claim(&client, &format!("released {n}"), LONG);
            granted(&mut claim).await;
            claim.release().await.unwrap();
        }
        granted(&mut claim(&client, "held", LONG)).await;
        let before = server.commands("find").await;
        assert_eq!(client.list("").answered().await.len(), 1);
        assert_eq!(server.commands("find").await - before, 2, "for the names, and for the one that is held");
    });
}
