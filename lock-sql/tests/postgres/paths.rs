//! The choice of the table: the one that was named, or else the one in `public`, wherever a session's search path
//! leads.

use lock_core::driver::{Level, Release, Renewal};
use lock_core::{Client, Effect, ErrorKind, Options};
use lock_test_servers::{Absence, PgBouncer, Settings};
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, ConnectOptions, Executor};

use crate::Outcome;
use crate::server::{SETTINGS, Site, TTL, busy, claim, granted, run, start};

/// Creates a schema with a function that replaces the server's own if the schema precedes `pg_catalog` in a path. It
/// returns a time that is a year later.
const LATER: &str = "CREATE SCHEMA other_of_TABLE_;
    CREATE FUNCTION other_of_TABLE_.clock_timestamp() RETURNS timestamptz LANGUAGE sql
      AS $$ SELECT pg_catalog.clock_timestamp() + interval '1 year' $$";

/// Opens a client with the table in another schema, where the table exists afterwards.
async fn client_of(site: &Site, schema: &str) -> Client {
    let elsewhere = site.backend().table(&format!("{schema}.{}", site.table)).unwrap();
    elsewhere.open(Options::default()).await.unwrap()
}

// Proves: postgres-table
/// By default a schema with the user's name comes before `public`.
pub(crate) fn users_with_schemas_of_their_own_share_one_table() -> Outcome {
    run(async {
        let site = Site::new();
        let mut clients = Vec::new();
        for user in ["alice", "bob"] {
            let role = format!("{user}_of_{}", site.table);
            site.execute(&format!("CREATE ROLE {role} LOGIN SUPERUSER; CREATE SCHEMA AUTHORIZATION {role}"))
                .await;
            let backend = site.backend_as(site.options().username(&role));
            clients.push(backend.open(Options::default()).await.unwrap());
        }
        granted(&mut claim(&clients[0], "a")).await;
        busy(&mut claim(&clients[1], "a")).await;
        let server = &clients[0].info().server;
        assert!(server.ends_with(&format!("public.{}", site.table)), "{server}");
    })
}

pub(crate) fn any_search_path_finds_the_same_table() -> Outcome {
    run(async {
        let site = Site::new();
        let client = site.client().await;
        granted(&mut claim(&client, "a")).await;
        site.execute(LATER).await;
        // This table is not one of locks, because it has no comment.
        site.execute("CREATE TABLE other_of_TABLE_.TABLE_ (LIKE public.TABLE_ INCLUDING ALL)").await;
        let role = format!("role_of_{}", site.table);
        site.execute(&format!("CREATE ROLE {role} LOGIN SUPERUSER")).await;
        for path in ["other_of_TABLE_, public", "other_of_TABLE_, pg_catalog, public", "''", "nowhere"] {
            site.execute(&format!("ALTER ROLE {role} SET search_path = {path}")).await;
            let backend = site.backend_as(site.options().username(&role));
            let client = backend.open(Options::default()).await.unwrap();
            busy(&mut claim(&client, "a")).await;
            let mut free = claim(&client, path);
            granted(&mut free).await;
            assert!(matches!(free.renew(TTL).await.unwrap(), Renewal::Held { .. }));
            assert!(matches!(free.release().await.unwrap(), Release::Released { .. }));
        }
    })
}

/// The settings that another client may leave in a session that a pooler lends to us next.
const LEFT_BEHIND: [&str; 10] = [
    "SET search_path = other_of_TABLE_, pg_catalog, public",
    "SET synchronous_commit = off",
    "SET default_transaction_isolation = serializable",
    "SET row_security = off",
    "SET bytea_output = escape",
    "SET lock_timeout = '3s'",
    "SET TimeZone = 'America/St_Johns'",
    "SET transform_null_equals = on",
    "SET ROLE poor_of_TABLE_",
    "SET statement_timeout = '1s'",
];

async fn leave_behind(site: &Site, foreign: &mut PgConnection) {
    for left in LEFT_BEHIND {
        let set = left.replace("TABLE_", &site.table);
        foreign.execute(sqlx::raw_sql(AssertSqlSafe(set))).await.unwrap();
    }
}

// Proves: pooler
pub(crate) fn leftovers_on_a_lent_session_change_nothing() -> Outcome {
    let server = start(&[]);
    // There is one session of the server, for all clients.
    let one = Settings { args: vec!["default_pool_size = 1".to_owned()], ..Settings::default() };
    let pooler = PgBouncer::before(&server, &one).map_err(Absence::reason)?;
    run(async {
        let site = Site::on(server.url());
        let direct = site.client().await;
        granted(&mut claim(&direct, "a")).await;
        site.execute(LATER).await;
        client_of(&site, &format!("other_of_{}", site.table)).await;
        site.execute("CREATE ROLE poor_of_TABLE_").await;
        site.watch_settings().await;

        let pooled = site.options().port(pooler.port());
        let mut foreign = pooled.connect().await.unwrap();
        let temporary = format!("CREATE TEMP TABLE {0} (LIKE public.{0} INCLUDING ALL)", site.table);
        foreign.execute(AssertSqlSafe(temporary)).await.unwrap();
        leave_behind(&site, &mut foreign).await;
        let client = site.backend_as(pooled).open(Options::default()).await.unwrap();
        for _ in 0..2 {
            busy(&mut claim(&client, "a")).await;
            let mut free = claim(&client, "b");
            granted(&mut free).await;
            assert!(matches!(free.renew(TTL).await.unwrap(), Renewal::Held { .. }));
            assert!(matches!(free.release().await.unwrap(), Release::Released { .. }));
            let bad = client.check().await.unwrap();
            let bad: Vec<_> = bad.iter().filter(|finding| finding.level == Level::Bad).collect();
            assert!(bad.is_empty(), "{bad:?}");
            leave_behind(&site, &mut foreign).await;
        }
        assert_eq!(site.settings_seen().await, [SETTINGS]);

        // Administrators keep writers out by this setting. The client reports it and doesn't override it.
        foreign.execute("SET default_transaction_read_only = on").await.unwrap();
        let error = claim(&client, "c").attempt().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable { effect: Effect::NotApplied }, "{error:?}");
        assert!(error.message().contains("another client"), "{error}");
    })
}

/// Earlier releases created the table in the schema to which the path led.
pub(crate) fn a_table_in_another_schema_is_reported_not_doubled() -> Outcome {
    run(async {
        let site = Site::new();
        site.execute("CREATE SCHEMA other_of_TABLE_").await;
        let other = format!("other_of_{0}.{0}", site.table);
        let before = client_of(&site, &format!("other_of_{}", site.table)).await;
        granted(&mut claim(&before, "a")).await;

        let error = site.backend().open(Options::default()).await.map(drop).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Rejected, "{error:?}");
        for said in [format!("?table={other}"), format!("?table=public.{}", site.table)] {
            assert!(error.message().contains(&said), "{error}");
        }
        assert_eq!(site.number("SELECT count(*) FROM pg_class WHERE relname = 'TABLE_'").await, 1);

        // If its schema is named, the table is created. Then there are two tables, which `check` warns of.
        let named = client_of(&site, "public").await;
        granted(&mut claim(&named, "a")).await;
        for (client, other) in [(&named, &other), (&before, &format!("public.{}", site.table))] {
            let findings = client.check().await.unwrap();
            let schema = findings.iter().find(|finding| finding.subject == "schema").unwrap();
            assert!(schema.level == Level::Warning && schema.message.contains(other), "{schema:?}");
        }
        // A user that names no table gets the one in `public` from now on.
        busy(&mut claim(&site.client().await, "a")).await;
    })
}

// Proves: postgres-table
/// An earlier release used the table to which the path led. Its processes still hold locks there when new processes
/// start.
pub(crate) fn an_older_table_on_the_path_is_reported() -> Outcome {
    run(async {
        let site = Site::new();
        // At first, there is the table of another user.
        let client = site.client().await;
        for (role, is_plain) in
            [(format!("alice_of_{}", site.table), true), (format!("app-of-{}", site.table), false)]
        {
            site.execute(&format!(
                "CREATE ROLE \"{role}\" LOGIN SUPERUSER; CREATE SCHEMA AUTHORIZATION \"{role}\";
                 CREATE TABLE \"{role}\".TABLE_ (LIKE public.TABLE_ INCLUDING ALL);
                 COMMENT ON TABLE \"{role}\".TABLE_ IS 'onelock schema 1'"
            ))
            .await;
            let backend = || site.backend_as(site.options().username(&role));
            let error = backend().open(Options::default()).await.map(drop).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Rejected, "{error:?}");
            let moved = match is_plain {
                true => format!("ALTER TABLE {role}.{} SET SCHEMA public", site.table),
                false => format!("ALTER TABLE \"{role}\".{} SET SCHEMA public", site.table),
            };
            assert!(error.message().contains(&moved), "{error}");
            assert!(error.message().contains(&format!("?table=public.{}", site.table)), "{error}");
            let named = format!("?table={role}.{}", site.table);
            assert_eq!(error.message().contains(&named), is_plain, "only what a URL takes: {error}");
            // A user that names the table can use it.
            let public = backend().table(&format!("public.{}", site.table)).unwrap();
            public.open(Options::default()).await.unwrap();
            // The paths of other users don't lead there.
            site.client().await;
        }
        drop(client);
    })
}

/// A table that a crash empties, or that only its own session sees, keeps no lock.
pub(crate) fn a_table_that_does_not_last_is_refused() -> Outcome {
    run(async {
        let site = Site::new();
        site.execute(&site.backend().schema()).await;
        site.execute("ALTER TABLE TABLE_ SET UNLOGGED").await;
        let error = site.backend().open(Options::default()).await.map(drop).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Rejected, "{error:?}");
        assert!(error.message().contains("SET LOGGED"), "{error}");
        site.execute("ALTER TABLE TABLE_ SET LOGGED").await;
        let client = site.client().await;
        granted(&mut claim(&client, "a")).await;
        site.execute("ALTER TABLE TABLE_ SET UNLOGGED").await;
        let findings = client.check().await.unwrap();
        let schema = findings.iter().find(|finding| finding.subject == "schema").unwrap();
        assert!(schema.level == Level::Bad && schema.message.contains("SET LOGGED"), "{schema:?}");
        for session in ["pg_temp", "pg_catalog"] {
            let error = site.backend().table(&format!("{session}.{}", site.table)).map(drop).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{error:?}");
        }
    })
}
