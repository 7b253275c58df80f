//! The URL parameters about how a server is reached and asked, and about the names of the locks there.

use std::time::Duration;

use lock_conformance::patience;
use lock_conformance::timing::{Answered, released};
use lock_core::Client;
use lock_sql::postgres;
use lock_test_servers::lazy;
use sqlx::{AssertSqlSafe, Executor, PgConnection};
use tokio::task::JoinSet;

use crate::Outcome;
use crate::server::{Site, TTL, claim, claim_within, granted, run, start_durable, until};

async fn open(site: &Site, parameters: &str) -> Client {
    postgres::connect(&site.url_with(&format!("table={}&{parameters}", site.table))).answered().await
}

/// Begins a transaction. Every statement that uses the table waits for its end.
async fn keep_table(site: &Site) -> PgConnection {
    let mut admin = site.admin().await;
    let keep = format!("BEGIN; LOCK TABLE {} IN ACCESS EXCLUSIVE MODE", site.table);
    admin.execute(sqlx::raw_sql(AssertSqlSafe(keep))).await.unwrap();
    admin
}

pub(crate) fn opening_waits_for_the_server_unless_it_is_lazy() -> Outcome {
    run(async {
        let server = start_durable();
        let url = Site::on(server.url()).url_with("patience=1s");
        let client = lazy::client_of_a_dead_server(&server, &url, postgres::connect).await;
        lazy::finds_its_server(&client, &server, TTL).await;
        lazy::opens_when_its_server_comes(&server, &url, postgres::connect).await;
    })
}

pub(crate) fn a_lazy_clients_first_call_creates_the_table() -> Outcome {
    run(async {
        let site = Site::new();
        let client = open(&site, "lazy=true").await;
        let is_there = format!("SELECT count(*) FROM pg_class WHERE relname = '{}'", site.table);
        assert_eq!(site.number(&is_there).await, 0, "nothing was asked of the server");
        let done = client.init().answered().await;
        assert!(done.contains("created the table"), "{done}");
        assert_eq!(site.number(&is_there).await, 1);
    })
}

pub(crate) fn the_patience_is_the_urls() -> Outcome {
    run(async {
        let site = Site::new();
        let client = open(&site, "patience=700ms").await;
        let kept = keep_table(&site).await;
        patience::is_the_urls(&client, Duration::from_millis(700)).await;
        drop(kept);
    })
}

/// All connections but one are for calls that take locks; one is for renewals and releases.
pub(crate) fn a_client_opens_the_connections_its_url_allows() -> Outcome {
    run(async {
        for allowed in [2, 4] {
            let site = Site::new();
            let parameters = format!("connections={allowed}&application_name={}", site.table);
            let client = open(&site, &parameters).await;
            // The connection that receives notifications is recognised by its `LISTEN`.
            let ours = format!(
                "SELECT count(*) FROM pg_stat_activity WHERE application_name = '{}' AND query NOT LIKE 'LISTEN%'",
                site.table
            );
            let mut holder = claim(&client, "held");
            granted(&mut holder).await;
            let kept = keep_table(&site).await;
            let mut tasks = JoinSet::new();
            for n in 0..10 {
                let mut claim = claim_within(&client, &n.to_string(), Duration::from_secs(1));
                tasks.spawn(async move { drop(claim.attempt().await.expect_err("the table is kept")) });
            }
            tasks.spawn(async move { drop(holder.renew(TTL).await) });
            let mut most = 0;
            while tasks.try_join_next().is_none() {
                most = most.max(site.number(&ours).await);
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            drop(kept);
            tasks.join_all().await;
            assert_eq!(most, allowed, "connections of the client");
        }
    })
}

// Proves: prefix
pub(crate) fn a_lock_is_one_row_per_prefix_and_name() -> Outcome {
    run(async {
        let site = Site::new();
        let client = open(&site, "prefix=nightly%3A").await;
        let guard = client.lock("a").ttl(TTL).build().unwrap().acquire().answered().await;
        let held = "SELECT count(*) FROM TABLE_ WHERE name = 'nightly:a' AND octet_length(owner) = 16";
        assert_eq!(site.number(held).await, 1);
        assert_eq!(site.number("SELECT count(*) FROM TABLE_").await, 1);
        assert_eq!(site.number("SELECT token FROM TABLE_").await.unsigned_abs(), guard.token().get());
        released(guard).await;
    })
}

/// The server's address and the user are in the parameters alone, and so are the session's name and a setting.
pub(crate) fn what_is_the_drivers_is_passed_on() -> Outcome {
    run(async {
        let site = Site::new();
        let role = format!("user_of_{}", site.table);
        site.execute(&format!("CREATE ROLE {role} LOGIN SUPERUSER")).await;
        let options = site.options();
        let (port, database) = (options.get_port(), options.get_database().expect("the URL names it"));
        let own = |name: &str| format!("{name}={}", site.table);
        // There are two parameters for the address, and two for the session's name.
        for (host, called) in [
            ("host=127.0.0.1", own("application_name")),
            ("hostaddr=127.0.0.1", format!("options=-c%20{}", own("application_name%3D").replace("=", ""))),
        ] {
            let url = format!(
                "postgres://?{host}&port={port}&dbname={database}&user={role}&{called}&{}",
                own("table")
            );
            let client = postgres::connect(&url).answered().await;
            granted(&mut claim(&client, host)).await;
            let ours = format!(
                "SELECT count(*) FROM pg_stat_activity WHERE application_name = '{}' AND usename = '{role}'",
                site.table
            );
            assert!(site.number(&ours).await > 0, "{host}");
            drop(client);
            until("its sessions end", async || site.number(&ours).await == 0).await;
        }
    })
}
