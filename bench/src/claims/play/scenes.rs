//! Scenes that no case of the suite plays. Each returns figures, whatever it sees; the claims judge them.

mod failing;
mod waiting;

use std::collections::BTreeMap;
use std::time::Duration;

use lock_conformance::Harness;
use lock_conformance::claims::Terms;
use lock_conformance::rules::block_on;
use lock_core::driver::Queueing;
use lock_core::{Client, Options, Owner, Random};

use super::super::trial::Scene;
use super::harness::Tried;
use crate::Outcome;
pub(super) use crate::subjects::ours::release;

pub(super) type Figures = BTreeMap<String, f64>;

/// A scene has so much time. With two dead waiters a fair lock takes more than ten seconds.
const LIMIT: Duration = Duration::from_secs(60);

/// Plays a scene. The caller must not be in a runtime.
pub(super) fn play(scene: Scene, tried: &Tried) -> Outcome<Figures> {
    block_on(async {
        let playing = async {
            match scene {
                Scene::Told => waiting::told(tried).await,
                Scene::DeadWaiters => waiting::dead_waiters(tried).await,
                Scene::EarlyRelease => waiting::early_release(tried).await,
                Scene::Dies => failing::dies(tried).await,
                Scene::Failover => failing::failover(tried).await,
                Scene::Minority => failing::minority(tried).await,
                Scene::EmptyRestart => failing::empty_restart(tried).await,
                Scene::CrashedMajority => failing::crashed_majority(tried).await,
            }
        };
        tokio::time::timeout(LIMIT, playing).await.map_err(|_| "it was not over in time")?
    })
}

/// The shortest lease that every scheme can have: `EXPIRE` counts in seconds.
const TTL: Duration = Duration::from_secs(1);

fn terms(waits: Queueing) -> Terms<'static> {
    Terms { ttl: TTL, patience: Duration::from_millis(400), waits, label: "a scene" }
}

fn figures<const N: usize>(figures: [(&str, f64); N]) -> Figures {
    figures.into_iter().map(|(name, figure)| (name.to_owned(), figure)).collect()
}

/// The figure 1 stands for true, 0 for false.
fn flag(is_so: bool) -> f64 {
    f64::from(u8::from(is_so))
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn name() -> String {
    format!("scene-{}", Owner::mint(&Random::system()))
}

async fn open(tried: &Tried) -> Outcome<Client> {
    Ok(tried.open(Options::default()).await?)
}
