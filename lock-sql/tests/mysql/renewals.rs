//! Tests of renewals that share a statement.

use std::time::{Duration, Instant};

use lock_conformance::assert_in_time;
use lock_conformance::holders::Holders;
use lock_core::driver::LossReason;

use crate::On;
use crate::server::{PATIENCE, Server, TTL, execute, held, run, terms};

const NOW: &str = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))";

pub(crate) fn renewals_in_one_moment_share_statements(on: On) {
    run(async {
        let server = Server::shared(on).await;
        let client = server.client().await;
        let holders = Holders::of(&client, 300, terms(TTL, PATIENCE)).await;
        let _other = held(&client, "another").await;
        server.execute("UPDATE onelock_locks SET expires = expires - 9000000").await;
        // A statement that reads the whole table would find this row locked, and give up.
        let mut keeper = server.raw().await;
        execute(&mut keeper, "BEGIN").await;
        execute(&mut keeper, "UPDATE onelock_locks SET label = 'kept' WHERE name = 'another'").await;
        holders.renew().expect(300, &[]).await;
        let renewed = format!("SELECT COUNT(*) FROM onelock_locks WHERE expires > {NOW} + 15000000");
        assert_eq!(server.number(&renewed).await, 300);
        // A statement has one time for all of its rows.
        let statements = server.number("SELECT COUNT(DISTINCT expires) FROM onelock_locks").await - 1;
        assert!(statements <= 30, "{statements} statements renewed 300 locks");
    });
}

pub(crate) fn each_batched_renewal_has_its_own_answer(on: On) {
    run(async {
        let server = Server::shared(on).await;
        let holders = Holders::of(&server.client().await, 12, terms(TTL, PATIENCE)).await;
        let lost = [(5, LossReason::Taken), (7, LossReason::Gone), (9, LossReason::Gone)];
        server.execute("UPDATE onelock_locks SET owner = REPEAT(x'AB', 16) WHERE name = 'lock-005'").await;
        server.execute("DELETE FROM onelock_locks WHERE name = 'lock-007'").await;
        server
            .execute(&format!("UPDATE onelock_locks SET expires = {NOW} - 1 WHERE name = 'lock-009'"))
            .await;
        let others = "SELECT SUM(expires) DIV 1 FROM onelock_locks WHERE name IN ('lock-005', 'lock-009')";
        let others = format!("SELECT CAST(({others}) AS SIGNED)");
        let before = server.number(&others).await;
        holders.renew().expect(12, &lost).await;
        assert_eq!(server.number(&others).await, before, "what is another's was changed");
        assert_eq!(server.number("SELECT COUNT(*) FROM onelock_locks").await, 11, "a row was created");
    });
}

pub(crate) fn a_locked_row_delays_no_other_renewal(on: On) {
    run(async {
        let server = Server::shared(on).await;
        let holders = Holders::of(&server.client().await, 40, terms(TTL, PATIENCE)).await;
        let shorter = "UPDATE onelock_locks SET expires = expires - 12000000 WHERE name = 'lock-020'";
        server.execute(shorter).await;
        let mut keeper = server.raw().await;
        execute(&mut keeper, "BEGIN").await;
        execute(&mut keeper, "UPDATE onelock_locks SET label = 'kept' WHERE name = 'lock-020'").await;
        let (began, mut renewing) = (Instant::now(), holders.renew());
        renewing.expect(39, &[]).await;
        // A statement waits for a row for a second.
        assert_in_time!(began.elapsed() < Duration::from_millis(800), "the others have waited");
        execute(&mut keeper, "COMMIT").await;
        renewing.expect(1, &[]).await;
    });
}
