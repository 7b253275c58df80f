//! RULE j3: a look writes nothing, and a statement that comes too late is undone.

use std::time::{Duration, Instant};

use futures_util::future::poll_immediate;
use lock_conformance::timing::Answered;
use lock_conformance::{assert_in_time, patience};
use lock_core::ErrorKind;
use lock_core::driver::{Attempt, Level, Renewal};
use lock_core::{Effect, Options};
use lock_sql::sqlite::{self, Sqlite};
use sqlx::Executor;

use super::{File, TTL, claim, granted, run};

const PATIENCE: Duration = Duration::from_millis(400);
/// No call runs out of it.
const LONG: Duration = Duration::from_secs(20);

/// Makes every statement that changes a row take longer than a call may.
const SLOW: &str = "CREATE TRIGGER slow_{} BEFORE {} ON onelock_locks BEGIN
  SELECT count(*) FROM (WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 6000000) SELECT i FROM n);
END";

pub(crate) async fn slow_down(file: &File) {
    for verb in ["INSERT", "UPDATE"] {
        file.execute(&SLOW.replace("{}", verb)).await;
    }
}

/// Waits until no connection writes any more.
pub(crate) async fn settled(file: &File) {
    let mut admin = file.options().busy_timeout(Duration::from_secs(30));
    let mut admin = sqlx::ConnectOptions::connect({
        admin = admin.create_if_missing(false);
        &admin
    })
    .await
    .unwrap();
    admin.execute("BEGIN IMMEDIATE").await.unwrap();
    admin.execute("ROLLBACK").await.unwrap();
}

// Proves: request-late
pub(crate) fn an_attempt_done_after_its_patience_takes_nothing() {
    run(async {
        let file = File::new();
        let client = file.client().await;
        let mut first = claim(&client, "a", PATIENCE);
        granted(&mut first).await;
        first.release().await.unwrap();
        slow_down(&file).await;
        let started = Instant::now();
        let late = claim(&client, "a", PATIENCE).attempt().await.unwrap_err();
        assert!(matches!(late.kind(), ErrorKind::Unavailable { .. }), "{late:?}");
        assert_in_time!(started.elapsed() < PATIENCE + Duration::from_millis(300), "{:?}", started.elapsed());
        settled(&file).await;
        assert!(started.elapsed() > PATIENCE, "the statement must take longer than {PATIENCE:?}");
        assert_eq!(file.number("SELECT count(*) FROM onelock_locks WHERE length(owner) > 0").await, 0);
    });
}

pub(crate) fn a_renewal_done_after_its_patience_renews_nothing() {
    run(async {
        let file = File::new();
        let client = file.client().await;
        let mut holder = claim(&client, "a", PATIENCE);
        granted(&mut holder).await;
        let before = file.number("SELECT expires FROM onelock_locks").await;
        slow_down(&file).await;
        let late = holder.renew(TTL).await.unwrap_err();
        assert!(matches!(late.kind(), ErrorKind::Unavailable { .. }), "{late:?}");
        settled(&file).await;
        assert_eq!(file.number("SELECT expires FROM onelock_locks").await, before);
    });
}

/// If the attempt didn't know this, a waiter would sleep until a wake-up or the next look, whatever has become of the
/// lock.
pub(crate) fn a_losing_attempt_knows_the_holder_and_lease() {
    run(async {
        let file = File::new();
        let client = file.client().await;
        let mut before = claim(&client, "a", TTL);
        granted(&mut before).await;
        before.release().await.unwrap();
        // This runs right before the row is written, and so after the look.
        file.execute(
            "CREATE TRIGGER faster BEFORE INSERT ON onelock_locks BEGIN UPDATE onelock_locks SET
               owner = x'abababababababababababababababab', label = 'faster', boot = NEW.boot, expires = NEW.expires
             WHERE name = NEW.name; END",
        )
        .await;
        let attempt = claim(&client, "a", TTL).attempt().await.unwrap();
        let Attempt::Busy(busy) = attempt else { panic!("{attempt:?}") };
        let free_in = busy.free_in.expect("it says when the lock will be free");
        assert!(free_in <= TTL, "{free_in:?}");
        assert_eq!(busy.holder.unwrap().label.as_deref(), Some("faster"));
    });
}

// Proves: sqlite-stopped-write, holder-stopped, user-transaction
/// Another connection has the right to write, and keeps it.
pub(crate) fn looks_need_no_write_right_and_writes_fail_promptly() {
    run(async {
        let file = File::new();
        let (client, other) = (file.client().await, file.client().await);
        let mut holder = claim(&client, "a", PATIENCE);
        granted(&mut holder).await;
        let mut admin = file.admin().await;
        admin.execute("BEGIN IMMEDIATE").await.unwrap();
        let version = file.number("PRAGMA data_version").await;
        for _ in 0..3 {
            let attempt = claim(&other, "a", PATIENCE).attempt().await.unwrap();
            let Attempt::Busy(busy) = attempt else { panic!("{attempt:?}") };
            let left = busy.free_in.unwrap();
            assert!(left <= TTL, "{busy:?}");
            assert_in_time!(left > TTL / 2, "{busy:?}");
            assert!(busy.holder.is_some(), "a look shows the holder");
        }
        assert_eq!(file.number("PRAGMA data_version").await, version);
        let started = Instant::now();
        for error in [
            claim(&other, "b", PATIENCE).attempt().await.unwrap_err(),
            holder.renew(TTL).await.unwrap_err(),
            holder.release().await.unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::Unavailable { effect: Effect::NotApplied }, "{error:?}");
        }
        assert_in_time!(
            started.elapsed() < PATIENCE * 3 + Duration::from_millis(300),
            "{:?}",
            started.elapsed()
        );
        let options = Options::default().patience(PATIENCE);
        let writable = |findings: Vec<lock_core::driver::Finding>| {
            findings.into_iter().find(|finding| finding.subject == "writable").unwrap().level
        };
        let third = Sqlite::from(file.options()).open(options).await.unwrap();
        assert_eq!(writable(third.check().await.unwrap()), Level::Unknown);
        admin.execute("ROLLBACK").await.unwrap();
        assert_eq!(writable(third.check().await.unwrap()), Level::Good);
        assert!(matches!(holder.renew(TTL).await.unwrap(), Renewal::Held { .. }));
    });
}

/// Another process that is stopped in the middle of a write keeps all writes waiting, and no looks.
pub(crate) fn a_look_waits_for_no_own_write() {
    run(async {
        let file = File::new();
        let client = file.client().await;
        let mut holder = claim(&client, "a", LONG);
        granted(&mut holder).await;
        let mut admin = file.admin().await;
        admin.execute("BEGIN IMMEDIATE").await.unwrap();
        let mut renewing = Box::pin(holder.renew(TTL));
        assert!(poll_immediate(&mut renewing).await.is_none());
        let attempt = claim(&client, "a", LONG).attempt().await;
        assert!(matches!(attempt, Ok(Attempt::Busy(_))), "{attempt:?}");
        assert!(poll_immediate(&mut renewing).await.is_none(), "the write waits");
        admin.execute("ROLLBACK").await.unwrap();
        assert!(matches!(renewing.await.unwrap(), Renewal::Held { .. }));
    });
}

/// If a try is cut short at its last moment, it is not known whether it did nothing.
pub(crate) fn a_write_is_refused_in_time_to_hear_it() {
    run(async {
        let file = File::new();
        let client = file.client().await;
        let mut admin = file.admin().await;
        admin.execute("BEGIN IMMEDIATE").await.unwrap();
        let mut spare = Vec::new();
        // A try begins every 8 ms, so these patiences end at different moments between two tries.
        for patience in (60..77).map(Duration::from_millis) {
            let started = Instant::now();
            let refused = claim(&client, "a", patience).attempt().await;
            spare.push(patience.saturating_sub(started.elapsed()));
            let error = refused.expect_err("another client writes");
            assert!(matches!(error.kind(), ErrorKind::Unavailable { .. }), "{error:?}");
        }
        spare.sort();
        // Half of them must do so, because the machine may have delayed any of them.
        assert_in_time!(spare[spare.len() / 2] > Duration::from_millis(8), "{spare:?}");
    });
}

pub(crate) fn the_patience_is_the_urls() {
    run(async {
        let file = File::new();
        let client = sqlite::connect(&format!("{}?patience=700ms", file.url())).answered().await;
        let mut admin = file.admin().await;
        admin.execute("BEGIN EXCLUSIVE").await.unwrap();
        patience::is_the_urls(&client, Duration::from_millis(700)).await;
        admin.execute("ROLLBACK").await.unwrap();
    });
}

// Proves: statement-undone
pub(crate) fn a_write_waits_for_other_processes_within_its_time() {
    run(async {
        let file = File::new();
        let client = file.client().await;
        let mut admin = file.admin().await;
        admin.execute("BEGIN IMMEDIATE").await.unwrap();
        let mut attempt = claim(&client, "a", Duration::from_secs(5));
        let attempt = tokio::spawn(async move { granted(&mut attempt).await });
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert!(!attempt.is_finished());
        admin.execute("ROLLBACK").await.unwrap();
        attempt.await.unwrap();
    });
}

/// The database's owner may have constraints that refuse a grant when it is to take effect, after the row that reports
/// the grant.
pub(crate) fn a_grant_that_does_not_take_effect_is_none() {
    run(async {
        let file = File::new();
        let client = file.client().await;
        file.execute("CREATE TABLE parents (id INTEGER PRIMARY KEY)").await;
        file.execute("CREATE TABLE kids (p INTEGER REFERENCES parents (id) DEFERRABLE INITIALLY DEFERRED)")
            .await;
        file.execute(
            "CREATE TRIGGER bad AFTER INSERT ON onelock_locks BEGIN INSERT INTO kids VALUES (7); END",
        )
        .await;
        let error = claim(&client, "a", PATIENCE).attempt().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Rejected, "{error:?}");
        assert_eq!(file.number("SELECT count(*) FROM onelock_locks").await, 0);
    });
}
