//! Users with limited rights, and collections of other versions.

use lock_conformance::refusal;
use lock_core::driver::{Finding, Level};
use lock_core::{Client, ErrorKind};
use lock_mongo::mongodb::{
    self,
    bson::{Document, doc},
};
use lock_test_servers::MongoDb;

use crate::server::{LONG, Server, claim, granted, open, run};

/// Starts a server that asks for passwords. Returns it with the URL of a user that has these rights in the database of
/// locks.
async fn restricted(privileges: &[&str]) -> (Server, String) {
    let server = Server::start(&MongoDb::Standalone, &["--auth"]);
    let root = doc! { "createUser": "root", "pwd": "toor", "roles": ["root"] };
    server.admin(root).await;
    let url = |user: &str| {
        server.0.url().replace("mongodb://", &format!("mongodb://{user}@")) + "/?authSource=admin"
    };
    let admin = mongodb::Client::with_uri_str(url("root:toor")).await.unwrap().database("admin");
    let actions: Vec<String> = privileges.iter().map(|action| (*action).to_owned()).collect();
    let role = doc! {
        "createRole": "locks",
        "privileges": [{ "resource": { "db": "onelock", "collection": "" }, "actions": actions }],
        "roles": [],
    };
    admin.run_command(role).await.unwrap();
    admin.run_command(doc! { "createUser": "u", "pwd": "hunter2", "roles": ["locks"] }).await.unwrap();
    let url = url("u:hunter2");
    (server, url)
}

async fn found(client: &Client, subject: &str) -> Finding {
    let findings = client.check().await.expect("the server can be reached");
    findings.into_iter().find(|finding| finding.subject == subject).expect("one finding per question")
}

// Proves: check-server, rights-revoked
pub(crate) fn a_read_only_user_learns_the_needed_role() {
    run(async {
        let (_server, url) = restricted(&["find", "listIndexes"]).await;
        let client = open(&url).await;
        let error = claim(&client, "a", LONG).attempt().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Rejected, "{error:?}");
        assert!(error.message().contains("readWrite"), "{error}");
        refusal::is_told(&client, "readWrite").await;
    });
}

pub(crate) fn a_wrong_password_is_told_and_not_shown() {
    run(async {
        let (_server, url) = restricted(&["find"]).await;
        let error = lock_mongo::connect(&url.replace("hunter2", "hunter3")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Rejected, "{error:?}");
        assert!(
            error.message().contains("password") && !format!("{error} {error:?}").contains("hunter"),
            "{error:?}"
        );
    });
}

// Proves: rights-revoked
pub(crate) fn a_user_without_index_rights_takes_locks() {
    run(async {
        let (_server, url) = restricted(&["find", "insert", "update", "listIndexes"]).await;
        let client = open(&url).await;
        granted(&mut claim(&client, "a", LONG)).await;
        assert_eq!(found(&client, "rights").await.level, Level::Good);
        assert_eq!(found(&client, "schema").await.level, Level::Warning);
        assert_eq!(client.init().await.unwrap_err().kind(), ErrorKind::Rejected);
    });
}

pub(crate) fn a_collection_of_another_version_is_left_alone() {
    run(async {
        let server = Server::start(&MongoDb::Set, &[]);
        let database = server.raw().await.database("onelock");
        for (version, said) in [("2", "newer"), ("0", "older")] {
            let index = doc! {
                "createIndexes": "onelock_locks",
                "indexes": [{ "key": { "forget": 1 }, "name": format!("onelock schema {version}"), "expireAfterSeconds": 0 }],
            };
            database.run_command(index).await.unwrap();
            let error = lock_mongo::connect(server.0.url()).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Rejected, "{error:?}");
            assert!(error.message().contains(said), "{error}");
            database.collection::<Document>("onelock_locks").drop().await.unwrap();
        }
        let client = server.client().await;
        granted(&mut claim(&client, "a", LONG)).await;
        let schema = lock_mongo::Mongo::from_url(server.0.url()).unwrap().schema();
        assert!(schema.contains("onelock schema 1"), "{schema}");
        assert_eq!(client.init().await.unwrap(), "", "there was nothing to do");
    });
}

pub(crate) fn check_says_what_the_server_is() {
    run(async {
        let server = Server::start(&MongoDb::Set, &[]);
        let client = server.client().await;
        assert!(found(&client, "reachable").await.message.contains("MongoDB 6"));
        for subject in ["reachable", "rights", "replica set", "write concern", "schema", "push"] {
            let finding = found(&client, subject).await;
            assert_eq!(finding.level, Level::Good, "{finding:?}");
        }
        let alone = Server::start(&MongoDb::Standalone, &[]).client().await;
        drop(alone);
    });
}
