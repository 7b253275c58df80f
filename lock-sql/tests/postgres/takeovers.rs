//! Takeovers: the lock goes to another owner of the same client, and is not free in between.

use std::time::{Duration, Instant};

use lock_conformance::Step;
use lock_core::driver::{LossReason, Predecessor, Release, Renewal, Revocation, Takeover, When};
use lock_core::{Client, Effect, ErrorKind, Label, Name, Owner, OwnerBytes, Random};
use sqlx::Executor;
use sqlx::postgres::PgListener;

use crate::Outcome;
use crate::clock::with_clock;
use crate::server::{Site, TTL, busy, claim, claim_within, granted, held, run, succeeded, until};

const NOW: &str = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint";

pub(crate) fn a_takeover_has_its_own_token_and_lease() -> Outcome {
    run(async {
        let site = Site::new();
        let client = site.client().await;
        let (mut before, named, first) = held(&client, "a").await;
        site.execute(&format!("UPDATE TABLE_ SET expires = {NOW} + 1000000, label = 'before'")).await;
        let now = site.number(&format!("SELECT {NOW}")).await.unsigned_abs();
        let mut after = claim(&client, "a");
        let (grant, others) = succeeded(&mut after, &named).await;
        assert!(grant.token > first.token && grant.token.get() >= now, "{grant:?} after {first:?}");
        assert!(grant.valid_for <= TTL && grant.valid_for > TTL / 2, "{grant:?}");
        assert_eq!(others, Some(false));
        let held_by_it =
            "SELECT count(*) FROM TABLE_ WHERE owner <> '' AND label = 'a test' AND revoked IS NULL";
        assert_eq!(site.number(held_by_it).await, 1);
        assert_eq!(before.renew(TTL).await.unwrap(), Renewal::Lost(LossReason::Taken));
        assert_eq!(before.release().await.unwrap(), Release::NotHeld);
        assert_eq!(granted(&mut after).await.token, grant.token, "an attempt finds the lock its own");
        // A token that is ahead of the clock is followed.
        site.execute("UPDATE TABLE_ SET token = token + 3600000000").await;
        let ahead = site.number("SELECT token FROM TABLE_").await.unsigned_abs();
        assert!(matches!(after.release().await.unwrap(), Release::Released { .. }));
        let (_, named, _) = held(&client, "a").await;
        let (grant, _) = succeeded(&mut claim(&client, "a"), &named).await;
        assert_eq!(grant.token.get(), ahead + 2);
    })
}

pub(crate) fn a_predecessor_without_the_lock_has_no_successor() -> Outcome {
    run(async {
        let site = Site::new();
        let client = site.client().await;
        let (mut before, named, _) = held(&client, "a").await;
        site.execute(&format!("UPDATE TABLE_ SET expires = {NOW} - 1")).await;
        changes_nothing(&site, &client, &named, "its lease has ended").await;
        before.release().await.unwrap();
        changes_nothing(&site, &client, &named, "it has released the lock").await;
        granted(&mut claim(&client, "a")).await;
        changes_nothing(&site, &client, &named, "another owner holds the lock").await;
        site.execute("DELETE FROM TABLE_").await;
        changes_nothing(&site, &client, &named, "there is no row").await;
        for when in [When::HoldersDeadline, When::Now] {
            let (_, named, _) = held(&client, "a").await;
            let revoked = OwnerBytes::new(named.owner.as_bytes().to_vec());
            let (by, label) = (Owner::mint(&Random::system()), Label::new("ops"));
            let revocation = Revocation::new(revoked, by, label, when, Duration::from_secs(5));
            client.driver().revoke(&Name::new("a").unwrap(), revocation).await.unwrap();
            changes_nothing(&site, &client, &named, &format!("revoked, {when:?}")).await;
            site.execute("DELETE FROM TABLE_").await;
        }
    })
}

async fn changes_nothing(site: &Site, client: &Client, named: &Predecessor, why: &str) {
    let version = "SELECT coalesce(max(xmin::text::bigint), 0) FROM TABLE_";
    let before = site.number(version).await;
    assert_eq!(claim(client, "a").take_over(named).await.unwrap(), Takeover::NotHeld, "{why}");
    assert_eq!(site.number(version).await, before, "{why}");
}

pub(crate) fn a_takeover_past_its_patience_takes_nothing() -> Outcome {
    run(async {
        let site = Site::new();
        let client = site.client().await;
        let (mut before, named, first) = held(&client, "a").await;
        let mut keeper = site.keep_row("a").await;
        let mut late = claim_within(&client, "a", Duration::from_millis(300));
        let error = late.take_over(&named).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable { effect: Effect::Unknown }, "{error:?}");
        until("it is on its way", async || site.waiting().await == 1).await;
        keeper.execute("COMMIT").await.unwrap();
        until("the statement is done", async || site.waiting().await == 0).await;
        let end = Instant::now() + Duration::from_millis(300);
        while Instant::now() < end {
            let token = site.number("SELECT token FROM TABLE_").await.unsigned_abs();
            assert_eq!(token, first.token.get(), "it took the lock after its patience");
        }
        assert!(matches!(before.renew(TTL).await.unwrap(), Renewal::Held { .. }));
    })
}

pub(crate) fn the_lease_counts_from_before_the_row_wait() -> Outcome {
    run(async {
        let site = Site::new();
        let client = site.client().await;
        for how in ["", "UPDATE TABLE_ SET expires = expires + 1;"] {
            let (_, named, first) = held(&client, "a").await;
            let mut keeper = site.keep_row("a").await;
            let mut waits = claim(&client, "a");
            let waiting = tokio::spawn(async move { (succeeded(&mut waits, &named).await.0, waits) });
            until("it waits", async || site.waiting().await == 1).await;
            tokio::time::sleep(Duration::from_millis(200)).await;
            let end = format!("{how} COMMIT").replace("TABLE_", &site.table);
            keeper.execute(sqlx::raw_sql(sqlx::AssertSqlSafe(end))).await.unwrap();
            let (grant, mut after) = waiting.await.unwrap();
            assert!(grant.token > first.token, "{how}");
            assert!(grant.valid_for <= TTL - Duration::from_millis(200), "{how}: {grant:?}");
            after.release().await.unwrap();
        }
    })
}

/// The predecessor's lease ends while the takeover waits for the row, by the clock or by a change of the row.
pub(crate) fn a_lease_ending_in_a_row_wait_is_over() -> Outcome {
    run(async {
        let site = Site::new();
        let client = site.client().await;
        for (lasts, how) in [(500_000, ""), (5_000_000, "UPDATE TABLE_ SET expires = expires - 5000000;")] {
            let (mut before, named, first) = held(&client, "a").await;
            site.execute(&format!("UPDATE TABLE_ SET expires = {NOW} + {lasts}")).await;
            let mut keeper = site.keep_row("a").await;
            let mut waits = claim(&client, "a");
            let waiting = tokio::spawn(async move { waits.take_over(&named).await.unwrap() });
            until("it waits", async || site.waiting().await == 1).await;
            let is_live = format!("SELECT count(*) FROM TABLE_ WHERE expires > {NOW}");
            let has_ended = async || !how.is_empty() || site.number(&is_live).await == 0;
            until("the lease has ended", has_ended).await;
            let end = format!("{how} COMMIT").replace("TABLE_", &site.table);
            keeper.execute(sqlx::raw_sql(sqlx::AssertSqlSafe(end))).await.unwrap();
            assert_eq!(waiting.await.unwrap(), Takeover::NotHeld, "{how}");
            assert_eq!(site.number("SELECT token FROM TABLE_").await.unsigned_abs(), first.token.get());
            before.release().await.unwrap();
        }
    })
}

pub(crate) fn one_refused_for_an_old_estimate_is_sent_again() -> Outcome {
    let server = with_clock(&[])?;
    run(async {
        let site = Site::on(server.url());
        let client = site.client().await;
        let (_, named, _) = held(&client, "a").await;
        // Its deadline is in the past, but the refusal tells the server's time. The lease of the predecessor goes on.
        server.step_clock(Step::Forward(TTL / 2)).unwrap();
        succeeded(&mut claim(&client, "a"), &named).await;
        // Now the lease has ended as well.
        let (_, named, _) = held(&client, "b").await;
        server.step_clock(Step::Forward(TTL * 2)).unwrap();
        assert_eq!(claim(&client, "b").take_over(&named).await.unwrap(), Takeover::NotHeld);
    })
}

pub(crate) fn a_takeover_wakes_no_waiter_but_its_release_does() -> Outcome {
    run(async {
        let site = Site::new();
        let client = site.client().await;
        let channel = format!("onelock_{}", site.number("SELECT 'TABLE_'::regclass::oid::bigint").await);
        let pool = sqlx::postgres::PgPoolOptions::new().max_connections(1).connect_lazy_with(site.options());
        let mut listener = PgListener::connect_with(&pool).await.unwrap();
        listener.listen(&channel).await.unwrap();
        let (_, named, _) = held(&client, "a").await;
        let mut waiter = claim(&client, "a");
        busy(&mut waiter).await;
        waiter.listen().await.unwrap();
        let mark = async || site.number("SELECT waiting FROM TABLE_").await;
        let marked = mark().await;
        let mut after = claim(&client, "a");
        let (_, others) = succeeded(&mut after, &named).await;
        assert_eq!((others, mark().await), (Some(true), marked), "the mark stays as it is");
        let none = tokio::time::timeout(Duration::from_millis(100), listener.recv()).await;
        assert!(none.is_err(), "{none:?}");
        assert_eq!(after.release().await.unwrap(), Release::Released { others: Some(true) });
        assert_eq!(listener.recv().await.unwrap().payload(), "61#0");
        // A mark that has ended counts no more.
        let (_, named, _) = held(&client, "a").await;
        site.execute("UPDATE TABLE_ SET waiting = waiting - 20000000").await;
        let (_, others) = succeeded(&mut claim(&client, "a"), &named).await;
        assert_eq!(others, Some(false));
    })
}
