//! Commits that take longer than a call.

use std::time::{Duration, Instant};

use lock_core::driver::{Attempt, Claim, Release};
use lock_core::{Client, Effect, ErrorKind};
use sqlx::{AssertSqlSafe, Executor};

use crate::Outcome;
use crate::server::{Site, claim, claim_within, free_row, held, run, start, until};

const PATIENCE: Duration = Duration::from_secs(1);

/// The core releases at once, and again when the patience has ended, and an answer to the second release ends the
/// matter. So that answer must not come before the commit, neither for a name without a row nor for one with a row.
pub(crate) fn a_grant_whose_commit_comes_late_is_given_back() -> Outcome {
    run(async {
        let server = start(&[]);
        let site = Site::on(server.url());
        let client = site.client().await;
        free_row(&client, "old").await;
        for name in ["old", "new"] {
            hold_commits(&site).await;
            let mut late = attempted(&site, &client, name).await;
            let releasing = tokio::spawn(async move { released(&mut late).await });
            until("the release is answered, or waits for the commit", async || {
                releasing.is_finished() || site.waiting().await > 0
            })
            .await;
            let_commits_go_on(&site).await;
            releasing.await.unwrap();
            until("the grant is committed", async || committing(&site).await == 0).await;
            let mut next = claim(&client, name);
            let attempt = next.attempt().await.unwrap();
            assert!(matches!(attempt, Attempt::Granted(_)), "{name}: it is free: {attempt:?}");
            next.release().await.unwrap();
        }
    })
}

/// Until the commit, every other transaction sees the predecessor in the row: an update doesn't see the successor there.
pub(crate) fn a_takeover_whose_commit_comes_late_is_given_back() -> Outcome {
    run(async {
        let server = start(&[]);
        let site = Site::on(server.url());
        let client = site.client().await;
        let (before, named, _) = held(&client, "a").await;
        hold_commits(&site).await;
        let mut late = claim_within(&client, "a", PATIENCE);
        let began = Instant::now();
        let error = late.take_over(&named).await.unwrap_err();
        still_commits(&site, began, &error).await;
        let releasing =
            [before, late].map(|mut claim| tokio::spawn(async move { released(&mut claim).await }));
        until("both releases are answered, or wait for the commit", async || {
            let answered = releasing.iter().filter(|release| release.is_finished()).count();
            i64::try_from(answered).unwrap() + site.waiting().await == 2
        })
        .await;
        let_commits_go_on(&site).await;
        let [of_before, of_late] = releasing;
        assert_eq!(of_before.await.unwrap(), Release::NotHeld, "it had a successor");
        of_late.await.unwrap();
        until("the takeover is committed", async || committing(&site).await == 0).await;
        let attempt = claim(&client, "a").attempt().await.unwrap();
        assert!(matches!(attempt, Attempt::Granted(_)), "it is free: {attempt:?}");
    })
}

/// Returns a claim whose attempt was not answered in time, and will still be carried out.
async fn attempted(site: &Site, client: &Client, name: &str) -> Box<dyn Claim> {
    let mut late = claim_within(client, name, PATIENCE);
    let began = Instant::now();
    let error = late.attempt().await.unwrap_err();
    still_commits(site, began, &error).await;
    late
}

/// Waits until the patience of a call is over whose statement has been carried out, and is not committed yet.
async fn still_commits(site: &Site, began: Instant, error: &lock_core::Error) {
    assert_eq!(error.kind(), ErrorKind::Unavailable { effect: Effect::Unknown }, "{error:?}");
    until("it commits", async || committing(site).await == 1).await;
    until("its patience has ended", async || began.elapsed() > PATIENCE).await;
}

async fn released(claim: &mut Box<dyn Claim>) -> Release {
    loop {
        match claim.release().await {
            Ok(release) => return release,
            Err(e) => assert!(e.is_transient(), "{e:?}"),
        }
    }
}

/// Makes commits wait for a standby that doesn't exist, and returns when a commit waits.
async fn hold_commits(site: &Site) {
    set(site, "nowhere").await;
    until("commits wait", async || {
        let mut admin = site.admin().await;
        let commit = "SET synchronous_commit = on; SELECT pg_logical_emit_message(true, 'a', 'b')";
        let commit = tokio::spawn(async move { admin.execute(sqlx::raw_sql(commit)).await.map(drop) });
        let waiting = async || {
            let waiting =
                "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND query LIKE '%emit%'";
            site.number(waiting).await > 0
        };
        until("it is done, or waits", async || commit.is_finished() || waiting().await).await;
        !commit.is_finished()
    })
    .await;
}

async fn let_commits_go_on(site: &Site) {
    set(site, "").await;
}

async fn set(site: &Site, standbys: &str) {
    let mut admin = site.admin().await;
    let set = format!("ALTER SYSTEM SET synchronous_standby_names = '{standbys}'");
    admin.execute(sqlx::raw_sql(AssertSqlSafe(set))).await.unwrap();
    admin.execute(sqlx::raw_sql("SELECT pg_reload_conf()")).await.unwrap();
}

/// Counts the statements on this table whose commits wait for the standby.
async fn committing(site: &Site) -> i64 {
    site.number(
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND query LIKE '%TABLE_\"%'",
    )
    .await
}
