//! The number of sessions that a client's claims need on the server.

use std::time::Duration;

use lock_core::driver::{Release, Renewal, Watched};
use lock_mongo::mongodb::bson::{Document, doc};
use lock_test_servers::MongoDb;

use crate::server::{LONG, Server, claim, granted, run, until};

/// The server keeps a record in memory and a document for each session that has written.
pub(crate) fn a_long_held_lock_keeps_no_session() {
    const LOCKS: u64 = 20;
    run(async {
        let server = Server::start(&MongoDb::Set, &[]);
        let client = server.client().await;
        let raw = server.raw().await;
        let sessions = raw.database("config").collection::<Document>("transactions");
        let used = || async { sessions.count_documents(doc! {}).await.unwrap() };
        let before = used().await;
        let mut held = Vec::new();
        for n in 0..LOCKS {
            let mut claim = claim(&client, &format!("name {n}"), LONG);
            granted(&mut claim).await;
            assert_eq!(claim.watch().await.unwrap(), Watched::FromNowOn);
            held.push(claim);
        }
        for claim in &mut held {
            assert!(matches!(claim.renew(LONG).await.unwrap(), Renewal::Held { .. }));
        }
        until("each write has its record", Duration::from_secs(5), || async { used().await > before }).await;
        // The `mongodb` crate takes a session back in a task, so that the next claim may come too early for it.
        assert!(used().await - before < LOCKS / 2, "{before} sessions, then {}", used().await);
        for claim in &mut held {
            assert_eq!(claim.release().await.unwrap(), Release::Released { others: Some(false) });
        }
    });
}
