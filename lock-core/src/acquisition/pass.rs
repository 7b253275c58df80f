//! Letting others pass: a client that has had a name for a while, or has just given it up, lets other clients have it.

use std::time::Duration;

use tokio::sync::oneshot;

use super::{Acquisition, Answer};
use crate::driver::{Fair, Takeovers, Wakes};
use crate::error::Result;
use crate::local_queue::{PASS_PAUSE, Turn};

impl Acquisition {
    /// Returns how many turns of other clients this claim lets pass: as many as its client had in a row, or one if its
    /// client has just given the lock up to those that waited. A server with a queue keeps the order by itself, and
    /// without wake-ups the turn of another client is not heard.
    pub(super) fn turns_owed(&self, turn: Option<&Turn>) -> u32 {
        let Some(turn) = turn else { return 0 };
        let info = self.shared.driver.info();
        match turn.turns_owed() {
            0 if info.fair == Fair::No && info.wakes == Wakes::Pushed => u32::from(turn.comes_back()),
            owed => owed,
        }
    }

    /// Waits for a wake-up, or for `pause`. A wake-up while turns are owed ends another client's turn.
    pub(super) async fn wait_for_turn(
        &mut self,
        pause: Duration,
        turn: Option<&Turn>,
        turns_owed: &mut u32,
        caller: &mut oneshot::Sender<Answer>,
    ) -> Result<()> {
        let woken = self.wait(pause, caller).await?;
        if woken && *turns_owed > 0 {
            *turns_owed -= 1;
            self.let_others_pass(turn, turns_owed, caller).await?;
        }
        Ok(())
    }

    /// Lets other clients have the turns that they are owed. A wake-up ends each turn. Silence means that no client
    /// wants the next turn, or that one takes longer: the next attempt shows which.
    pub(super) async fn let_others_pass(
        &mut self,
        turn: Option<&Turn>,
        turns_owed: &mut u32,
        caller: &mut oneshot::Sender<Answer>,
    ) -> Result<()> {
        if *turns_owed > 0 {
            self.listen().await;
        }
        while *turns_owed > 0 {
            if !self.wait(PASS_PAUSE, caller).await? {
                turn.inspect(|turn| turn.waited_in_vain());
                break;
            }
            turn.inspect(|turn| turn.heard_of_others());
            *turns_owed -= 1;
        }
        // A row of turns that a client hands over to itself ends in one wake-up. The row that has begun meanwhile is as long
        // as the one that is owed for.
        if self.shared.driver.info().takeovers == Takeovers::InOneRequest {
            *turns_owed = 0;
        }
        Ok(())
    }
}
