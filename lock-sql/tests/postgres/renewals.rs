//! Tests of renewals that share a statement.

use std::time::{Duration, Instant};

use lock_conformance::assert_in_time;
use lock_conformance::holders::Holders;
use lock_core::driver::{LossReason, Revocation, When};
use lock_core::{Client, Effect, ErrorKind, Label, Name, Owner, Random};
use sqlx::Executor;

use crate::Outcome;
use crate::server::{PATIENCE, Site, TTL, run, terms, until};

const NOW: &str = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint";

pub(crate) fn renewals_in_one_moment_share_statements() -> Outcome {
    run(async {
        let site = Site::new();
        let client = site.client().await;
        let holders = Holders::of(&client, 300, terms(PATIENCE)).await;
        site.execute("UPDATE TABLE_ SET expires = expires - 9000000").await;
        site.execute(
            "CREATE TABLE updates_of_TABLE_ (rows bigint);
             CREATE FUNCTION count_of_TABLE_() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
               INSERT INTO public.updates_of_TABLE_ SELECT count(*) FROM new_rows; RETURN NULL; END $$;
             CREATE TRIGGER count AFTER UPDATE ON public.TABLE_ REFERENCING NEW TABLE AS new_rows
               FOR EACH STATEMENT EXECUTE FUNCTION count_of_TABLE_()",
        )
        .await;
        holders.renew().expect(300, &[]).await;
        let renewed = format!("SELECT count(*) FROM TABLE_ WHERE expires > {NOW} + 15000000");
        assert_eq!(site.number(&renewed).await, 300);
        let statements = site.number("SELECT count(*) FROM updates_of_TABLE_").await;
        assert!(statements <= 30, "{statements} statements renewed 300 locks");
        let most = site.number("SELECT max(rows) FROM updates_of_TABLE_").await;
        assert!((2..=128).contains(&most), "{most} locks were renewed by one statement");
    })
}

pub(crate) fn each_batched_renewal_has_its_own_answer() -> Outcome {
    run(async {
        let site = Site::new();
        let client = site.client().await;
        let holders = Holders::of(&client, 12, terms(PATIENCE)).await;
        let lost =
            [(3, LossReason::Revoked), (5, LossReason::Taken), (7, LossReason::Gone), (9, LossReason::Gone)];
        revoke(&client, "lock-003").await;
        site.execute("UPDATE TABLE_ SET owner = decode(repeat('ab', 16), 'hex') WHERE name = 'lock-005'")
            .await;
        site.execute("DELETE FROM TABLE_ WHERE name = 'lock-007'").await;
        site.execute(&format!("UPDATE TABLE_ SET expires = {NOW} - 1 WHERE name = 'lock-009'")).await;
        let others =
            "SELECT sum(expires)::bigint FROM TABLE_ WHERE name IN ('lock-003', 'lock-005', 'lock-009')";
        let before = site.number(others).await;
        holders.renew().expect(12, &lost).await;
        assert_eq!(site.number(others).await, before, "what is another's was changed");
        assert_eq!(site.number("SELECT count(*) FROM TABLE_").await, 11, "a row was created");
    })
}

async fn revoke(client: &Client, name: &str) {
    let (random, name) = (Random::system(), Name::new(name).unwrap());

    let holder = client.driver().inspect(&name, PATIENCE).await.unwrap().holder.unwrap().owner;
    let (by, label, when) = (Owner::mint(&random), Label::new("an administrator"), When::HoldersDeadline);
    let revocation = Revocation::new(holder, by, label, when, PATIENCE);
    client.driver().revoke(&name, revocation).await.unwrap();
}

pub(crate) fn a_locked_row_delays_no_other_renewal() -> Outcome {
    run(async {
        let site = Site::new();
        let client = site.client().await;
        let holders = Holders::of(&client, 40, terms(PATIENCE)).await;
        let mut keeper = site.keep_row("lock-020").await;
        let (began, mut renewing) = (Instant::now(), holders.renew());
        renewing.expect(39, &[]).await;
        assert_in_time!(began.elapsed() < Duration::from_secs(2), "the others have waited");
        until("one waits for its row", async || site.waiting().await == 1).await;
        keeper.execute("COMMIT").await.unwrap();
        renewing.expect(1, &[]).await;
    })
}

pub(crate) fn an_unanswered_batch_is_unknown_for_each_renewal() -> Outcome {
    run(async {
        let site = Site::new();
        let client = site.client().await;
        let holders = Holders::of(&client, 40, terms(PATIENCE)).await;
        let mut keeper = site.keep_table().await;
        let mut renewing = holders.renew();
        until("the first and the others are on their way", async || site.waiting().await >= 2).await;
        let answers = async {
            let mut claims = Vec::new();
            for _ in 0..40 {
                let (n, answer, claim) = renewing.next().await;
                let error = answer.expect_err("its connection was killed");
                assert_eq!(
                    error.kind(),
                    ErrorKind::Unavailable { effect: Effect::Unknown },
                    "{n}: {error:?}"
                );
                claims.push(claim);
            }
            claims
        };
        // Some may have begun too late for the others' statement, and are in another one.
        let kills = async {
            loop {
                site.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                     WHERE wait_event_type = 'Lock' AND query LIKE '%TABLE_\"%'",
                )
                .await;
            }
        };
        let claims = tokio::select! {
            claims = answers => claims,
            () = kills => unreachable!(),
        };
        keeper.execute("COMMIT").await.unwrap();
        Holders::from(claims, TTL).renew().expect(40, &[]).await;
    })
}
