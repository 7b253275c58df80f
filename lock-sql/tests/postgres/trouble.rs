//! Errors: statements that the server undid or refuses, and connections that end.

use std::time::Duration;

use lock_core::driver::{Claim, Release, Renewal};
use lock_core::{Effect, ErrorKind, Options};
use sqlx::{Connection, Executor};

use crate::Outcome;
use crate::server::{
    Site, TTL, busy, claim, claim_within, free_row, granted, held, run, start, start_durable, succeeded,
    until,
};

/// Makes the table's next `times` writes fail with an error of this code. They are counted with a sequence, which a
/// failed write doesn't set back.
async fn fail(site: &Site, times: u32, code: &str) {
    site.execute(&format!(
        "DROP SEQUENCE IF EXISTS s_TABLE_; CREATE SEQUENCE s_TABLE_;
         CREATE OR REPLACE FUNCTION f_TABLE_() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
           IF nextval('public.s_TABLE_') <= {times} THEN RAISE EXCEPTION 'as told' USING ERRCODE = '{code}'; END IF;
           RETURN NEW; END $$;
         CREATE OR REPLACE TRIGGER t_TABLE_ BEFORE INSERT OR UPDATE ON TABLE_
           FOR EACH ROW EXECUTE FUNCTION f_TABLE_()"
    ))
    .await;
}

// Proves: statement-undone
pub(crate) fn an_undone_statement_is_retried_and_never_contention() -> Outcome {
    run(async {
        let site = Site::new();
        let client = site.client().await;
        for code in ["40001", "40P01", "55P03"] {
            let mut holder = claim(&client, code);
            fail(&site, 3, code).await;
            granted(&mut holder).await;
            fail(&site, 3, code).await;
            assert!(matches!(holder.renew(TTL).await.unwrap(), Renewal::Held { .. }), "{code}");
            fail(&site, 3, code).await;
            assert!(matches!(holder.release().await.unwrap(), Release::Released { .. }), "{code}");
            fail(&site, 0, code).await;
            let (_, named, _) = held(&client, code).await;
            let mut successor = claim(&client, code);
            fail(&site, 3, code).await;
            succeeded(&mut successor, &named).await;
            successor.release().await.unwrap();
            fail(&site, u32::MAX, code).await;
            let error = claim_within(&client, code, Duration::from_millis(200)).attempt().await.unwrap_err();
            assert!(error.is_transient(), "{code}: {error:?}");
        }
    })
}

pub(crate) fn another_error_is_no_contention() -> Outcome {
    run(async {
        let site = Site::new();
        let client = site.client().await;
        let no = ErrorKind::Unavailable { effect: Effect::NotApplied };
        for (code, kind) in [("P0001", no), ("57014", no), ("53100", no), ("23514", ErrorKind::Rejected)] {
            fail(&site, 1, code).await;
            let mut other = claim(&client, "a");
            let error = other.attempt().await.unwrap_err();
            assert_eq!(error.kind(), kind, "{code}: {error:?}");
            granted(&mut other).await;
            other.release().await.unwrap();
        }
    })
}

// Proves: another-server
pub(crate) fn a_server_set_to_read_only_is_unavailable() -> Outcome {
    run(async {
        let server = start(&[]);
        let site = Site::on(server.url());
        let client = site.client().await;
        let mut holder = claim(&client, "a");
        granted(&mut holder).await;
        let set = |to: &str| format!("ALTER SYSTEM SET default_transaction_read_only = {to}");
        let mut admin = site.admin().await;
        admin.execute(sqlx::raw_sql("SET default_transaction_read_only = off")).await.unwrap();
        admin.execute(sqlx::raw_sql(sqlx::AssertSqlSafe(set("on")))).await.unwrap();
        admin.execute(sqlx::raw_sql("SELECT pg_reload_conf()")).await.unwrap();
        let error = until_err(&mut claim(&client, "b")).await;
        assert_eq!(error.kind(), ErrorKind::Unavailable { effect: Effect::NotApplied }, "{error:?}");
        assert!(error.message().contains("takes no writes"), "{error}");
        let error = holder.renew(TTL).await.unwrap_err();
        assert!(error.is_transient() && !error.may_have_taken_effect(), "{error:?}");
        admin.execute(sqlx::raw_sql(sqlx::AssertSqlSafe(set("off")))).await.unwrap();
        admin.execute(sqlx::raw_sql("SELECT pg_reload_conf()")).await.unwrap();
        until("it takes writes again", async || is_held(&mut holder).await).await;
    })
}

/// Returns whether a renewal proves that the lock is held. It doesn't if it is refused, or if the lock is lost.
async fn is_held(holder: &mut Box<dyn Claim>) -> bool {
    matches!(holder.renew(TTL).await, Ok(Renewal::Held { .. }))
}

/// Repeats attempts until one is an error. The claim holds nothing between them.
async fn until_err(claim: &mut Box<dyn Claim>) -> lock_core::Error {
    let mut refused = None;
    until("it takes no more writes", async || match claim.attempt().await {
        Ok(_) => {
            claim.release().await.map(drop).unwrap_or_default();
            false
        }
        Err(e) => {
            refused = Some(e);
            true
        }
    })
    .await;
    refused.expect("it was refused")
}

// Proves: B21, flushed-or-killed
pub(crate) fn every_call_replaces_a_killed_connection() -> Outcome {
    run(async {
        let site = Site::new();
        let client = site.client().await;
        let mut holder = claim(&client, "a");
        // A connection is recognised by the statement that it has sent.
        granted(&mut holder).await;
        holder.release().await.unwrap();
        for _ in 0..3 {
            site.kill_connections().await;
            // It is not known whether the first call was carried out. The next call has another connection.
            if let Err(e) = holder.attempt().await {
                assert!(e.is_transient(), "{e:?}");
            }
            granted(&mut holder).await;
            site.kill_connections().await;
            if let Err(e) = holder.renew(TTL).await {
                assert!(e.is_transient(), "{e:?}");
            }
            assert!(matches!(holder.renew(TTL).await.unwrap(), Renewal::Held { .. }));
            site.kill_connections().await;
            if let Err(e) = holder.release().await {
                assert!(e.is_transient(), "{e:?}");
            }
            holder.release().await.unwrap();
            let (mut before, named, _) = held(&client, "a").await;
            site.kill_connections().await;
            let mut successor = claim(&client, "a");
            if let Err(e) = successor.take_over(&named).await {
                assert!(e.is_transient(), "{e:?}");
            }
            // The two calls that follow: whatever was done, the lock is the successor's.
            before.release().await.unwrap();
            granted(&mut successor).await;
            successor.release().await.unwrap();
            assert_eq!(site.number("SELECT count(*) FROM TABLE_ WHERE owner <> ''").await, 0);
        }
    })
}

// Proves: flushed-or-killed
pub(crate) fn a_waiting_statement_that_is_killed_takes_nothing() -> Outcome {
    run(async {
        let site = Site::new();
        let client = site.client().await;
        free_row(&client, "a").await;
        let mut keeper = site.keep_row("a").await;
        let mut other = claim(&client, "a");
        let attempt = tokio::spawn(async move { (other.attempt().await, other) });
        until("it waits", async || site.waiting().await == 1).await;
        let kill = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
            WHERE wait_event_type = 'Lock' AND query LIKE '%TABLE_\"%'";
        assert_eq!(site.number(kill).await, 1);
        let (outcome, mut other) = attempt.await.unwrap();
        let error = outcome.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable { effect: Effect::Unknown }, "{error:?}");
        keeper.execute("COMMIT").await.unwrap();
        assert_eq!(other.release().await.unwrap(), Release::NotHeld);
        granted(&mut other).await;
    })
}

// Proves: another-server
pub(crate) fn a_standby_takes_no_locks() -> Outcome {
    run(async {
        let server = start_durable();
        let site = Site::on(server.url());
        let client = site.client().await;
        let mut holder = claim(&client, "a");
        granted(&mut holder).await;
        // The server is in recovery until it is promoted, like a standby whose primary is gone.
        let data: String = sqlx::Row::get(&site.row("SHOW data_directory").await, 0);
        server.kill().unwrap();
        std::fs::write(format!("{data}/standby.signal"), "").unwrap();
        server.restart(lock_conformance::Data::Kept).unwrap();
        let error = until_err(&mut claim(&client, "b")).await;
        assert!(error.is_transient(), "{error:?}");
        let error = site.backend().open(Options::default()).await.map(drop).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable { effect: Effect::NotApplied }, "{error:?}");
        assert!(error.message().contains("standby"), "{error}");
        site.execute("SELECT pg_promote()").await;
        until("it takes locks again", async || is_held(&mut holder).await).await;
        busy(&mut claim(&client, "a")).await;
    })
}

pub(crate) fn a_server_without_room_for_a_client_says_so() -> Outcome {
    run(async {
        let server = start(&["max_connections=4", "superuser_reserved_connections=0", "max_wal_senders=0"]);
        let mut others = Vec::new();
        while let Ok(other) = sqlx::PgConnection::connect(server.url()).await {
            others.push(other);
        }
        let error = lock_sql::postgres::connect(server.url()).await.expect_err("there is no room");
        assert_eq!(error.kind(), ErrorKind::Unavailable { effect: Effect::NotApplied }, "{error:?}");
        assert!(error.is_refusal() && error.message().contains("no connection left"), "{error}");
    })
}
