//! The fence: how a resource checks tokens.

use lock_core::FencingToken;
use lock_mongo::mongodb::bson::{Document, doc};
use lock_mongo::mongodb::{Client, ClientSession};
use lock_mongo::{Fence, FenceError};
use lock_test_servers::MongoDb;

use crate::server::{Server, run};

fn token(n: u64) -> FencingToken {
    FencingToken::new(n).unwrap()
}

/// Writes under the fence, in a transaction that the caller has to commit.
async fn write(client: &Client, by: u64) -> (ClientSession, Result<(), FenceError>) {
    let app = client.database("app");
    let mut session = client.start_session().await.unwrap();
    session.start_transaction().await.unwrap();
    let accepted = Fence::new(&app, "reports").accept(&mut session, token(by)).await;
    if accepted.is_ok() {
        let reports = app.collection::<Document>("reports");
        reports.insert_one(doc! { "by": by as i64 }).session(&mut session).await.unwrap();
    }
    (session, accepted)
}

async fn written(client: &Client) -> u64 {
    client.database("app").collection::<Document>("reports").count_documents(doc! {}).await.unwrap()
}

async fn prepared() -> (Server, Client) {
    let server = Server::start(&MongoDb::Set, &[]);
    let client = server.raw().await;
    for collection in ["reports", "onelock_fences"] {
        client.database("app").create_collection(collection).await.unwrap();
    }
    (server, client)
}

pub(crate) fn a_stale_token_writes_nothing() {
    run(async {
        let (_server, client) = prepared().await;
        for by in [33, 33, 34] {
            let (mut session, accepted) = write(&client, by).await;
            accepted.unwrap();
            session.commit_transaction().await.unwrap();
        }
        let (mut session, accepted) = write(&client, 33).await;
        let Err(FenceError::Stale(stale)) = accepted else { panic!("{accepted:?}") };
        assert_eq!((stale.offered, stale.highest), (token(33), token(34)));
        session.abort_transaction().await.unwrap();
        assert_eq!(written(&client).await, 3);
    });
}

/// The stale holder's transaction checks the fence first, and has not committed yet when the later holder's comes.
pub(crate) fn one_of_two_concurrent_transactions_is_aborted() {
    run(async {
        let (_server, client) = prepared().await;
        let (mut session, accepted) = write(&client, 33).await;
        accepted.unwrap();
        session.commit_transaction().await.unwrap();
        let (mut stale, accepted) = write(&client, 33).await;
        accepted.unwrap();
        let (_later, accepted) = write(&client, 34).await;
        let Err(FenceError::Mongo(conflict)) = accepted else { panic!("{accepted:?}") };
        assert!(conflict.contains_label("TransientTransactionError"), "{conflict}");
        stale.commit_transaction().await.unwrap();
        let (mut later, accepted) = write(&client, 34).await;
        accepted.unwrap();
        later.commit_transaction().await.unwrap();
        assert!(matches!(write(&client, 33).await.1, Err(FenceError::Stale(_))));
    });
}

/// Follows the documentation of `Fence` for standalone servers.
pub(crate) fn one_document_can_be_its_own_fence() {
    run(async {
        let server = Server::start(&MongoDb::Standalone, &[]);
        let reports = server.raw().await.database("app").collection::<Document>("reports");
        reports.insert_one(doc! { "_id": "report", "token": 0_i64 }).await.unwrap();
        let write = |by: i64| {
            let filter = doc! { "_id": "report", "token": { "$lte": by } };
            reports.update_one(filter, doc! { "$set": { "token": by, "by": by } })
        };
        for (by, accepted) in [(33, 1), (33, 1), (34, 1), (33, 0)] {
            assert_eq!(write(by).await.unwrap().matched_count, accepted, "{by}");
        }
    });
}
