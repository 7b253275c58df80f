//! A fair lock's server has its clock set while clients hold, wait, or have died. Each returns `Err` with the reason if it
//! can't be run.

use std::time::Duration;

use lock_conformance::Step;
use lock_conformance::timing::{released, within};
use lock_core::driver::{Attempt, Claim, Renewal};
use lock_test_servers::clock;

use crate::fair::{GRACE, SHORT, beside, queued};
use crate::server::{Server, busy, claim, granted, run_within};

const FAR: Duration = Duration::from_secs(300);
const LIMIT: Duration = Duration::from_secs(60);
const LONG: Duration = Duration::from_secs(3);
const LONG_GRACE: &str = "?fair=true&grace=3s";
const SOON: Duration = Duration::from_secs(1);

async fn asks(waiter: &mut Box<dyn Claim>, how_long: Duration) {
    let end = std::time::Instant::now() + how_long;
    while std::time::Instant::now() < end {
        let look = queued(waiter).await;
        tokio::time::sleep(look.min(GRACE / 4)).await;
    }
}

// Proves: redis-fair, server-clock-set
pub(crate) fn set_back_a_dead_waiter_costs_one_grace() -> Result<(), String> {
    clock::can_be_set()?;
    run_within(LIMIT, async {
        // The dead waiter may have another grace than those behind it.
        for (dead, grace) in [(SHORT, GRACE), (LONG_GRACE, LONG)] {
            let server = Server::with_its_own_clock();
            let (gone, client) = (server.client(dead).await, server.client(SHORT).await);
            let mut holder = claim(&client, "n", 60_000);
            granted(&mut holder).await;
            queued(&mut claim(&gone, "n", 60_000)).await;
            server.step_clock(Step::Back(FAR));
            let lock = server.client(SHORT).await.lock("n").build().unwrap();
            let waiting = tokio::spawn(async move { lock.acquire().await.unwrap() });
            let mut raw = server.raw().await;
            let order = beside(&mut raw, 'o').await.unwrap();
            crate::server::until("it is behind it", async || raw.ask::<u32>(&["ZCARD", &order]).await == 2)
                .await;
            holder.release().await.unwrap();
            released(within("the free name is had", grace * 2, waiting).await.unwrap()).await;

            // So has a try.
            let mut holder = claim(&client, "n", 60_000);
            granted(&mut holder).await;
            queued(&mut claim(&gone, "n", 60_000)).await;
            holder.release().await.unwrap();
            server.step_clock(Step::Back(FAR));
            let lock = client.lock("n").build().unwrap();
            let tried = async {
                loop {
                    match lock.try_acquire().await.unwrap() {
                        Some(guard) => return guard,
                        None => tokio::time::sleep(GRACE / 8).await,
                    }
                }
            };
            released(within("a try has it", grace * 2, tried).await).await;
        }
    });
    Ok(())
}

// Proves: redis-fair
pub(crate) fn set_back_it_costs_no_waiter_its_place() -> Result<(), String> {
    clock::can_be_set()?;
    run_within(LIMIT, async {
        let server = Server::with_its_own_clock();
        let (client, long) = (server.client(SHORT).await, server.client(LONG_GRACE).await);
        let mut holder = claim(&client, "n", 60_000);
        granted(&mut holder).await;
        let (mut first, mut second) = (claim(&long, "n", 60_000), claim(&client, "n", 60_000));
        queued(&mut first).await;
        queued(&mut second).await;
        for back in [Duration::from_millis(100), FAR] {
            server.step_clock(Step::Back(back));
            // For longer than the second one may be silent, and not the first one.
            asks(&mut second, GRACE).await;
            queued(&mut first).await;
        }
        assert!(matches!(holder.renew(Duration::from_secs(60)).await.unwrap(), Renewal::Held { .. }));
        holder.release().await.unwrap();
        queued(&mut second).await;
        granted(&mut first).await;
        queued(&mut second).await;
        first.release().await.unwrap();
        granted(&mut second).await;
    });
    Ok(())
}

pub(crate) fn set_forward_it_lets_a_dead_waiter_go() -> Result<(), String> {
    clock::can_be_set()?;
    run_within(LIMIT, async {
        let server = Server::with_its_own_clock();
        let client = server.client(SHORT).await;
        // A lease that does not end by that.
        let mut holder = claim(&client, "n", 600_000);
        granted(&mut holder).await;
        let mut dead = claim(&client, "n", 60_000);
        queued(&mut dead).await;
        let mut second = claim(&client, "n", 60_000);
        queued(&mut second).await;
        server.step_clock(Step::Forward(FAR));
        asks(&mut second, GRACE / 2).await;
        busy(&mut claim(&client, "n", 60_000)).await;
        assert!(matches!(holder.renew(Duration::from_secs(600)).await.unwrap(), Renewal::Held { .. }));
        holder.release().await.unwrap();
        granted(&mut second).await;
        // Set right again, with a waiter that asked in the meantime and has died.
        queued(&mut claim(&client, "n", 60_000)).await;
        server.step_clock(Step::Back(FAR));
        let mut third = claim(&client, "n", 60_000);
        second.release().await.unwrap();
        within("the free name is had", GRACE * 2, async {
            while let Attempt::Busy(told) = third.attempt().await.unwrap() {
                tokio::time::sleep(told.free_in.unwrap_or(SOON).min(GRACE / 8)).await;
            }
        })
        .await;
    });
    Ok(())
}
