//! Takeovers: the lock goes to another owner of the same client, and is not free in between.

use std::time::{Duration, Instant};

use lock_conformance::claims::succeeded;
use lock_conformance::timing::within;
use lock_core::driver::{LossReason, Predecessor, Release, Renewal, Revocation, Takeover, When};
use lock_core::{Client, ErrorKind, Label, Name, Owner, OwnerBytes, Random};
use sqlx::Executor;

use super::statements::{settled, slow_down};
use super::{File, TTL, claim, granted, held, run};

const PATIENCE: Duration = Duration::from_secs(2);
const SHORT: Duration = Duration::from_millis(400);
const TOKEN: &str = "SELECT token FROM onelock_locks";

pub(crate) fn a_takeover_has_its_own_token_and_lease() {
    run(async {
        let file = File::new();
        let client = file.client().await;
        let (mut before, named, first) = held(&client, "a", PATIENCE).await;
        file.execute(
            "UPDATE onelock_locks SET expires = expires - 9000000000, token = token - 1000000, label = 'before'",
        )
        .await;
        let mut after = claim(&client, "a", PATIENCE);
        let (grant, others) = succeeded(&mut after, &named).await;
        assert!(grant.token.get() > first, "{grant:?} after {first}: it follows the clock");
        assert!(grant.valid_for <= TTL && grant.valid_for > TTL / 2, "{grant:?}");
        assert_eq!(others, Some(false));
        let of_it = format!(
            "SELECT count(*) FROM onelock_locks WHERE length(owner) = 16 AND label = 'a test' AND revoked IS NULL \
             AND token = {}",
            grant.token.get()
        );
        assert_eq!(file.number(&of_it).await, 1);
        assert_eq!(before.renew(TTL).await.unwrap(), Renewal::Lost(LossReason::Taken));
        assert_eq!(before.release().await.unwrap(), Release::NotHeld);
        assert_eq!(granted(&mut after).await, grant.token.get(), "an attempt finds the lock its own");
        assert!(matches!(after.release().await.unwrap(), Release::Released { .. }));
    });
}

pub(crate) fn a_token_ahead_of_the_clock_is_followed() {
    run(async {
        let file = File::new();
        let client = file.client().await;
        let (_, named, _) = held(&client, "a", PATIENCE).await;
        let ahead = 9_000_000_000_000_000_000_u64;
        file.execute(&format!("UPDATE onelock_locks SET token = {ahead}")).await;
        let (grant, _) = succeeded(&mut claim(&client, "a", PATIENCE), &named).await;
        assert_eq!(grant.token.get(), ahead + 1);
    });
}

pub(crate) fn a_predecessor_without_the_lock_has_no_successor() {
    run(async {
        let file = File::new();
        let client = file.client().await;
        let (mut before, named, _) = held(&client, "a", PATIENCE).await;
        file.execute("UPDATE onelock_locks SET boot = randomblob(16)").await;
        changes_nothing(&file, &client, &named, "its lease is of another boot").await;
        let (mut ended, of_ended, _) = held(&client, "a", PATIENCE).await;
        file.execute("UPDATE onelock_locks SET expires = 1").await;
        changes_nothing(&file, &client, &of_ended, "its lease has ended").await;
        ended.release().await.unwrap();
        before.release().await.unwrap();
        changes_nothing(&file, &client, &named, "it has released the lock").await;
        granted(&mut claim(&client, "a", PATIENCE)).await;
        changes_nothing(&file, &client, &named, "another owner holds the lock").await;
        file.execute("DELETE FROM onelock_locks").await;
        changes_nothing(&file, &client, &named, "there is no row").await;
        for when in [When::HoldersDeadline, When::Now] {
            let (_, named, _) = held(&client, "a", PATIENCE).await;
            let revoked = OwnerBytes::new(named.owner.as_bytes().to_vec());
            let (by, label) = (Owner::mint(&Random::system()), Label::new("ops"));
            let revocation = Revocation::new(revoked, by, label, when, PATIENCE);
            client.driver().revoke(&Name::new("a").unwrap(), revocation).await.unwrap();
            changes_nothing(&file, &client, &named, &format!("revoked, {when:?}")).await;
            file.execute("DELETE FROM onelock_locks").await;
        }
    });
}

async fn changes_nothing(file: &File, client: &Client, named: &Predecessor, why: &str) {
    let mut admin = file.admin().await;
    let version = async |admin: &mut _| {
        sqlx::query_scalar::<_, i64>("PRAGMA data_version").fetch_one(admin).await.unwrap()
    };
    let before = version(&mut admin).await;
    let outcome = claim(client, "a", PATIENCE).take_over(named).await.unwrap();
    assert_eq!(outcome, Takeover::NotHeld, "{why}");
    assert_eq!(version(&mut admin).await, before, "{why}");
}

pub(crate) fn one_that_is_done_after_its_patience_takes_nothing() {
    run(async {
        let file = File::new();
        let client = file.client().await;
        let (_, named, first) = held(&client, "a", PATIENCE).await;
        slow_down(&file).await;
        let started = Instant::now();
        let late = claim(&client, "a", SHORT).take_over(&named).await.unwrap_err();
        assert!(matches!(late.kind(), ErrorKind::Unavailable { .. }), "{late:?}");
        settled(&file).await;
        assert!(started.elapsed() > SHORT, "the statement must take longer than {SHORT:?}");
        assert_eq!(file.number(TOKEN).await.unsigned_abs(), first);
    });
}

/// The row comes before the statement takes effect, which the database's owner may have constraints against.
pub(crate) fn one_that_does_not_take_effect_is_none() {
    run(async {
        let file = File::new();
        let client = file.client().await;
        let (_, named, first) = held(&client, "a", PATIENCE).await;
        file.execute("CREATE TABLE parents (id INTEGER PRIMARY KEY)").await;
        file.execute("CREATE TABLE kids (p INTEGER REFERENCES parents (id) DEFERRABLE INITIALLY DEFERRED)")
            .await;
        file.execute(
            "CREATE TRIGGER bad AFTER UPDATE ON onelock_locks BEGIN INSERT INTO kids VALUES (7); END",
        )
        .await;
        let error = claim(&client, "a", PATIENCE).take_over(&named).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Rejected, "{error:?}");
        assert_eq!(file.number(TOKEN).await.unsigned_abs(), first);
    });
}

pub(crate) fn another_process_that_writes_is_waited_for() {
    run(async {
        let file = File::new();
        let client = file.client().await;
        let (_, named, _) = held(&client, "a", PATIENCE).await;
        let mut admin = file.admin().await;
        admin.execute("BEGIN IMMEDIATE").await.unwrap();
        let mut waits = claim(&client, "a", TTL / 2);
        let waiting = tokio::spawn(async move { succeeded(&mut waits, &named).await });
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert!(!waiting.is_finished());
        admin.execute("ROLLBACK").await.unwrap();
        waiting.await.unwrap();
    });
}

pub(crate) fn a_takeover_wakes_no_waiter_but_its_release_does() {
    run(async {
        let file = File::new();
        let (client, other) = (file.client().await, file.client().await);
        let (_, named, _) = held(&client, "a", PATIENCE).await;
        let mut waiter = claim(&other, "a", PATIENCE);
        waiter.listen().await.unwrap();
        let mut after = claim(&client, "a", PATIENCE);
        let (_, others) = succeeded(&mut after, &named).await;
        assert_eq!(others, Some(true));
        let no_news = tokio::time::timeout(Duration::from_millis(100), waiter.changed()).await;
        assert!(no_news.is_err(), "the lock was not free");
        assert_eq!(after.release().await.unwrap(), Release::Released { others: Some(true) });
        within("woken", Duration::from_secs(1), waiter.changed()).await;
    });
}
