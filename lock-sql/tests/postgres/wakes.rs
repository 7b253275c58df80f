//! Wake-ups.

use std::time::{Duration, Instant};

use lock_core::driver::{Claim, Release, Revocation, When};
use lock_core::{Label, Name, Options, Owner, Random};
use sqlx::postgres::PgListener;

use crate::Outcome;
use crate::server::{Site, busy, claim, granted, run, until};

async fn woken(claim: &mut Box<dyn Claim>) -> bool {
    tokio::time::timeout(Duration::from_secs(2), claim.changed()).await.is_ok()
}

/// How many connections hear of releases in the table.
async fn listening(site: &Site) -> i64 {
    let channel = site.number("SELECT 'TABLE_'::regclass::oid::bigint").await;
    site.number(&format!(
        "SELECT count(*) FROM pg_stat_activity WHERE query = 'LISTEN \"onelock_{channel}\"'"
    ))
    .await
}

async fn connections(site: &Site) -> i64 {
    let all = "SELECT count(*) FROM pg_stat_activity
        WHERE pid <> pg_backend_pid() AND (query LIKE '%TABLE_\"%' OR query LIKE 'LISTEN \"onelock_' || 'TABLE_'::regclass::oid || '\"')";
    site.number(all).await
}

pub(crate) fn a_release_and_a_break_wake_who_listens() -> Outcome {
    run(async {
        let site = Site::new();
        let (ours, theirs) = (site.client().await, site.client().await);
        let mut holder = claim(&theirs, "é'");
        let mut waiter = claim(&ours, "é'");
        granted(&mut holder).await;
        busy(&mut waiter).await;
        waiter.listen().await.unwrap();
        assert_eq!(listening(&site).await, 1, "when listen returns");
        let mut other = claim(&ours, "another");
        granted(&mut other).await;
        other.release().await.unwrap();
        let quiet = tokio::time::timeout(Duration::from_millis(100), async {
            waiter.changed().await;
            waiter.changed().await;
        })
        .await;
        assert!(quiet.is_err(), "another lock's release wakes nobody");
        assert_eq!(holder.release().await.unwrap(), Release::Released { others: Some(true) });
        assert!(woken(&mut waiter).await);
        granted(&mut waiter).await;

        busy(&mut holder).await;
        holder.listen().await.unwrap();
        while tokio::time::timeout(Duration::from_millis(50), holder.changed()).await.is_ok() {}
        let (name, patience) = (Name::new("é'").unwrap(), Duration::from_secs(5));
        let shown = ours.driver().inspect(&name, patience).await.unwrap().holder.unwrap();
        let (by, label) = (Owner::mint(&Random::system()), Label::new("ops"));
        let revocation = Revocation { holder: shown.owner, by, label, when: When::Now, patience };
        ours.driver().revoke(&name, revocation).await.unwrap();
        assert!(woken(&mut holder).await);
        granted(&mut holder).await;
    })
}

pub(crate) fn nobody_is_notified_who_does_not_wait() -> Outcome {
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
        // What is heard is in its order: nothing came before.
        let first = listener.recv().await.unwrap();
        assert_eq!(first.payload(), "61");
        let more = tokio::time::timeout(Duration::from_millis(100), listener.recv()).await;
        assert!(more.is_err(), "{more:?}");
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
        waiter.listen().await.unwrap();
        let mark = async || site.number("SELECT waiting FROM TABLE_").await;
        let first = mark().await;
        busy(&mut other).await;
        other.listen().await.unwrap();
        assert_eq!(mark().await, first, "enough is left of it");
        // As it is when more than half of it has passed.
        site.execute("UPDATE TABLE_ SET waiting = waiting - 15000000").await;
        let start = Instant::now();
        until("the mark is refreshed by a look", async || {
            busy(&mut waiter).await;
            mark().await >= first
        })
        .await;
        assert!(start.elapsed() > Duration::from_secs(1), "looks don't write but every few seconds");
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
            assert!(woken(&mut waiter).await, "{theirs}");
        }
    })
}

pub(crate) fn a_feed_that_broke_is_restored_and_everybody_looks() -> Outcome {
    run(async {
        let site = Site::new();
        let client = site.client().await;
        let (mut holder, mut waiter) = (claim(&client, "a"), claim(&client, "a"));
        granted(&mut holder).await;
        busy(&mut waiter).await;
        waiter.listen().await.unwrap();
        while tokio::time::timeout(Duration::from_millis(50), waiter.changed()).await.is_ok() {}
        for _ in 0..3 {
            let kill = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
                WHERE query = 'LISTEN \"onelock_' || 'TABLE_'::regclass::oid || '\"'";
            assert_eq!(site.number(kill).await, 1);
            assert!(woken(&mut waiter).await, "what was told meanwhile is lost");
            until("it listens again", async || listening(&site).await == 1).await;
            assert!(woken(&mut waiter).await, "and once more after the gap");
        }
        holder.release().await.unwrap();
        assert!(woken(&mut waiter).await);
        granted(&mut waiter).await;
    })
}

pub(crate) fn who_leaves_takes_the_connections_along() -> Outcome {
    run(async {
        let site = Site::new();
        let client = site.client().await;
        let mut claims: Vec<_> = (0..50).map(|n| claim(&client, &format!("lock-{n}"))).collect();
        for claim in &mut claims {
            claim.listen().await.unwrap();
        }
        assert_eq!(listening(&site).await, 1, "one hears for all");
        drop((claims, client));
        until("the connections end with their client", async || connections(&site).await == 0).await;
    })
}
