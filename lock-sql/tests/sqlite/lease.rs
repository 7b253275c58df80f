//! The clock and the boot by which a lease ends.

use std::time::Duration;

use lock_core::driver::{Attempt, LossReason, Release, Renewal, Revocation, Revoked, When};
use lock_core::{Label, Name, Owner, Random};
#[cfg(unix)]
use sqlx::{ConnectOptions, Connection, Executor};

#[cfg(unix)]
use super::statements::slow_down;
use super::{File, TTL, claim, granted, run};

const PATIENCE: Duration = Duration::from_secs(2);

/// RULE j1: in another boot, the clock began anew.
pub(crate) fn another_boots_lease_is_over_but_its_token_counts() {
    run(async {
        let file = File::new();
        let client = file.client().await;
        let mut first = claim(&client, "a", PATIENCE);
        let token = granted(&mut first).await;
        assert!(matches!(claim(&client, "a", PATIENCE).attempt().await.unwrap(), Attempt::Busy(_)));
        assert_eq!(file.execute("UPDATE onelock_locks SET boot = randomblob(16)").await, 1);
        let holder = client.lock("a").build().unwrap().inspect().await.unwrap().holder;
        assert!(holder.is_none(), "{holder:?}");
        assert_eq!(first.renew(TTL).await.unwrap(), Renewal::Lost(LossReason::Gone));
        let mut second = claim(&client, "a", PATIENCE);
        assert!(granted(&mut second).await > token);
    });
}

// Proves: B7, server-clock-set
/// A lease doesn't end at a time of day, so the wall clock may be set to anything.
#[cfg(target_os = "linux")]
pub(crate) fn leases_end_by_the_clock_since_boot() {
    run(async {
        let file = File::new();
        let client = file.client().await;
        let uptime = || {
            let uptime = std::fs::read_to_string("/proc/uptime").unwrap();
            uptime.split(' ').next().unwrap().parse::<f64>().unwrap()
        };
        let before = uptime();
        granted(&mut claim(&client, "a", PATIENCE)).await;
        let after = uptime();
        let expires = file.number("SELECT expires FROM onelock_locks").await;
        let taken = expires as f64 / 1e9 - TTL.as_secs_f64();
        // The kernel reports the uptime rounded.
        let between = before - 0.1..after + 0.1;
        assert!(between.contains(&taken), "{taken} s by the kernel's clock, and not in {between:?}");
    });
}

pub(crate) fn a_lease_that_has_ended_is_not_brought_back() {
    run(async {
        let file = File::new();
        let client = file.client().await;
        let mut holder = claim(&client, "a", PATIENCE);
        granted(&mut holder).await;
        file.execute("UPDATE onelock_locks SET expires = 1").await;
        assert_eq!(holder.renew(TTL).await.unwrap(), Renewal::Lost(LossReason::Gone));
        assert_eq!(holder.release().await.unwrap(), Release::NotHeld);
        granted(&mut claim(&client, "a", PATIENCE)).await;
    });
}

pub(crate) fn a_token_ahead_of_the_clock_is_followed() {
    run(async {
        let file = File::new();
        let client = file.client().await;
        let mut first = claim(&client, "a", PATIENCE);
        granted(&mut first).await;
        first.release().await.unwrap();
        let ahead = 9_000_000_000_000_000_000_i64;
        file.execute(&format!("UPDATE onelock_locks SET token = {ahead}")).await;
        assert_eq!(granted(&mut claim(&client, "a", PATIENCE)).await, ahead as u64 + 1);
    });
}

pub(crate) fn a_holder_learns_of_either_revoke() {
    run(async {
        for when in [When::HoldersDeadline, When::Now] {
            let file = File::new();
            let client = file.client().await;
            let mut holder = claim(&client, "a", PATIENCE);
            granted(&mut holder).await;
            let seen = client.lock("a").build().unwrap().inspect().await.unwrap().holder.unwrap();
            let revocation = Revocation::new(
                seen.owner,
                Owner::mint(&Random::system()),
                Label::new("the operator"),
                when,
                PATIENCE,
            );
            let revoked = client.driver().revoke(&Name::new("a").unwrap(), revocation).await.unwrap();
            let still = client.lock("a").build().unwrap().inspect().await.unwrap().holder;
            match when {
                When::Now => assert!(revoked == Revoked::Free && still.is_none(), "{revoked:?}"),
                When::HoldersDeadline => {
                    assert!(matches!(revoked, Revoked::FreeIn(left) if left <= TTL && left > TTL / 2));
                    assert_eq!(still.unwrap().label.as_deref(), Some("the operator"));
                }
            }
            assert_eq!(holder.renew(TTL).await.unwrap(), Renewal::Lost(LossReason::Revoked), "{when:?}");
        }
    });
}

// Proves: cleaned-text
pub(crate) fn a_label_is_shown_in_one_line() {
    run(async {
        let file = File::new();
        let client = file.client().await;
        granted(&mut claim(&client, "a", PATIENCE)).await;
        file.execute("UPDATE onelock_locks SET label = 'a' || char(27) || '[2J' || char(10) || 'lock: b'")
            .await;
        let lock = client.lock("a").wait(Duration::from_millis(50)).build().unwrap();
        let shown = lock.inspect().await.unwrap().holder.unwrap();
        assert_eq!(shown.label.as_deref(), Some("a [2J lock: b"));
        let error = lock.acquire().await.unwrap_err();
        assert!(error.to_string().contains("held by a [2J lock: b for "), "{error}");
    });
}

// Proves: key-deleted
/// Writes to a deleted file would be answered as before, but no other process would see them.
#[cfg(unix)]
pub(crate) fn a_file_that_was_deleted_holds_nothing() {
    run(async {
        let file = File::new();
        let (client, other) = (file.client().await, file.client().await);
        let mut holder = claim(&client, "a", PATIENCE);
        let token = granted(&mut holder).await;
        for suffix in ["", "-wal", "-shm"] {
            std::fs::remove_file(format!("{}{suffix}", file.path().display())).unwrap();
        }
        let mut second = claim(&other, "a", PATIENCE);
        assert!(granted(&mut second).await > token);
        assert_eq!(holder.renew(TTL).await.unwrap(), Renewal::Lost(LossReason::Taken));
        assert!(matches!(claim(&client, "a", PATIENCE).attempt().await.unwrap(), Attempt::Busy(_)));
        assert!(matches!(second.renew(TTL).await.unwrap(), Renewal::Held { .. }));
    });
}

/// A statement may wait for other processes, and take long: what counts is the file that is there when it takes effect.
#[cfg(unix)]
pub(crate) fn a_file_deleted_under_a_statement_takes_no_lock() {
    run(async {
        let file = File::new();
        let (client, other) = (file.client().await, file.client().await);
        let mut holder = claim(&client, "b", PATIENCE);
        granted(&mut holder).await;
        slow_down(&file).await;
        let attempt = tokio::spawn(async move { claim(&client, "a", TTL).attempt().await });
        let mut admin = file.options().busy_timeout(Duration::ZERO).connect().await.unwrap();
        while admin.execute("BEGIN IMMEDIATE").await.is_ok() {
            admin.execute("ROLLBACK").await.unwrap();
            tokio::task::yield_now().await;
        }
        for suffix in ["", "-wal", "-shm"] {
            std::fs::remove_file(format!("{}{suffix}", file.path().display())).unwrap();
        }
        admin.close().await.unwrap();
        assert!(matches!(attempt.await.unwrap().unwrap(), Attempt::Granted(_)));
        let second = claim(&other, "a", PATIENCE).attempt().await.unwrap();
        assert!(matches!(second, Attempt::Busy(_)), "both hold it: {second:?}");
    });
}

/// SQLite lets the connections of one process share the log's index, even one that was removed.
#[cfg(unix)]
pub(crate) fn a_removed_log_makes_no_second_holder() {
    run(async {
        for removed in [&["-wal", "-shm"][..], &["-wal"], &["-shm"]] {
            let file = File::new();
            let (client, other) = (file.client().await, file.client().await);
            let mut holder = claim(&client, "a", PATIENCE);
            granted(&mut holder).await;
            for suffix in removed {
                std::fs::remove_file(format!("{}{suffix}", file.path().display())).unwrap();
            }
            // All connections of this process are opened anew, also those of a client that sends no requests.
            let renewed = holder.renew(TTL).await.unwrap();
            for suffix in removed {
                assert!(file.folder.path().join(format!("locks.db{suffix}")).exists(), "{removed:?}");
            }
            // The last of the closed connections moved the content of the log into the file.
            assert!(matches!(renewed, Renewal::Held { .. }), "{removed:?}: {renewed:?}");
            let mut second = claim(&other, "a", PATIENCE);
            assert!(matches!(second.attempt().await.unwrap(), Attempt::Busy(_)), "{removed:?}");
            assert_eq!(file.number("SELECT count(*) FROM onelock_locks").await, 1, "{removed:?}");
        }
    });
}
