//! Settings, transactions and pools of the user don't affect our sessions.

use std::time::Duration;

use lock_conformance::timing::{released, still_held, within};
use lock_core::driver::{Attempt, Renewal, Wakes};
use lock_core::{Client, Guard, Options};
use sqlx::Executor;
use sqlx::postgres::PgPoolOptions;

use crate::Outcome;
use crate::server::{SETTINGS, Site, TTL, claim, free_row, granted, run, until};

pub(crate) fn whatever_a_role_sets_changes_nothing() -> Outcome {
    run(async {
        let site = Site::new().in_a_database_of_its_own().await;
        site.client().await;
        let role = format!("role_of_{}", site.table);
        let set = |setting: &str| format!("ALTER ROLE {role} SET {setting}; ");
        let settings: String = [
            "default_transaction_isolation = serializable",
            "timezone = 'America/St_Johns'",
            "datestyle = 'German'",
            "bytea_output = 'escape'",
            "standard_conforming_strings = off",
            "client_encoding = 'LATIN1'",
            "synchronous_commit = local",
            "search_path = 'nowhere'",
            "row_security = off",
            "lock_timeout = '1ms'",
            "statement_timeout = '1ms'",
            "enable_indexscan = off",
        ]
        .iter()
        .map(|setting| set(setting))
        .collect();
        site.execute(&format!("CREATE ROLE {role} LOGIN SUPERUSER; {settings}")).await;
        site.watch_settings().await;
        let options = site.options().username(&role).application_name(&site.table);
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..4 {
            let backend = site.backend_as(options.clone());
            tasks.spawn(async move {
                let client = backend.open(Options::default()).await.unwrap();
                let lock = client.lock("a").ttl(TTL).build().unwrap();
                for _ in 0..25 {
                    let guard = lock.acquire().await.unwrap();
                    guard.renew(TTL).await.unwrap();
                    released(guard).await;
                }
                client
            });
        }
        let clients = tasks.join_all().await;
        assert!(clients.iter().all(|client| client.info().wakes == Wakes::Pushed));
        let mut holder = claim(&clients[0], "b");
        granted(&mut holder).await;
        let early =
            format!("SELECT count(*) FROM pg_stat_activity WHERE application_name = '{}'", site.table);
        assert!(site.number(&early).await >= 4);
        assert_eq!(site.settings_seen().await, [SETTINGS]);
        drop((holder, clients));
        // A session reports its counters when it ends, at the latest.
        until("the sessions end", async || site.number(&early).await == 0).await;
        // At another isolation level, many statements would have failed and been repeated.
        let undone = "SELECT xact_rollback FROM pg_stat_database WHERE datname = current_database()";
        assert_eq!(site.number(undone).await, 0, "transactions were undone");
    })
}

/// Checks that no claim of this client can have the lock `a`, which the guard holds.
async fn is_kept(guard: &Guard, client: &Client) {
    let attempt = claim(client, "a").attempt().await.unwrap();
    still_held(guard);
    assert!(matches!(attempt, Attempt::Busy(_)), "{attempt:?}");
}

// Proves: B8, user-transaction
pub(crate) fn an_open_transaction_of_the_user_keeps_locks() -> Outcome {
    run(async {
        let site = Site::new();
        let client = site.client().await;
        let pool = PgPoolOptions::new().max_connections(1).connect_with(site.options()).await.unwrap();
        let mut transaction = pool.begin().await.unwrap();
        transaction.execute("SELECT pg_current_xact_id()").await.unwrap();
        let ttl = Duration::from_millis(600);
        let lock = client.lock("a").ttl(ttl).build().unwrap();
        let guard = lock.acquire().await.unwrap();
        tokio::time::sleep(ttl * 2).await;
        is_kept(&guard, &site.client().await).await;
        // The rollback doesn't undo the lock.
        transaction.rollback().await.unwrap();
        is_kept(&guard, &client).await;
        released(guard).await;
    })
}

// Proves: B21
pub(crate) fn the_users_pool_may_be_full() -> Outcome {
    run(async {
        let site = Site::new();
        let client = site.backend().connections(2).open(Options::default()).await.unwrap();
        let mut holder = claim(&client, "held");
        granted(&mut holder).await;
        free_row(&client, "a").await;
        // All calls that take locks wait for a row; a renewal has a connection of its own.
        let mut keeper = site.keep_row("a").await;
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..5 {
            let mut waits = claim(&client, "a");
            tasks.spawn(async move { waits.attempt().await });
        }
        until("one waits", async || site.waiting().await == 1).await;
        for _ in 0..5 {
            let renewal = within("the renewal", Duration::from_secs(1), holder.renew(TTL)).await;
            assert!(matches!(renewal.unwrap(), Renewal::Held { .. }));
        }
        keeper.execute("COMMIT").await.unwrap();
        tasks.join_all().await;
    })
}
