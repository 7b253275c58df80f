//! RULES k1, k2 and e4: which statement is sent when, and by which clock.

use std::time::{Duration, Instant};

use lock_conformance::assert_in_time;
use lock_core::ErrorKind;
use lock_core::driver::{Attempt, LossReason, Release, Renewal};

use crate::On;
use crate::server::{
    PATIENCE, Server, TTL, claim, claim_for, execute, free_row, granted, is_busy, run, until,
};
use lock_conformance::timing::released;

const SHORT: Duration = Duration::from_millis(400);

const LEFT: &str = "SELECT expires - TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) FROM onelock_locks \
    WHERE name = 'a'";
const HELD: &str = "SELECT COUNT(*) FROM onelock_locks WHERE owner <> ''";

/// Waiters that look take no row lock, so a renewal doesn't queue behind them.
pub(crate) fn free_names_take_one_statement_held_ones_a_look(on: On) {
    run(async {
        let server = Server::start(on, &[]);
        let client = server.client().await;
        free_row(&client, "a").await;
        let (updates, selects) = (server.status("Com_update").await, server.status("Com_select").await);
        let mut holder = claim(&client, "a", PATIENCE);
        granted(&mut holder).await;
        assert_eq!(server.status("Com_update").await - updates, 1);
        assert_eq!(server.status("Com_select").await - selects, 0);

        let mut waiter = claim(&client, "a", PATIENCE);
        let began = Instant::now();
        for _ in 0..10 {
            assert!(is_busy(&mut waiter).await);
        }
        // One attempt in a second tries to take the lock: a look may be answered by a replica that lags behind.
        let asked = server.status("Com_update").await - updates - 1;
        assert!(asked > 0 && asked <= 1 + began.elapsed().as_secs(), "{asked}");
        assert_eq!(server.status("Com_select").await - selects, 10);
    });
}

// Proves: B8, request-late
pub(crate) fn an_attempt_that_waited_past_its_deadline_takes_nothing(on: On) {
    run(async {
        let server = Server::shared(on).await;
        let client = server.client().await;
        free_row(&client, "a").await;
        let mut raw = server.raw().await;
        execute(&mut raw, "BEGIN").await;
        execute(&mut raw, "UPDATE onelock_locks SET label = 'x'").await;
        let began = Instant::now();
        let error = claim(&client, "a", SHORT).attempt().await.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Unavailable { .. }), "{error:?}");
        assert_in_time!(began.elapsed() < SHORT + Duration::from_millis(400), "{:?}", began.elapsed());
        // The statement still waits, and is carried out after the commit.
        server.running("UPDATE", 1).await;
        assert_in_time!(began.elapsed() < Duration::from_secs(1), "the machine is too slow for this test");
        execute(&mut raw, "COMMIT").await;
        server.running("UPDATE", 0).await;
        assert_eq!(server.number(HELD).await, 0);
    });
}

// Proves: request-late
pub(crate) fn a_new_name_past_its_deadline_is_not_held(on: On) {
    run(async {
        let server = Server::shared(on).await;
        let client = server.client().await;
        let mut raw = server.raw().await;
        execute(&mut raw, "BEGIN").await;
        // It keeps other transactions from creating the row, but not from looking for it.
        execute(&mut raw, "SELECT name FROM onelock_locks WHERE name = 'a' FOR UPDATE").await;
        let began = Instant::now();
        let error = claim(&client, "a", SHORT).attempt().await.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Unavailable { .. }), "{error:?}");
        server.running("INSERT", 1).await;
        assert_in_time!(began.elapsed() < Duration::from_secs(1), "the machine is too slow for this test");
        execute(&mut raw, "ROLLBACK").await;
        server.running("UPDATE", 0).await;
        server.running("INSERT", 0).await;
        assert_eq!(server.number(HELD).await, 0);
    });
}

pub(crate) fn an_attempt_again_has_what_the_row_has_left(on: On) {
    run(async {
        let server = Server::shared(on).await;
        let client = server.client().await;
        let ttl = Duration::from_secs(3);
        let mut holder = claim_for(&client, "a", ttl, PATIENCE);
        let asked = Instant::now();
        let first = granted(&mut holder).await;
        assert_eq!(first.valid_for, ttl);
        tokio::time::sleep(Duration::from_secs(2)).await;
        let began = Instant::now();
        let again = granted(&mut holder).await;
        assert_in_time!(asked.elapsed() < ttl, "the lease may have ended before the second attempt");
        assert_eq!(again.token, first.token);
        assert!(again.valid_for > Duration::from_secs(1), "the lease counts from now: {:?}", again.valid_for);
        let left = Duration::from_micros(u64::try_from(server.number(LEFT).await).unwrap());
        assert!(again.valid_for <= left + began.elapsed(), "{:?}, but the row has {left:?}", again.valid_for);
    });
}

/// An open transaction has the row locked.
pub(crate) fn a_look_waits_for_no_transaction(on: On) {
    run(async {
        let server = Server::shared(on).await;
        let client = server.client().await;
        granted(&mut claim(&client, "a", PATIENCE)).await;
        let mut waiter = claim(&client, "a", PATIENCE);
        let asked = Instant::now();
        assert!(is_busy(&mut waiter).await);
        let mut raw = server.raw().await;
        execute(&mut raw, "BEGIN").await;
        execute(&mut raw, "UPDATE onelock_locks SET label = 'x'").await;
        let began = Instant::now();
        let attempt = waiter.attempt().await;
        assert_in_time!(
            asked.elapsed() < Duration::from_secs(1),
            "the next attempt may be one that takes the lock"
        );
        let attempt = attempt.unwrap();
        let Attempt::Busy(busy) = attempt else { panic!("{attempt:?}") };
        assert!(busy.free_in.is_some_and(|left| left <= TTL && left > TTL / 2), "{busy:?}");
        assert!(busy.holder.is_some(), "a look shows the holder");
        assert!(client.lock("a").build().unwrap().inspect().await.unwrap().holder.is_some());
        assert_in_time!(began.elapsed() < Duration::from_millis(800), "{:?}", began.elapsed());
        execute(&mut raw, "ROLLBACK").await;
    });
}

pub(crate) fn a_renewal_never_shortens_and_revives_nothing(on: On) {
    run(async {
        let server = Server::shared(on).await;
        let client = server.client().await;
        let mut holder = claim(&client, "a", PATIENCE);
        granted(&mut holder).await;
        let Renewal::Held { valid_for, .. } = holder.renew(Duration::from_secs(1)).await.unwrap() else {
            panic!("it is held")
        };
        assert!(valid_for > TTL - PATIENCE && valid_for <= TTL, "{valid_for:?}");
        server.execute("UPDATE onelock_locks SET expires = expires - 20000000").await;
        let ended = server.number("SELECT expires FROM onelock_locks").await;
        assert_eq!(holder.renew(TTL).await.unwrap(), Renewal::Lost(LossReason::Gone));
        assert_eq!(server.number("SELECT expires FROM onelock_locks").await, ended);
        assert_eq!(holder.release().await.unwrap(), Release::NotHeld);
    });
}

pub(crate) fn a_token_ahead_of_the_clock_sets_no_time(on: On) {
    run(async {
        let server = Server::shared(on).await;
        let client = server.client().await;
        free_row(&client, "a").await;
        // Ahead by an hour.
        server.execute("UPDATE onelock_locks SET token = token + 3600000000").await;
        let ahead = server.number("SELECT token FROM onelock_locks").await;
        let mut holder = claim(&client, "a", PATIENCE);
        assert_eq!(granted(&mut holder).await.token.get(), ahead.unsigned_abs() + 1);
        // The lock is freed without a release, which would tell the time.
        server.execute("UPDATE onelock_locks SET owner = '', expires = 0").await;
        let mut raw = server.raw().await;
        execute(&mut raw, "BEGIN").await;
        execute(&mut raw, "UPDATE onelock_locks SET label = 'x'").await;
        claim(&client, "a", SHORT).attempt().await.unwrap_err();
        execute(&mut raw, "COMMIT").await;
        server.running("UPDATE", 0).await;
        assert_eq!(server.number(HELD).await, 0, "the token was taken for the server's time");
    });
}

pub(crate) fn a_long_waiter_attempts_five_times_a_second(on: On) {
    run(async {
        let server = Server::start(on, &[]);
        let (client, other) = (server.client().await, server.client().await);
        let guard = client.lock("a").ttl(TTL * 10).build().unwrap().acquire().await.unwrap();
        let waiting = other.lock("a").build().unwrap();
        let waiting = tokio::spawn(async move { waiting.acquire().await.unwrap().release().await });
        let statements = async || server.status("Com_select").await + server.status("Com_update").await;
        tokio::time::sleep(Duration::from_secs(10)).await;
        let (began, before) = (Instant::now(), statements().await);
        tokio::time::sleep(Duration::from_secs(5)).await;
        let asked = statements().await - before;
        let most = (began.elapsed().as_secs_f64() * 5.0).ceil();
        assert!((asked as f64) <= most && asked > 10, "{asked} in {:?}", began.elapsed());
        released(guard).await;
        until("the waiter has it", async || waiting.is_finished()).await;
    });
}

/// A process uses this to let other clients have their turns, and to pause only if there are any.
pub(crate) fn a_release_knows_whether_others_wait(on: On) {
    run(async {
        let server = Server::start(on, &[]);
        let (client, other) = (server.client().await, server.client().await);
        let mut holder = claim(&client, "a", PATIENCE);
        granted(&mut holder).await;
        assert_eq!(holder.release().await.unwrap(), Release::Released { others: Some(false) });
        granted(&mut holder).await;
        let mut waiters: Vec<_> = (0..5).map(|_| claim(&other, "a", PATIENCE)).collect();
        let updates = server.status("Com_update").await;
        for waiter in &mut waiters {
            waiter.listen().await.unwrap();
        }
        // One mark is enough: if a hundred waiters all wrote, they would delay a renewal.
        assert_eq!(server.status("Com_update").await - updates, 1);
        assert_eq!(holder.release().await.unwrap(), Release::Released { others: Some(true) });
        server.execute("UPDATE onelock_locks SET waiting = waiting - 31000000").await;
        granted(&mut holder).await;
        assert_eq!(holder.release().await.unwrap(), Release::Released { others: Some(false) });
    });
}
