//! Takeovers: the lock goes to another owner of the same client, and is not free in between.

use std::time::{Duration, Instant};

use lock_conformance::{Step, assert_in_time};
use lock_core::driver::{LossReason, Predecessor, Release, Renewal, Revocation, Takeover, When};
use lock_core::{Client, ErrorKind, Label, Name, Owner, OwnerBytes, Random};

use crate::On;
use crate::server::{PATIENCE, Server, TTL, claim, execute, granted, held, run, succeeded, until};

const SHORT: Duration = Duration::from_millis(400);
const NOW: &str = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))";
const TOKEN: &str = "SELECT token FROM onelock_locks";

pub(crate) fn a_takeover_has_its_own_token_and_lease(on: On) {
    run(async {
        let server = Server::shared(on).await;
        let client = server.client().await;
        let (mut before, named, first) = held(&client, "a").await;
        server
            .execute(&format!(
                "UPDATE onelock_locks SET expires = {NOW} + 1000000, token = token - 1000000, label = 'before'"
            ))
            .await;
        let mut after = claim(&client, "a", PATIENCE);
        let (grant, others) = succeeded(&mut after, &named).await;
        assert!(grant.token > first.token, "{grant:?} after {first:?}: it follows the clock");
        assert_eq!((grant.valid_for, others), (TTL, Some(false)));
        let of_it = format!(
            "SELECT COUNT(*) FROM onelock_locks WHERE owner <> '' AND label = 'a test' AND revoked IS NULL \
             AND token = {} AND expires > {NOW} + 10000000",
            grant.token.get()
        );
        assert_eq!(server.number(&of_it).await, 1);
        assert_eq!(before.renew(TTL).await.unwrap(), Renewal::Lost(LossReason::Taken));
        assert_eq!(before.release().await.unwrap(), Release::NotHeld);
        assert_eq!(granted(&mut after).await.token, grant.token, "an attempt finds the lock its own");
        assert!(matches!(after.release().await.unwrap(), Release::Released { .. }));
    });
}

pub(crate) fn a_token_far_ahead_of_the_clock_is_followed(on: On) {
    run(async {
        let server = Server::shared(on).await;
        let client = server.client().await;
        for ahead in ["token + 3600000000", "9000000000000000000"] {
            let (_, named, _) = held(&client, "a").await;
            server.execute(&format!("UPDATE onelock_locks SET token = {ahead}")).await;
            let ahead = server.number(TOKEN).await.unsigned_abs();
            let mut after = claim(&client, "a", PATIENCE);
            let (grant, others) = succeeded(&mut after, &named).await;
            assert_eq!((grant.token.get(), others), (ahead + 1, Some(false)));
            assert_eq!(server.number(TOKEN).await.unsigned_abs(), ahead + 1);
            after.release().await.unwrap();
        }
    });
}

pub(crate) fn a_predecessor_without_the_lock_has_no_successor(on: On) {
    run(async {
        let server = Server::shared(on).await;
        let client = server.client().await;
        let (mut before, named, _) = held(&client, "a").await;
        server.execute(&format!("UPDATE onelock_locks SET expires = {NOW} - 1")).await;
        changes_nothing(&server, &client, &named, "its lease has ended").await;
        before.release().await.unwrap();
        changes_nothing(&server, &client, &named, "it has released the lock").await;
        granted(&mut claim(&client, "a", PATIENCE)).await;
        changes_nothing(&server, &client, &named, "another owner holds the lock").await;
        server.execute("DELETE FROM onelock_locks").await;
        changes_nothing(&server, &client, &named, "there is no row").await;
        for when in [When::HoldersDeadline, When::Now] {
            let (_, named, _) = held(&client, "a").await;
            let revoked = OwnerBytes::new(named.owner.as_bytes().to_vec());
            let (by, label) = (Owner::mint(&Random::system()), Label::new("ops"));
            let revocation = Revocation::new(revoked, by, label, when, PATIENCE);
            client.driver().revoke(&Name::new("a").unwrap(), revocation).await.unwrap();
            changes_nothing(&server, &client, &named, &format!("revoked, {when:?}")).await;
            server.execute("DELETE FROM onelock_locks").await;
        }
        server.execute("DROP TABLE onelock_locks").await;
        let outcome = claim(&client, "a", PATIENCE).take_over(&named).await.unwrap();
        assert_eq!(outcome, Takeover::NotHeld, "there is no table");
    });
}

async fn changes_nothing(server: &Server, client: &Client, named: &Predecessor, why: &str) {
    let row = "SELECT CAST(COALESCE(SUM(CRC32(CONCAT_WS('|', owner, token, expires, waiting, label, revoked))), 0) \
        AS SIGNED) FROM onelock_locks";
    let before = server.number(row).await;
    let outcome = claim(client, "a", PATIENCE).take_over(named).await.unwrap();
    assert_eq!(outcome, Takeover::NotHeld, "{why}");
    assert_eq!(server.number(row).await, before, "{why}");
}

pub(crate) fn it_is_one_statement(on: On) {
    run(async {
        let server = Server::start(on, &[]);
        let client = server.client().await;
        let (_, named, _) = held(&client, "a").await;
        let (updates, selects) = (server.status("Com_update").await, server.status("Com_select").await);
        succeeded(&mut claim(&client, "a", PATIENCE), &named).await;
        assert_eq!(server.status("Com_update").await - updates, 1);
        assert_eq!(server.status("Com_select").await - selects, 0);
    });
}

pub(crate) fn one_that_waited_past_its_deadline_takes_nothing(on: On) {
    run(async {
        let server = Server::shared(on).await;
        let client = server.client().await;
        let (mut before, named, first) = held(&client, "a").await;
        let mut raw = server.raw().await;
        execute(&mut raw, "BEGIN").await;
        execute(&mut raw, "SELECT * FROM onelock_locks FOR UPDATE").await;
        let began = Instant::now();
        let error = claim(&client, "a", SHORT).take_over(&named).await.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Unavailable { .. }), "{error:?}");
        // The statement still waits, and is carried out after the commit.
        server.running("UPDATE", 1).await;
        assert_in_time!(began.elapsed() < Duration::from_secs(1), "the machine is too slow for this test");
        execute(&mut raw, "COMMIT").await;
        server.running("UPDATE", 0).await;
        assert_eq!(server.number(TOKEN).await.unsigned_abs(), first.token.get());
        assert!(matches!(before.renew(TTL).await.unwrap(), Renewal::Held { .. }));
    });
}

pub(crate) fn a_lease_ending_in_a_row_wait_is_over(on: On) {
    run(async {
        let server = Server::shared(on).await;
        let client = server.client().await;
        let (_, named, first) = held(&client, "a").await;
        server.execute(&format!("UPDATE onelock_locks SET expires = {NOW} + 300000")).await;
        let mut raw = server.raw().await;
        execute(&mut raw, "BEGIN").await;
        execute(&mut raw, "SELECT * FROM onelock_locks FOR UPDATE").await;
        let mut waits = claim(&client, "a", PATIENCE);
        let waiting = tokio::spawn(async move { waits.take_over(&named).await.unwrap() });
        server.running("UPDATE", 1).await;
        let is_live = format!("SELECT COUNT(*) FROM onelock_locks WHERE expires > {NOW}");
        until("the lease has ended", async || server.number(&is_live).await == 0).await;
        execute(&mut raw, "COMMIT").await;
        assert_eq!(waiting.await.unwrap(), Takeover::NotHeld);
        assert_eq!(server.number(TOKEN).await.unsigned_abs(), first.token.get());
    });
}

/// The two calls that follow take what it has left.
pub(crate) fn a_broken_takeover_becomes_a_release_and_attempt(on: On) {
    run(async {
        let server = Server::shared(on).await;
        let client = server.client().await;
        for _ in 0..3 {
            let (mut before, named, _) = held(&client, "a").await;
            server.kill_connections().await;
            let mut after = claim(&client, "a", PATIENCE);
            if let Err(error) = after.take_over(&named).await {
                assert!(matches!(error.kind(), ErrorKind::Unavailable { .. }), "{error:?}");
            }
            before.release().await.unwrap();
            granted(&mut after).await;
            assert!(matches!(after.release().await.unwrap(), Release::Released { .. }));
        }
    });
}

pub(crate) fn it_knows_whether_others_wait_and_leaves_their_mark(on: On) {
    run(async {
        let server = Server::shared(on).await;
        let (client, other) = (server.client().await, server.client().await);
        let (_, named, _) = held(&client, "a").await;
        claim(&other, "a", PATIENCE).listen().await.unwrap();
        let mark = async || server.number("SELECT waiting FROM onelock_locks").await;
        let marked = mark().await;
        let mut after = claim(&client, "a", PATIENCE);
        let (_, others) = succeeded(&mut after, &named).await;
        assert_eq!((others, mark().await), (Some(true), marked), "the mark stays as it is");
        assert_eq!(after.release().await.unwrap(), Release::Released { others: Some(true) });
        let (_, named, _) = held(&client, "a").await;
        server.execute("UPDATE onelock_locks SET waiting = waiting - 31000000").await;
        let (_, others) = succeeded(&mut claim(&client, "a", PATIENCE), &named).await;
        assert_eq!(others, Some(false));
    });
}

pub(crate) fn one_refused_for_an_old_estimate_is_sent_again(on: On) -> Result<(), String> {
    let server = Server::with_clock(on)?;
    run(async {
        let client = server.client().await;
        let (_, named, _) = held(&client, "a").await;
        // Its deadline is in the past, but the refusal tells the server's time. The lease of the predecessor goes on.
        server.step_clock(Step::Forward(TTL / 2));
        succeeded(&mut claim(&client, "a", PATIENCE), &named).await;
        // Now the lease has ended as well.
        let (_, named, _) = held(&client, "b").await;
        server.step_clock(Step::Forward(TTL * 2));
        let outcome = claim(&client, "b", PATIENCE).take_over(&named).await.unwrap();
        assert_eq!(outcome, Takeover::NotHeld);
    });
    Ok(())
}
