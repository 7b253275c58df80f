//! Tests of the statements.

use std::time::{Duration, Instant};

use lock_conformance::assert_in_time;
use lock_core::driver::{LossReason, Release, Renewal, Revocation, When};
use lock_core::{Effect, ErrorKind, Label, Name, Owner, Random};
use sqlx::{Executor, Row};

use crate::Outcome;
use crate::server::{Site, TTL, busy, claim, claim_within, free_row, granted, run, until};

const NOW: &str = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint";

// Proves: B8, request-late
pub(crate) fn an_attempt_past_its_patience_at_a_row_fails() -> Outcome {
    run(async {
        let site = Site::new();
        let client = site.client().await;
        free_row(&client, "a").await;
        let mut keeper = site.keep_row("a").await;
        let error = claim_within(&client, "a", Duration::from_millis(300)).attempt().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable { effect: Effect::Unknown }, "{error:?}");
        until("the attempt is on its way", async || site.waiting().await == 1).await;
        keeper.execute("COMMIT").await.unwrap();
        until("the statement is done", async || site.waiting().await == 0).await;
        let held = format!("SELECT count(*) FROM TABLE_ WHERE expires > {NOW} OR owner <> ''");
        let end = Instant::now() + Duration::from_millis(300);
        while Instant::now() < end {
            assert_eq!(site.number(&held).await, 0, "the attempt took the lock after its patience");
        }
    })
}

/// A name that has never been held has no row whose conditions could refuse it.
pub(crate) fn a_late_attempt_at_a_new_name_takes_nothing() -> Outcome {
    run(async {
        let site = Site::new();
        let client = site.client().await;
        let mut keeper = site.keep_table().await;
        let error = claim_within(&client, "a", Duration::from_millis(300)).attempt().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable { effect: Effect::Unknown }, "{error:?}");
        until("the attempt is on its way", async || site.waiting().await == 1).await;
        keeper.execute("COMMIT").await.unwrap();
        until("the statement is done", async || site.waiting().await == 0).await;
        let end = Instant::now() + Duration::from_millis(300);
        while Instant::now() < end {
            assert_eq!(
                site.number("SELECT count(*) FROM TABLE_").await,
                0,
                "it took the lock after its patience"
            );
        }
    })
}

pub(crate) fn an_attempt_waiting_within_its_patience_takes_the_row() -> Outcome {
    run(async {
        let site = Site::new();
        let client = site.client().await;
        let mut before = claim(&client, "a");
        let first = granted(&mut before).await.token;
        before.release().await.unwrap();
        let mut keeper = site.keep_row("a").await;
        let mut waits = claim(&client, "a");
        let waiting = tokio::spawn(async move { granted(&mut waits).await });
        until("it waits", async || site.waiting().await == 1).await;
        tokio::time::sleep(Duration::from_millis(200)).await;
        keeper.execute("COMMIT").await.unwrap();
        let grant = waiting.await.unwrap();
        assert!(grant.token > first);
        // Its lease counts from before the wait.
        assert!(grant.valid_for <= TTL - Duration::from_millis(200), "{grant:?}");
    })
}

/// If the attempt didn't know this, a waiter would sleep until a wake-up or the next look, whatever has become of the
/// lock.
pub(crate) fn a_losing_attempt_knows_the_holder_and_lease() -> Outcome {
    run(async {
        let site = Site::new();
        let client = site.client().await;
        free_row(&client, "a").await;
        let mut faster = site.keep_row("a").await;
        let mut loses = claim(&client, "a");
        let attempt = tokio::spawn(async move { busy(&mut loses).await });
        until("it has looked, and waits for the row", async || site.waiting().await == 1).await;
        let take = format!(
            "UPDATE {} SET owner = decode(repeat('ab', 16), 'hex'), label = 'faster', expires = {NOW} + 60000000; COMMIT",
            site.table
        );
        faster.execute(sqlx::raw_sql(sqlx::AssertSqlSafe(take))).await.unwrap();
        let busy = attempt.await.unwrap();
        let free_in = busy.free_in.expect("it says when the lock will be free");
        assert!(free_in > Duration::from_secs(30) && free_in <= Duration::from_secs(60), "{free_in:?}");
        assert_eq!(busy.holder.unwrap().label.as_deref(), Some("faster"));
    })
}

pub(crate) fn a_busy_look_neither_writes_nor_waits() -> Outcome {
    run(async {
        let site = Site::new();
        let client = site.client().await;
        let mut holder = claim(&client, "a");
        granted(&mut holder).await;
        let mut keeper = site.keep_row("a").await;
        let version = "SELECT xmin::text::bigint FROM TABLE_";
        let before = site.number(version).await;
        let mut other = claim_within(&client, "a", Duration::from_secs(1));
        for _ in 0..10 {
            let busy = busy(&mut other).await;
            assert!(busy.free_in.unwrap() <= TTL, "{busy:?}");
            assert!(busy.holder.is_some(), "the attempt shows the holder");
        }
        assert_eq!(site.number(version).await, before);
        keeper.execute("COMMIT").await.unwrap();
        let Renewal::Held { .. } = holder.renew(TTL).await.unwrap() else { panic!("it is held") };
    })
}

pub(crate) fn a_repeated_attempt_has_its_token_and_remaining_lease() -> Outcome {
    run(async {
        let site = Site::new();
        let client = site.client().await;
        let mut holder = claim(&client, "a");
        let first = granted(&mut holder).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        let began = Instant::now();
        let again = granted(&mut holder).await;
        assert_eq!(again.token, first.token);
        let left = site.number(&format!("SELECT expires - {NOW} FROM TABLE_")).await;
        let left = Duration::from_micros(left.unsigned_abs());
        assert!(again.valid_for <= TTL && left <= again.valid_for, "{again:?}, {left:?} in the row");
        assert!(left + began.elapsed() >= TTL, "the lease lasts a whole ttl again, and not {left:?}");
        // The grant lasts as long as the row says, and not for an assumed ttl; and the lease is never shortened.
        site.execute(&format!("UPDATE TABLE_ SET expires = {NOW} + 60000000")).await;
        let longer = granted(&mut holder).await;
        assert_eq!(longer.token, first.token);
        assert!(longer.valid_for > Duration::from_secs(50), "{longer:?}");
        site.execute("UPDATE TABLE_ SET expires = 1").await;
        assert!(granted(&mut holder).await.token > first.token, "it had ended in between");
    })
}

pub(crate) fn renewals_never_shorten_and_bring_nothing_back() -> Outcome {
    run(async {
        let site = Site::new();
        let client = site.client().await;
        let mut holder = claim(&client, "a");
        granted(&mut holder).await;
        let before = site.number("SELECT expires FROM TABLE_").await;
        let Renewal::Held { valid_for, .. } = holder.renew(TTL / 4).await.unwrap() else {
            panic!("it is held")
        };
        assert!(valid_for > TTL / 2, "{valid_for:?}");
        assert_eq!(site.number("SELECT expires FROM TABLE_").await, before);
        let Renewal::Held { valid_for, .. } = holder.renew(TTL * 2).await.unwrap() else {
            panic!("it is held")
        };
        assert!(valid_for > TTL, "{valid_for:?}");
        site.execute("UPDATE TABLE_ SET expires = 1").await;
        assert_eq!(holder.renew(TTL).await.unwrap(), Renewal::Lost(LossReason::Gone));
        assert_eq!(site.number("SELECT expires FROM TABLE_").await, 1);
        assert_eq!(holder.release().await.unwrap(), Release::NotHeld, "the lease had ended already");
        granted(&mut claim(&client, "a")).await;
        assert_eq!(holder.renew(TTL).await.unwrap(), Renewal::Lost(LossReason::Taken));
    })
}

pub(crate) fn a_token_ahead_of_the_clock_sets_no_time() -> Outcome {
    run(async {
        let site = Site::new();
        let client = site.client().await;
        free_row(&client, "a").await;
        site.execute("UPDATE TABLE_ SET token = token + 3600000000").await;
        let ahead = site.number("SELECT token FROM TABLE_").await.unsigned_abs();
        let mut next = claim(&client, "a");
        let grant = granted(&mut next).await;
        assert_eq!(grant.token.get(), ahead + 1);
        // A deadline that is computed from the token would admit attempts for an hour. (A release would tell the time
        // again.)
        site.execute("UPDATE TABLE_ SET expires = 0").await;
        let mut keeper = site.keep_row("a").await;
        claim_within(&client, "a", Duration::from_millis(200)).attempt().await.unwrap_err();
        keeper.execute("COMMIT").await.unwrap();
        until("the statement is done", async || site.waiting().await == 0).await;
        assert_eq!(site.number("SELECT token FROM TABLE_").await.unsigned_abs(), ahead + 1);
    })
}

pub(crate) fn names_are_bytes() -> Outcome {
    run(async {
        let site = Site::new();
        let client = site.client().await;
        let longest = "é".repeat(256);
        let names =
            ["a", "A", "á", "a\u{301}", "a ", " a", "ß", "ss", "a'b", "a\\b", "x'61'", "$1", "%", &longest];
        let mut claims: Vec<_> = names.iter().map(|name| claim(&client, name)).collect();
        for claim in &mut claims {
            granted(claim).await;
        }
        let rows = site.number("SELECT count(*) FROM TABLE_").await;
        assert_eq!(rows, i64::try_from(names.len()).unwrap());
        let stored: Vec<u8> =
            site.row("SELECT name FROM TABLE_ ORDER BY octet_length(name) DESC").await.get(0);
        assert_eq!(stored, longest.as_bytes());
        for claim in &mut claims {
            assert!(matches!(claim.release().await.unwrap(), Release::Released { .. }));
        }
    })
}

pub(crate) fn a_revoked_holder_is_told_in_either_way() -> Outcome {
    run(async {
        let site = Site::new();
        let client = site.client().await;
        for when in [When::HoldersDeadline, When::Now] {
            let mut holder = claim(&client, "a");
            granted(&mut holder).await;
            let patience = Duration::from_secs(5);
            let name = Name::new("a").unwrap();
            let shown = client.driver().inspect(&name, patience).await.unwrap().holder.unwrap();
            assert_eq!(shown.label.as_deref(), Some("a test"));
            let (by, label) = (Owner::mint(&Random::system()), Label::new("ops"));
            let revocation = Revocation::new(shown.owner, by, label, when, patience);
            client.driver().revoke(&name, revocation).await.unwrap();
            assert_eq!(holder.renew(TTL).await.unwrap(), Renewal::Lost(LossReason::Revoked), "{when:?}");
            site.execute("UPDATE TABLE_ SET expires = 1").await;
        }
    })
}

pub(crate) fn only_unused_rows_a_day_old_are_swept() -> Outcome {
    run(async {
        let site = Site::new();
        let client = site.client().await;
        let insert = |kind: &str, token: &str, expires: &str| {
            format!(
                "INSERT INTO TABLE_ (name, owner, token, expires, label)
                 SELECT ('{kind}' || n)::bytea, '', {NOW} - {token}, {expires}, '' FROM generate_series(1, 300) AS n"
            )
        };
        let (day, hour) = ("90000000000", "3600000000");
        site.execute(&insert("old", day, "0")).await;
        site.execute(&insert("new", hour, "0")).await;
        site.execute(&insert("held", day, &format!("{NOW} + {day}"))).await;
        let mut claim = claim(&client, "a");
        let left = "SELECT count(*) FROM TABLE_ WHERE name >= 'old' AND name < 'ole'";
        let start = Instant::now();
        while site.number(left).await > 0 {
            assert_in_time!(start.elapsed() < Duration::from_secs(20), "nothing is swept");
            for _ in 0..100 {
                granted(&mut claim).await;
                claim.release().await.unwrap();
            }
        }
        assert_eq!(site.number("SELECT count(*) FROM TABLE_").await, 601);
    })
}
