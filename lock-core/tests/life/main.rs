//! The life of a claim on a virtual clock, against a server that answers as the test says: every outcome that a real
//! server shows only rarely, at its exact time.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod behind;
mod coming_back;
mod entering;
mod events;
mod handed_over;
mod leaving;
mod left;
mod log;
mod looking;
mod once;
mod recorded;
mod reentrant;
mod renewing;
mod revoked;
mod risk;
mod scripted;
mod several;
mod suspend;
mod takeovers;
mod terms;
mod told;
mod trace;
mod unanswered;
mod validity;
mod waits;

use std::time::Duration;

use lock_core::{Client, Clock, Guard, Lock, LossReason};
use scripted::ms;

const TTL: Duration = ms(3000);
const PATIENCE: Duration = ms(1000);

fn lock(client: &Client) -> Lock {
    client.lock("n").ttl(TTL).build().unwrap()
}

async fn acquired(client: &Client) -> Guard {
    lock(client).acquire().await.unwrap()
}

/// With a time limit: a virtual clock goes on for ever if nothing else happens.
async fn lost(guard: &Guard) -> LossReason {
    Clock::system().timeout(TTL * 20, guard.lost()).await.expect("the loss is told")
}
