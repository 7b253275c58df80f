//! Tests of renewals that share a statement.

use std::time::{Duration, Instant};

use lock_conformance::assert_in_time;
use lock_core::driver::{Claim, LossReason, Renewal, Revocation, When};
use lock_core::{Client, Effect, ErrorKind, Label, Name, Owner, Random, Result};
use sqlx::Executor;
use tokio::task::JoinSet;

use crate::Outcome;
use crate::server::{Site, TTL, claim, granted, run, until};

const NOW: &str = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint";

/// Locks that one client holds, by their numbers.
struct Holders(Vec<Box<dyn Claim>>);

impl Holders {
    async fn of(client: &Client, locks: usize) -> Holders {
        let mut holders = Vec::new();
        for n in 0..locks {
            let mut holder = claim(client, &name(n));
            granted(&mut holder).await;
            holders.push(holder);
        }
        Holders(holders)
    }

    /// Begins to renew all of them, in one moment.
    fn renew(self) -> JoinSet<(usize, Result<Renewal>, Box<dyn Claim>)> {
        let mut renewing = JoinSet::new();
        for (n, mut holder) in self.0.into_iter().enumerate() {
            renewing.spawn(async move { (n, holder.renew(TTL).await, holder) });
        }
        renewing
    }

    /// Renews all of them in one moment, and returns the answers.
    async fn renewed(self) -> Vec<Result<Renewal>> {
        let mut answers = self.renew().join_all().await;
        answers.sort_by_key(|(n, ..)| *n);
        answers.into_iter().map(|(_, answer, _)| answer).collect()
    }
}

fn name(n: usize) -> String {
    format!("lock-{n:03}")
}

fn is_held(answer: &Result<Renewal>) -> bool {
    matches!(answer, Ok(Renewal::Held { valid_for, .. }) if *valid_for > TTL / 2)
}

pub(crate) fn renewals_in_one_moment_share_statements() -> Outcome {
    run(async {
        let site = Site::new();
        let client = site.client().await;
        let holders = Holders::of(&client, 300).await;
        site.execute("UPDATE TABLE_ SET expires = expires - 9000000").await;
        site.execute(
            "CREATE TABLE updates_of_TABLE_ (rows bigint);
             CREATE FUNCTION count_of_TABLE_() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
               INSERT INTO public.updates_of_TABLE_ SELECT count(*) FROM new_rows; RETURN NULL; END $$;
             CREATE TRIGGER count AFTER UPDATE ON public.TABLE_ REFERENCING NEW TABLE AS new_rows
               FOR EACH STATEMENT EXECUTE FUNCTION count_of_TABLE_()",
        )
        .await;
        let answers = holders.renewed().await;
        assert!(answers.iter().all(is_held), "{answers:?}");
        let renewed = format!("SELECT count(*) FROM TABLE_ WHERE expires > {NOW} + 15000000");
        assert_eq!(site.number(&renewed).await, 300);
        let statements = site.number("SELECT count(*) FROM updates_of_TABLE_").await;
        assert!(statements <= 30, "{statements} statements renewed 300 locks");
        let most = site.number("SELECT max(rows) FROM updates_of_TABLE_").await;
        assert!((2..=128).contains(&most), "{most} locks were renewed by one statement");
    })
}

pub(crate) fn each_renewal_of_a_shared_statement_has_an_answer_of_its_own() -> Outcome {
    run(async {
        let site = Site::new();
        let client = site.client().await;
        let holders = Holders::of(&client, 12).await;
        let lost =
            [(3, LossReason::Revoked), (5, LossReason::Taken), (7, LossReason::Gone), (9, LossReason::Gone)];
        revoke(&client, &name(3)).await;
        site.execute("UPDATE TABLE_ SET owner = decode(repeat('ab', 16), 'hex') WHERE name = 'lock-005'")
            .await;
        site.execute("DELETE FROM TABLE_ WHERE name = 'lock-007'").await;
        site.execute(&format!("UPDATE TABLE_ SET expires = {NOW} - 1 WHERE name = 'lock-009'")).await;
        let others =
            "SELECT sum(expires)::bigint FROM TABLE_ WHERE name IN ('lock-003', 'lock-005', 'lock-009')";
        let before = site.number(others).await;
        for (n, answer) in holders.renewed().await.into_iter().enumerate() {
            match lost.iter().find(|(lost, _)| *lost == n) {
                Some((_, why)) => {
                    assert!(matches!(&answer, Ok(Renewal::Lost(cause)) if cause == why), "{n}: {answer:?}");
                }
                None => assert!(is_held(&answer), "{n}: {answer:?}"),
            }
        }
        assert_eq!(site.number(others).await, before, "what is another's was changed");
        assert_eq!(site.number("SELECT count(*) FROM TABLE_").await, 11, "a row was created");
    })
}

async fn revoke(client: &Client, name: &str) {
    let (random, name) = (Random::system(), Name::new(name).unwrap());
    let patience = Duration::from_secs(5);
    let holder = client.driver().inspect(&name, patience).await.unwrap().holder.unwrap().owner;
    let (by, label, when) = (Owner::mint(&random), Label::new("an administrator"), When::HoldersDeadline);
    let revocation = Revocation::new(holder, by, label, when, patience);
    client.driver().revoke(&name, revocation).await.unwrap();
}

pub(crate) fn a_row_that_another_transaction_has_locked_delays_no_other_renewal() -> Outcome {
    run(async {
        let site = Site::new();
        let client = site.client().await;
        let holders = Holders::of(&client, 40).await;
        let mut keeper = site.keep_row(&name(20)).await;
        let (began, mut renewing) = (Instant::now(), holders.renew());
        for _ in 0..39 {
            let (n, answer, _) = renewing.join_next().await.unwrap().unwrap();
            assert!(n != 20 && is_held(&answer), "{n}: {answer:?}");
        }
        assert_in_time!(began.elapsed() < Duration::from_secs(2), "the others have waited");
        until("one waits for its row", async || site.waiting().await == 1).await;
        keeper.execute("COMMIT").await.unwrap();
        let (_, answer, _) = renewing.join_next().await.unwrap().unwrap();
        assert!(is_held(&answer), "{answer:?}");
    })
}

pub(crate) fn a_shared_statement_without_an_answer_is_unknown_for_each() -> Outcome {
    run(async {
        let site = Site::new();
        let client = site.client().await;
        let mut holders = Holders::of(&client, 40).await;
        let mut keeper = site.keep_table().await;
        let mut renewing = holders.renew();
        until("the first and the others are on their way", async || site.waiting().await >= 2).await;
        site.kill_connections().await;
        keeper.execute("COMMIT").await.unwrap();
        holders = Holders(Vec::new());
        while let Some(done) = renewing.join_next().await {
            let (n, answer, holder) = done.unwrap();
            let error = answer.expect_err("its connection was killed");
            assert_eq!(error.kind(), ErrorKind::Unavailable { effect: Effect::Unknown }, "{n}: {error:?}");
            holders.0.push(holder);
        }
        let answers = holders.renewed().await;
        assert!(answers.len() == 40 && answers.iter().all(is_held), "{answers:?}");
    })
}
