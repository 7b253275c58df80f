//! The table, its version, and the rights of users.

use lock_conformance::refusal;
use lock_core::driver::Level;
use lock_core::{ErrorKind, Options};
use sqlx::Executor;
use sqlx::{AssertSqlSafe, ConnectOptions};

use crate::Outcome;
use crate::server::{Site, busy, claim, granted, run, until};

pub(crate) fn the_table_is_created_once_where_named() -> Outcome {
    run(async {
        let mut site = Site::new();
        site.execute("CREATE SCHEMA schema_of_TABLE_").await;
        site.table = format!("schema_of_{0}.{0}", site.table);
        let mut opening = tokio::task::JoinSet::new();
        for _ in 0..10 {
            let site = site.clone();
            opening.spawn(async move { site.client().await });
        }
        let clients = opening.join_all().await;
        let done: Vec<String> = futures(&clients).await;
        assert_eq!(done.iter().filter(|done| done.contains(&site.table)).count(), 1, "{done:?}");
        granted(&mut claim(&clients[0], "a")).await;
        busy(&mut claim(&clients[9], "a")).await;
        assert_eq!(site.number("SELECT count(*) FROM TABLE_").await, 1);
        // The statements that `schema` prints create the same table.
        let printed = site.backend().schema();
        site.execute(&format!("ALTER TABLE TABLE_ RENAME TO x; {printed}")).await;
        granted(&mut claim(&site.client().await, "a")).await;
    })
}

/// The number of an advisory lock of PostgreSQL. While the test holds it, a client can't go on.
const GATE: u32 = 1;

/// The server looks up the table's name in the newest state of the catalogue, and the table's comment in the state of
/// the question's snapshot.
pub(crate) fn a_table_appearing_during_the_first_question_is_ours() -> Outcome {
    run(async {
        // A session's first question calls this function before it asks about the table. A function of the server's own
        // can't be replaced, but it can be renamed in one database.
        let site = Site::new().in_a_database_of_its_own().await;
        site.execute(&format!(
            "ALTER FUNCTION pg_catalog.pg_is_in_recovery() RENAME TO pg_is_in_recovery_indeed;
             CREATE FUNCTION pg_catalog.pg_is_in_recovery() RETURNS bool LANGUAGE plpgsql AS $$ BEGIN
               PERFORM pg_advisory_lock_shared({GATE}), pg_advisory_unlock_shared({GATE});
               RETURN false; END $$"
        ))
        .await;
        let mut admin = site.admin().await;
        admin.execute(AssertSqlSafe(format!("SELECT pg_advisory_lock({GATE})"))).await.unwrap();
        let gated = site.backend();
        let opening = tokio::spawn(async move { gated.open(Options::default()).await });
        let asks = format!(
            "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = {GATE} AND NOT granted"
        );
        until("the client asks", async || site.number(&asks).await == 1).await;
        site.execute(&site.backend().schema()).await;
        admin.execute(AssertSqlSafe(format!("SELECT pg_advisory_unlock({GATE})"))).await.unwrap();
        granted(&mut claim(&opening.await.unwrap().unwrap(), "a")).await;
    })
}

async fn futures(clients: &[lock_core::Client]) -> Vec<String> {
    let mut done = Vec::new();
    for client in clients {
        done.push(client.init().await.unwrap());
    }
    done
}

pub(crate) fn a_table_of_another_version_or_owner_is_untouched() -> Outcome {
    run(async {
        for (comment, said) in [
            ("'onelock schema 2'", "newer"),
            ("'onelock schema 0'", "older"),
            ("'people'", "not a table of locks"),
            ("NULL", "not a table of locks"),
        ] {
            let site = Site::new();
            site.execute(&format!("CREATE TABLE TABLE_ (a int); COMMENT ON TABLE TABLE_ IS {comment}")).await;
            let error = site.backend().open(Options::default()).await.map(drop).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Rejected, "{error:?}");
            assert!(error.message().contains(said) && error.message().contains(&site.table), "{error}");
        }
        // If the table changes while a client is open, its next connection notices that.
        let site = Site::new();
        let client = site.client().await;
        granted(&mut claim(&client, "a")).await;
        site.execute("COMMENT ON TABLE TABLE_ IS 'onelock schema 2'").await;
        site.kill_connections().await;
        claim(&client, "b").attempt().await.unwrap_err();
        let error = claim(&client, "b").attempt().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Rejected, "{error:?}");
    })
}

// Proves: rights-revoked
pub(crate) fn a_user_without_create_right_gets_advice() -> Outcome {
    run(async {
        let site = Site::new();
        site.execute("CREATE ROLE role_of_TABLE_ LOGIN; REVOKE CREATE ON SCHEMA public FROM public").await;
        let role = format!("role_of_{}", site.table);
        let guest = site.backend_as(site.options().username(&role));
        let error = guest.clone().open(Options::default()).await.map(drop).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Rejected, "{error:?}");
        for said in ["lock init --on URL", "lock schema --on URL", &site.table] {
            assert!(error.message().contains(said), "{error}");
        }
        site.client().await;
        site.execute("GRANT SELECT, INSERT, UPDATE, DELETE ON TABLE_ TO role_of_TABLE_").await;
        let client = guest.open(Options::default()).await.unwrap();
        let mut claim = claim(&client, "a");
        granted(&mut claim).await;
        claim.release().await.unwrap();
    })
}

// Proves: check-server, error-kinds, rights-revoked
pub(crate) fn a_missing_right_is_named() -> Outcome {
    run(async {
        let site = Site::new();
        site.client().await;
        site.execute("CREATE ROLE role_of_TABLE_ LOGIN; GRANT SELECT ON TABLE_ TO role_of_TABLE_").await;
        let role = format!("role_of_{}", site.table);
        let client = site.backend_as(site.options().username(&role)).open(Options::default()).await.unwrap();
        let error = claim(&client, "a").attempt().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Rejected, "{error:?}");
        assert!(error.message().contains("INSERT"), "{error}");
        let findings = refusal::is_told(&client, "INSERT").await;
        let rights = findings.iter().find(|finding| finding.subject == "rights").unwrap();
        assert!(rights.message.contains("INSERT, UPDATE, DELETE"), "{rights:?}");
        let findings = site.client().await.check().await.unwrap();
        let bad = findings.iter().filter(|finding| finding.level == Level::Bad).count();
        assert_eq!(bad, 0, "{findings:?}");
    })
}

// Proves: check-server
/// A session that was made read-only, by the role's settings or by those of its database.
pub(crate) fn sessions_that_take_no_writes_are_bad() -> Outcome {
    run(async {
        let site = Site::new();
        site.client().await;
        site.execute(
            "CREATE ROLE role_of_TABLE_ LOGIN; GRANT SELECT, INSERT, UPDATE, DELETE ON TABLE_ TO role_of_TABLE_",
        )
        .await;
        let role = format!("role_of_{}", site.table);
        let client = site.backend_as(site.options().username(&role)).open(Options::default()).await.unwrap();
        granted(&mut claim(&client, "a")).await;
        site.execute(
            "ALTER ROLE role_of_TABLE_ SET default_transaction_read_only = on;
             SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'role_of_TABLE_'",
        )
        .await;
        until("its connections have ended", async || claim(&client, "b").attempt().await.is_err()).await;
        refusal::is_told(&client, "read-only").await;
    })
}

/// A user with all rights on a table may still be refused its rows.
pub(crate) fn row_level_security_that_rejects_grants_is_reported() -> Outcome {
    run(async {
        let site = Site::new();
        site.client().await;
        site.execute(
            "CREATE ROLE role_of_TABLE_ LOGIN; GRANT SELECT, INSERT, UPDATE, DELETE ON TABLE_ TO role_of_TABLE_;
             ALTER TABLE TABLE_ ENABLE ROW LEVEL SECURITY",
        )
        .await;
        let role = format!("role_of_{}", site.table);
        let guest = site.backend_as(site.options().username(&role));
        let rights = async |prefix: &str| {
            let client = guest.clone().prefix(prefix).unwrap().open(Options::default()).await.unwrap();
            let findings = client.check().await.unwrap();
            let rights = findings.into_iter().find(|finding| finding.subject == "rights").unwrap();
            (rights, client)
        };
        let (finding, client) = rights("").await;
        assert!(finding.level == Level::Bad && finding.message.contains("row-level security"), "{finding:?}");
        let error = claim(&client, "a").attempt().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Rejected, "{error:?}");
        assert!(error.message().contains("row-level security"), "{error}");

        // A policy that gives each user names of its own is no trouble for users that keep to their names.
        site.execute(
            "CREATE POLICY own ON TABLE_ TO role_of_TABLE_ USING (substring(name FOR 4) = 'own:'::bytea)",
        )
        .await;
        let (finding, client) = rights("own:").await;
        assert_eq!(finding.level, Level::Good, "{finding:?}");
        let mut own = claim(&client, "a");
        granted(&mut own).await;
        own.release().await.unwrap();
        assert_eq!(rights("others:").await.0.level, Level::Bad);
        assert_eq!(site.number("SELECT count(*) FROM TABLE_").await, 1, "a check leaves nothing");
    })
}

pub(crate) fn a_schema_that_is_missing_is_named() -> Outcome {
    run(async {
        let site = Site::new();
        let nowhere = site.backend().table(&format!("nowhere_of_{0}.{0}", site.table)).unwrap();
        let error = nowhere.open(Options::default()).await.map(drop).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Rejected, "{error:?}");
        assert!(error.message().contains("nowhere_of_"), "{error}");
    })
}

// Proves: key-deleted
pub(crate) fn a_missing_table_is_reported_and_created_anew() -> Outcome {
    run(async {
        let site = Site::new();
        let client = site.client().await;
        let mut holder = claim(&client, "a");
        let before = granted(&mut holder).await.token;
        site.execute("DROP TABLE TABLE_").await;
        let error = claim(&client, "a").attempt().await.unwrap_err();
        assert!(error.is_transient() && !error.may_have_taken_effect(), "{error:?}");
        assert!(error.message().contains("table of locks is gone"), "{error}");
        assert!(granted(&mut claim(&client, "a")).await.token > before);
    })
}

pub(crate) fn a_password_is_never_shown() -> Outcome {
    run(async {
        let site = Site::new();
        site.execute("CREATE ROLE role_of_TABLE_ LOGIN PASSWORD 's3cret'").await;
        let (host, port) = (site.options().get_host().to_owned(), site.options().get_port());
        for url in [
            format!("postgres://nobody_{}:s3cret@{host}:{port}/locks", site.table),
            "postgres://me:s3cret@127.0.0.1:1/locks".to_owned(),
            format!("postgres://lock:s3cret@{host}:{port}/no_such_database"),
        ] {
            let error = lock_sql::postgres::connect(&url).await.map(drop).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("s3cret"), "{error:?}");
        }
        let client =
            site.backend_as(site.options().password("s3cret")).open(Options::default()).await.unwrap();
        assert!(!format!("{client:?} {:?}", client.driver()).contains("s3cret"));
        let mut admin = site.options().connect().await.unwrap();
        admin.execute(AssertSqlSafe("SELECT 1".to_owned())).await.unwrap();
    })
}

/// A slow server, or a slow trigger, is not taken for a missing right.
pub(crate) fn a_slow_server_is_no_refusing_server() -> Outcome {
    run(async {
        let site = Site::new();
        let client = site.client().await;
        site.execute(
            "CREATE FUNCTION slow_of_TABLE_() RETURNS trigger LANGUAGE plpgsql AS
               $$ BEGIN PERFORM pg_sleep(1.2); RETURN NEW; END $$;
             CREATE TRIGGER slow BEFORE INSERT ON TABLE_ FOR EACH ROW EXECUTE FUNCTION slow_of_TABLE_()",
        )
        .await;
        let findings = client.check().await.unwrap();
        let rights = findings.iter().find(|finding| finding.subject == "rights").unwrap();
        assert_eq!(rights.level, Level::Good, "{rights:?}");
    })
}
