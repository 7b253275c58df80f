//! Tests of renewals that share a statement.

use std::time::Duration;

use lock_conformance::holders::Holders;
use lock_core::driver::LossReason;

use super::{File, run, terms};

const PATIENCE: Duration = Duration::from_secs(2);

pub(crate) fn renewals_in_one_moment_share_statements() {
    run(async {
        let file = File::new();
        let client = file.client().await;
        let holders = Holders::of(&client, 300, terms(PATIENCE)).await;
        let granted = file.number("SELECT max(expires) FROM onelock_locks").await;
        holders.renew().expect(300, &[]).await;
        let renewed = format!("SELECT count(*) FROM onelock_locks WHERE expires > {granted}");
        assert_eq!(file.number(&renewed).await, 300);
        // A statement has one time for all of its rows.
        let statements = file.number("SELECT count(DISTINCT expires) FROM onelock_locks").await;
        assert!(statements <= 30, "{statements} statements renewed 300 locks");
    });
}

pub(crate) fn each_batched_renewal_has_its_own_answer() {
    run(async {
        let file = File::new();
        let holders = Holders::of(&file.client().await, 12, terms(PATIENCE)).await;
        let lost = [
            (3, LossReason::Revoked),
            (5, LossReason::Taken),
            (7, LossReason::Gone),
            (9, LossReason::Gone),
            (10, LossReason::Gone),
        ];
        let another = "UPDATE onelock_locks SET owner = randomblob(16)";
        file.execute(&format!("{another}, revoked = owner WHERE name = CAST('lock-003' AS BLOB)")).await;
        file.execute(&format!("{another} WHERE name = CAST('lock-005' AS BLOB)")).await;
        file.execute("DELETE FROM onelock_locks WHERE name = CAST('lock-007' AS BLOB)").await;
        file.execute("UPDATE onelock_locks SET expires = 1 WHERE name = CAST('lock-009' AS BLOB)").await;
        file.execute("UPDATE onelock_locks SET boot = randomblob(16) WHERE name = CAST('lock-010' AS BLOB)")
            .await;
        let lost_rows = "'lock-003', 'lock-005', 'lock-009', 'lock-010'";
        let others =
            format!("SELECT sum(expires) FROM onelock_locks WHERE CAST(name AS TEXT) IN ({lost_rows})");
        let before = file.number(&others).await;
        holders.renew().expect(12, &lost).await;
        assert_eq!(file.number(&others).await, before, "what is another's was changed");
        assert_eq!(file.number("SELECT count(*) FROM onelock_locks").await, 11, "a row was created");
    });
}
