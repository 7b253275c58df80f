//! Tests of wake-ups.

use std::time::{Duration, Instant};

use lock_conformance::timing::{still_held, void, within};
use lock_core::driver::{Claim, LossReason, Release, Revocation, When};
use lock_core::{Label, Name, Options, Owner, Random};
use sqlx::AssertSqlSafe;
use sqlx::postgres::{PgConnection, PgListener};

use crate::Outcome;
use crate::server::{Site, TTL, busy, claim, granted, run, until};

async fn woken(what: &str, claim: &mut Box<dyn Claim>) {
    within(what, Duration::from_secs(2), claim.changed()).await;
}

/// Returns the processes of the server whose sessions listen for releases in the table.
async fn listening(site: &Site) -> Vec<i32> {
    listening_by(&mut site.admin().await, &site.table).await
}

async fn listening_by(admin: &mut PgConnection, table: &str) -> Vec<i32> {
    let listening = format!(
        "SELECT pid FROM pg_stat_activity WHERE query = 'LISTEN \"onelock_' || '{table}'::regclass::oid || '\"'"
    );
    sqlx::query_scalar(AssertSqlSafe(listening)).fetch_all(admin).await.unwrap()
}

async fn connections(site: &Site) -> i64 {
    let all = "SELECT count(*) FROM pg_stat_activity
        WHERE pid <> pg_backend_pid() AND (query LIKE '%TABLE_\"%' OR query LIKE 'LISTEN \"onelock_' || 'TABLE_'::regclass::oid || '\"')";
    site.number(all).await
}

pub(crate) fn a_release_and_a_revoke_wake_listeners() -> Outcome {
    run(async {
        let site = Site::new();
        let (ours, theirs) = (site.client().await, site.client().await);
        let mut holder = claim(&theirs, "é'");
        let mut waiter = claim(&ours, "é'");
        granted(&mut holder).await;
        busy(&mut waiter).await;
        waiter.listen().await.unwrap();
        assert_eq!(listening(&site).await.len(), 1, "when listen returns");
        let mut other = claim(&ours, "another");
        granted(&mut other).await;
        other.release().await.unwrap();
        let quiet = tokio::time::timeout(Duration::from_millis(100), async {
            waiter.changed().await;
            waiter.changed().await;
        })
        .await;
        assert!(quiet.is_err(), "another lock's release wakes no waiter of this one");
        assert_eq!(holder.release().await.unwrap(), Release::Released { others: Some(true) });
        woken("the release wakes the waiter", &mut waiter).await;
        granted(&mut waiter).await;

        busy(&mut holder).await;
        holder.listen().await.unwrap();
        while tokio::time::timeout(Duration::from_millis(50), holder.changed()).await.is_ok() {}
        let (name, patience) = (Name::new("é'").unwrap(), Duration::from_secs(5));
        let shown = ours.driver().inspect(&name, patience).await.unwrap().holder.unwrap();
        let (by, label) = (Owner::mint(&Random::system()), Label::new("ops"));
        let revocation = Revocation::new(shown.owner, by, label, When::Now, patience);
        ours.driver().revoke(&name, revocation).await.unwrap();
        woken("the revoke wakes the waiter", &mut holder).await;
        granted(&mut holder).await;
    })
}

pub(crate) fn a_release_without_waiters_sends_no_notification() -> Outcome {
    run(async {
        let site = Site::new();
        let client = site.client().await;
        let channel = format!("onelock_{}", site.number("SELECT 'TABLE_'::regclass::oid::bigint").await);
        let pool = sqlx::postgres::PgPoolOptions::new().max_connections(1).connect_lazy_with(site.options());
        let mut listener = PgListener::connect_with(&pool).await.unwrap();
        listener.listen(&channel).await.unwrap();
        let mut holder = claim(&client, "a");
        for _ in 0..5 {
            granted(&mut holder).await;
            assert_eq!(holder.release().await.unwrap(), Release::Released { others: Some(false) });
        }
        granted(&mut holder).await;
        let mut waiter = claim(&client, "a");
        busy(&mut waiter).await;
        waiter.listen().await.unwrap();
        holder.release().await.unwrap();
        // Notifications arrive in their order, so there was none before this one.
        let first = listener.recv().await.unwrap();
        assert_eq!(first.payload(), "61#0");
        let more = tokio::time::timeout(Duration::from_millis(100), listener.recv()).await;
        assert!(more.is_err(), "{more:?}");
    })
}

/// Returns on how many connections the last statement was a look, which takes nothing.
async fn have_looked(site: &Site) -> i64 {
    let looks = "SELECT count(*) FROM pg_stat_activity
        WHERE pid <> pg_backend_pid() AND query LIKE '%LEFT JOIN%TABLE_\"%' AND query NOT LIKE '%INSERT%'";
    site.number(looks).await
}

pub(crate) fn waiters_count_releases_and_the_earliest_attempts_first() -> Outcome {
    run(async {
        let site = Site::new();
        let (ours, theirs) = (site.client().await, site.client().await);
        let channel = format!("onelock_{}", site.number("SELECT 'TABLE_'::regclass::oid::bigint").await);
        let pool = sqlx::postgres::PgPoolOptions::new().max_connections(1).connect_lazy_with(site.options());
        let mut listener = PgListener::connect_with(&pool).await.unwrap();
        let mut holder = claim(&theirs, "a");
        granted(&mut holder).await;
        let mut waiter = claim(&ours, "a");
        busy(&mut waiter).await;
        waiter.listen().await.unwrap();
        let release_of_one_that_heard = async |heard: u32| {
            site.execute(&format!("SELECT pg_notify('{channel}', '61#{heard}')")).await;
        };

        // The first release that it hears, and the last owner had heard eight: most of the others came before it.
        release_of_one_that_heard(8).await;
        woken("the release wakes the waiter", &mut waiter).await;
        busy(&mut waiter).await;
        assert_eq!(have_looked(&site).await, 1, "it looks, and finds the lock held");
        busy(&mut waiter).await;
        assert_eq!(have_looked(&site).await, 0, "without another release it asks");

        // The eighth.
        for _ in 0..7 {
            release_of_one_that_heard(8).await;
            woken("each release wakes the waiter", &mut waiter).await;
        }
        busy(&mut waiter).await;
        assert_eq!(have_looked(&site).await, 0, "it is its turn: it asks at once");

        // Those in front have gone: it looks, and then takes what is free.
        let mut late = claim(&ours, "a");
        busy(&mut late).await;
        late.listen().await.unwrap();
        release_of_one_that_heard(8).await;
        woken("the release wakes a waiter", &mut late).await;
        site.execute("UPDATE TABLE_ SET owner = '', expires = -1").await;
        granted(&mut late).await;
        drop(waiter);

        listener.listen(&channel).await.unwrap();
        let mut next = claim(&theirs, "a");
        busy(&mut next).await;
        next.listen().await.unwrap();
        late.release().await.unwrap();
        assert_eq!(
            listener.recv().await.unwrap().payload(),
            "61#1",
            "the owner that waited tells what it has heard"
        );
    })
}

pub(crate) fn a_mark_is_kept_up_and_never_shortened() -> Outcome {
    run(async {
        let site = Site::new();
        let client = site.client().await;
        let (mut holder, mut waiter, mut other) =
            (claim(&client, "a"), claim(&client, "a"), claim(&client, "a"));
        granted(&mut holder).await;
        busy(&mut waiter).await;
        let start = Instant::now();
        waiter.listen().await.unwrap();
        let mark = async || site.number("SELECT waiting FROM TABLE_").await;
        let first = mark().await;
        busy(&mut other).await;
        other.listen().await.unwrap();
        assert_eq!(mark().await, first, "enough is left of it");
        // This is the state after more than half of the mark's time.
        site.execute("UPDATE TABLE_ SET waiting = waiting - 15000000").await;
        until("the mark is refreshed by a look", async || {
            busy(&mut waiter).await;
            mark().await >= first
        })
        .await;
        assert!(start.elapsed() > Duration::from_secs(3), "a look writes a mark only every few seconds");
        site.execute("UPDATE TABLE_ SET waiting = waiting + 60000000").await;
        let longer = mark().await;
        claim(&client, "a").listen().await.unwrap();
        assert_eq!(mark().await, longer);
    })
}

pub(crate) fn a_table_is_heard_by_whatever_name() -> Outcome {
    run(async {
        let site = Site::new();
        let short = site.client().await;
        let long = site.backend().table(&format!("public.{}", site.table)).unwrap();
        let long = long.open(Options::default()).await.unwrap();
        let prefixed = site.backend().prefix("p:").unwrap().open(Options::default()).await.unwrap();
        for (one, other, theirs) in [(&short, &long, "a"), (&long, &short, "a"), (&prefixed, &long, "p:a")] {
            let (mut holder, mut waiter) = (claim(one, "a"), claim(other, theirs));
            granted(&mut holder).await;
            busy(&mut waiter).await;
            waiter.listen().await.unwrap();
            while tokio::time::timeout(Duration::from_millis(50), waiter.changed()).await.is_ok() {}
            holder.release().await.unwrap();
            woken(theirs, &mut waiter).await;
        }
    })
}

// Proves: flushed-or-killed
pub(crate) fn a_broken_feed_is_restored_and_all_claims_look() -> Outcome {
    run(async {
        let site = Site::new();
        let client = site.client().await;
        let (mut holder, mut waiter) = (claim(&client, "a"), claim(&client, "a"));
        granted(&mut holder).await;
        busy(&mut waiter).await;
        waiter.listen().await.unwrap();
        while tokio::time::timeout(Duration::from_millis(50), waiter.changed()).await.is_ok() {}
        let (mut admin, mut told_apart) = (site.admin().await, 0);
        for _ in 0..3 {
            let pids = listening(&site).await;
            let [killed] = pids[..] else { panic!("one connection listens for all: {pids:?}") };
            site.execute(&format!("SELECT pg_terminate_backend({killed})")).await;
            woken("the break wakes the waiter", &mut waiter).await;
            // Wake-ups that the claim has not received yet are merged. There is a second one if the claim received the
            // first before the gap ended.
            let in_the_gap = listening_by(&mut admin, &site.table).await.iter().all(|pid| *pid == killed);
            let listens_again = async || matches!(listening(&site).await[..], [pid] if pid != killed);
            until("it listens again", listens_again).await;
            if in_the_gap {
                woken("the new connection wakes it again", &mut waiter).await;
                told_apart += 1;
            }
        }
        if told_apart == 0 {
            void("each gap was over before it was noticed");
        }
        while tokio::time::timeout(Duration::from_millis(50), waiter.changed()).await.is_ok() {}
        holder.release().await.unwrap();
        woken("the release wakes the waiter", &mut waiter).await;
        granted(&mut waiter).await;
    })
}

pub(crate) fn a_dropped_client_closes_its_connections() -> Outcome {
    run(async {
        let site = Site::new();
        let client = site.client().await;
        let mut claims: Vec<_> = (0..50).map(|n| claim(&client, &format!("lock-{n}"))).collect();
        for claim in &mut claims {
            claim.listen().await.unwrap();
        }
        assert_eq!(listening(&site).await.len(), 1, "one connection listens for all");
        drop((claims, client));
        until("the connections end with their client", async || connections(&site).await == 0).await;
    })
}

/// The table is created anew, as after a restore: it has another number, and so its channel has another name.
pub(crate) fn a_table_that_was_made_anew_is_heard() -> Outcome {
    run(async {
        let site = Site::new();
        let (ours, theirs) = (site.client().await, site.client().await);
        let lock = |name: &str| ours.lock(name).ttl(TTL).build().unwrap();
        let before = lock("before").acquire().await.unwrap();
        until("it listens", async || listening(&site).await.len() == 1).await;
        site.execute(&format!("DROP TABLE TABLE_; {}", site.backend().schema())).await;
        let guard = lock("a").acquire().await.unwrap();
        // The grant's answer contains the number of the new table, so no look is needed.
        let hears = until("it listens for the new one", async || listening(&site).await.len() == 1);
        within("listening", Duration::from_secs(2), hears).await;
        let (name, patience) = (Name::new("a").unwrap(), Duration::from_secs(5));
        let shown = theirs.driver().inspect(&name, patience).await.unwrap().holder.unwrap();
        let (by, label) = (Owner::mint(&Random::system()), Label::new("ops"));
        let revocation = Revocation::new(shown.owner, by, label, When::Now, patience);
        theirs.driver().revoke(&name, revocation).await.unwrap();
        let told = within("the holder is told of the revoke", Duration::from_secs(1), guard.lost()).await;
        assert_eq!(told, LossReason::Revoked);
        drop(before);
    })
}

/// If a client sends no more requests, only its connection for wake-ups can find the new table.
pub(crate) fn a_table_that_was_made_anew_is_looked_for() -> Outcome {
    run(async {
        let site = Site::new();
        let client = site.client().await;
        let lock = client.lock("a").ttl(TTL).build().unwrap();
        let guard = lock.acquire().await.unwrap();
        until("it listens", async || listening(&site).await.len() == 1).await;
        let copy = "CREATE TABLE copy_of_TABLE_ (LIKE TABLE_ INCLUDING ALL); INSERT INTO copy_of_TABLE_ TABLE TABLE_";
        let comment = "COMMENT ON TABLE TABLE_ IS 'onelock schema 1'";
        site.execute(&format!(
            "{copy}; DROP TABLE TABLE_; ALTER TABLE copy_of_TABLE_ RENAME TO TABLE_; {comment}"
        ))
        .await;
        until("it listens for the new one", async || listening(&site).await.len() == 1).await;
        still_held(&guard);
        // Its feed may break, and then asks for the table as well.
        let pids = listening(&site).await;
        site.execute(&format!("SELECT pg_terminate_backend({})", pids[0])).await;
        let again = async || matches!(listening(&site).await[..], [pid] if pid != pids[0]);
        until("it listens again", again).await;
    })
}

/// A waiter refreshes its mark, and the answer contains the number of the table that has the mark.
pub(crate) fn a_waiter_is_notified_in_a_recreated_table() -> Outcome {
    run(async {
        let site = Site::new();
        let (ours, theirs) = (site.client().await, site.client().await);
        let (mut holder, mut waiter) = (claim(&theirs, "a"), claim(&ours, "a"));
        granted(&mut holder).await;
        busy(&mut waiter).await;
        waiter.listen().await.unwrap();
        site.execute(&format!("DROP TABLE TABLE_; {}", site.backend().schema())).await;
        granted(&mut claim(&theirs, "a")).await;
        until("the mark is left in the new one", async || {
            busy(&mut waiter).await;
            site.number("SELECT waiting FROM TABLE_").await > 0
        })
        .await;
        assert_eq!(listening(&site).await.len(), 1, "it listens for the table that has its mark");
    })
}
