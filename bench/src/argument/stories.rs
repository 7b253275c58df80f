//! The stories: a failure between the first client's grant and its write.

use lock_conformance::{Data, Step};
use lock_test_servers::{Clock, Owned};

use super::scene::{RoundResult, Scene, TTL};
use crate::Outcome;
use crate::claims::Of;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Story {
    Nothing,
    /// The first client looks at its lock, stands still for longer than its lease, and writes.
    Pause,
    /// The clocks of this many servers are set forward by more than the lease.
    Clocks(usize),
    /// A, B and C grant the lock; C restarts without its data; C, D and E are asked.
    Restart,
    /// The same, but C's place is taken by a replica that was cut off before the grant.
    Failover,
}

pub(super) const STORIES: [Story; 6] =
    [Story::Nothing, Story::Pause, Story::Clocks(1), Story::Clocks(3), Story::Restart, Story::Failover];

impl Story {
    pub(super) fn name(self) -> String {
        match self {
            Story::Nothing => "nothing".to_owned(),
            Story::Pause => "the client stands still for longer than its lease".to_owned(),
            Story::Clocks(1) => "one of the clocks is set forward".to_owned(),
            Story::Clocks(count) => format!("{count} of the clocks are set forward"),
            Story::Restart => "a restart between A, B, C and C, D, E".to_owned(),
            Story::Failover => "a failover between A, B, C and C, D, E".to_owned(),
        }
    }

    /// Plays one round: the first client is granted the lock, something fails, a second client tries, and both write.
    pub(crate) async fn play(self, algorithm: Of) -> Outcome<RoundResult> {
        let clock = if matches!(self, Story::Clocks(_)) { Clock::Own } else { Clock::Machines };
        let mut scene = Scene::set(clock, algorithm).await?;
        self.before(&mut scene).await?;
        let Some(first) = scene.acquire().await? else { return Ok(RoundResult::default()) };
        let looked = first.is_held();
        self.goes_wrong(&mut scene).await?;
        let second = scene.acquire().await?.ok_or("the second client was granted nothing in time")?;
        let mut result = RoundResult { granted: true, two_held: first.is_held(), ..RoundResult::default() };
        if !scene.takes(&second) {
            return Err("the newest token was refused".into());
        }
        // A client that looks right before it writes stops here. A client that stood still between its look and its
        // write doesn't.
        result.stale = if self == Story::Pause { looked } else { first.is_held() };
        result.taken = result.stale && scene.takes(&first);
        second.release().await;
        first.release().await;
        Ok(result)
    }

    async fn before(self, scene: &mut Scene) -> Outcome<()> {
        if self == Story::Failover {
            scene.replicate().await?;
        }
        if matches!(self, Story::Restart | Story::Failover) {
            scene.servers[3..].iter().try_for_each(Owned::pause)?;
        }
        Ok(())
    }

    async fn goes_wrong(self, scene: &mut Scene) -> Outcome<()> {
        match self {
            Story::Nothing => {}
            Story::Pause => tokio::time::sleep(TTL * 3 / 2).await,
            Story::Clocks(count) => {
                let servers = &scene.servers[..count];
                servers.iter().try_for_each(|server| server.step_clock(Step::Forward(TTL * 2)))?;
            }
            Story::Restart => {
                scene.servers[2].kill()?;
                scene.servers[2].restart(Data::Lost)?;
                change_majority(scene)?;
            }
            Story::Failover => {
                scene.servers[2].kill()?;
                scene.promote()?;
                change_majority(scene)?;
            }
        }
        Ok(())
    }
}

/// Resumes D and E, and pauses A and B.
fn change_majority(scene: &Scene) -> Outcome<()> {
    scene.servers[3..].iter().try_for_each(Owned::resume)?;
    scene.servers[..2].iter().try_for_each(Owned::pause)?;
    Ok(())
}
