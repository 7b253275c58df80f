//! The table, and the rights of users.

use lock_conformance::refusal;
use lock_core::ErrorKind;
use lock_core::driver::{Attempt, Level};
use lock_sql::mysql;

use crate::On;
use crate::server::{PATIENCE, Server, claim, granted, run};

/// Creates a user with these rights on the database. Returns the user's URL.
async fn user(server: &Server, rights: &str) -> String {
    let name = format!("{}_{}", server.database(), rights.replace([',', ' '], ""));
    server.execute(&format!("CREATE USER {name}")).await;
    server.execute(&format!("GRANT {rights} ON {}.* TO {name}", server.database())).await;
    server.url_of(&name, "")
}

// Proves: key-deleted
pub(crate) fn a_missing_table_is_created_or_its_creator_named(on: On) {
    run(async {
        let server = Server::shared(on).await;
        let poor = user(&server, "SELECT, INSERT, UPDATE, DELETE").await;
        let error = mysql::connect(&poor).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Rejected, "{error}");
        for named in ["lock init", "lock schema", "onelock_locks"] {
            assert!(error.message().contains(named), "{error}");
        }
        let client = server.client().await;
        let schema = schema(&server);
        assert_eq!(client.init().await.unwrap(), "", "it was created when the client was opened");
        granted(&mut claim(&mysql::connect(&poor).await.unwrap(), "a", PATIENCE)).await;

        server.execute("DROP TABLE onelock_locks").await;
        let schema_finding =
            async || client.check().await.unwrap().into_iter().find(|f| f.subject == "schema").unwrap();
        assert_eq!(schema_finding().await.level, Level::Bad);
        let error = claim(&mysql_client(&server, &schema).await, "a", PATIENCE).renew(PATIENCE).await;
        assert!(error.is_ok(), "{error:?}");
        assert_eq!(schema_finding().await.level, Level::Good);
    });
}

fn schema(server: &Server) -> String {
    mysql::MySql::from_url(&server.url("")).unwrap().schema()
}

/// Runs the statement from `schema`, and opens a client.
async fn mysql_client(server: &Server, schema: &str) -> lock_core::Client {
    server.execute(schema).await;
    server.client().await
}

pub(crate) fn a_table_of_other_version_owner_engine_is_untouched(on: On) {
    run(async {
        let server = Server::shared(on).await;
        server.client().await;
        let created = schema(&server);
        for (altered, said) in [
            ("COMMENT = 'onelock schema 2'", "newer"),
            ("COMMENT = 'onelock schema 0'", "older"),
            ("COMMENT = 'people'", "not a table of locks"),
            ("ENGINE = MyISAM", "InnoDB"),
        ] {
            server.execute("DROP TABLE onelock_locks").await;
            server.execute(&created).await;
            server.execute(&format!("ALTER TABLE onelock_locks {altered}")).await;
            let error = mysql::connect(&server.url("")).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Rejected, "{error}");
            assert!(error.message().contains(said), "{error}");
        }
    });
}

// Proves: check-server, error-kinds, rights-revoked
pub(crate) fn a_missing_right_is_named(on: On) {
    run(async {
        let server = Server::shared(on).await;
        granted(&mut claim(&server.client().await, "held", PATIENCE)).await;
        for (rights, level, missing) in [
            ("SELECT, INSERT, UPDATE, DELETE", Level::Good, ""),
            ("SELECT, INSERT, UPDATE", Level::Warning, "DELETE"),
            ("SELECT, UPDATE, DELETE", Level::Bad, "INSERT"),
            ("SELECT", Level::Bad, "UPDATE, INSERT, DELETE"),
        ] {
            let client = mysql::connect(&user(&server, rights).await).await.unwrap();
            let finding = client.check().await.unwrap().into_iter().find(|f| f.subject == "rights").unwrap();
            assert_eq!(finding.level, level, "{rights}: {}", finding.message);
            assert!(finding.message.contains(missing), "{}", finding.message);
            let attempt = claim(&client, rights, PATIENCE).attempt().await;
            match level {
                Level::Bad => {
                    let error = attempt.unwrap_err();
                    assert_eq!(error.kind(), ErrorKind::Rejected, "{error}");
                    refusal::is_told(&client, "INSERT").await;
                }
                _ => assert!(matches!(attempt, Ok(Attempt::Granted(_))), "{attempt:?}"),
            }
        }
    });
}

pub(crate) fn a_table_and_a_database_of_the_users_choice(on: On) {
    run(async {
        let (server, other) = (Server::shared(on).await, Server::shared(on).await);
        let table = format!("{}.Locks_2", other.database());
        let client = mysql::connect(&server.url(&format!("?table={table}"))).await.unwrap();
        granted(&mut claim(&client, "a", PATIENCE)).await;
        assert_eq!(other.number("SELECT COUNT(*) FROM Locks_2 WHERE owner <> ''").await, 1);
        granted(&mut claim(&server.client().await, "a", PATIENCE)).await;
        let own = mysql::MySql::from(server.options()).table(&table).unwrap().prefix("p:").unwrap();
        let own = own.open(lock_core::Options::default()).await.unwrap();
        granted(&mut claim(&own, "a", PATIENCE)).await;
        assert_eq!(other.number("SELECT COUNT(*) FROM Locks_2 WHERE name = 'p:a'").await, 1);
    });
}

pub(crate) fn a_password_is_never_shown(on: On) {
    run(async {
        let server = Server::shared(on).await;
        let name = format!("pw_{}", server.database());
        server.execute(&format!("CREATE USER {name} IDENTIFIED BY 'hunt er2'")).await;
        server.execute(&format!("GRANT ALL ON {}.* TO {name}", server.database())).await;
        let client = mysql::connect(&server.url_of(&format!("{name}:hunt%20er2"), "")).await.unwrap();
        let info = client.info();
        assert!(!format!("{client:?} {:?} {info:?}", client.driver()).contains("hunt"), "{info:?}");
        let error = mysql::connect(&server.url_of(&format!("{name}:hunter3"), "")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Rejected, "{error}");
        assert!(!format!("{error} {error:?}").contains("hunter3"), "{error:?}");
    });
}

pub(crate) fn a_database_that_is_missing_is_named(on: On) {
    run(async {
        let server = Server::shared(on).await;
        let port = server.port();
        let error = mysql::connect(&format!("mysql://lock@127.0.0.1:{port}/nowhere")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Rejected, "{error}");
        assert!(error.message().contains("database is missing"), "{error}");
        let error = mysql::connect("mysql://lock@127.0.0.1:1/d").await.unwrap_err();
        assert!(error.is_transient() && !error.may_have_taken_effect(), "{error:?}");
    });
}
