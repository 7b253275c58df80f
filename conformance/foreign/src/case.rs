//! The cases that a backend's `tests/interop.rs` runs with each client.

use std::fmt;
use std::time::Duration;

use lock_conformance::is_full_run;
use lock_test_servers::Absence;

use super::Stage;
use super::cases::{
    Storm, a_killed_holder_keeps_it_for_its_lease, a_late_release_releases_nothing, a_storm_of_both,
    names_are_the_same_for_both, one_holds_and_the_other_waits, the_one_between_goes, the_waiter_has_it_next,
    the_waiter_looks_at_the_leases_end, tokens_rise_in_one_order, with_a_lock_each_they_miscount,
};
use super::contender::Contender;
use super::foreign::start;
use super::kind::{Kind, Release, Waiters};
use super::ours::Ours;

/// A case that our client and the other library's play.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Case {
    OursHolds,
    OursIsUnheard,
    TheirsHolds,
    TheirsGoes,
    TheirsIsKilled,
    TheirsIsLate,
    Names,
    Tokens,
    Storm,
    LockEach,
}

/// A waiter has its lock within this time if it is told of the release, or polls. Ours looks after 3.75 s at the
/// earliest: it has been told, or has polled, if it comes sooner.
const TOLD: Duration = Duration::from_secs(3);
/// The length of leases of ours at whose end their waiters look.
const LEASE: Duration = Duration::from_millis(500);
/// So long that it shows whether they looked at its end.
const LONG_LEASE: Duration = Duration::from_secs(4);
/// Within this time, ours has a lock that was released in silence: it looks again after 5 s at the latest.
const LOOKS: Duration = Duration::from_secs(6);
/// Pauses between turns, so that clients that poll come between.
const PAUSE: Duration = Duration::from_millis(20);
/// The time that ours waits in a storm with clients that release in silence, and whose key does not show it.
const PATIENCE: Duration = Duration::from_millis(100);
/// The time that a storm without a common lock has to last to miscount.
const MISCOUNT: Duration = Duration::from_secs(1);

impl Case {
    /// Returns the cases for clients of this kind. A full run has those that wait for the end of a lease, too.
    pub(super) fn of(kind: Kind, stage: Stage) -> Vec<Case> {
        let mut cases = vec![Case::OursHolds, Case::TheirsHolds, Case::Storm];
        match kind.waiters() {
            Waiters::Queued => cases.push(Case::TheirsGoes),
            Waiters::Unknown => cases.extend([Case::TheirsIsLate, Case::Names, Case::LockEach]),
        }
        if !kind.hears_releases() {
            cases.push(Case::OursIsUnheard);
        }
        if kind.has_tokens() {
            cases.push(Case::Tokens);
        }
        if kind.waiters() == Waiters::Unknown && is_full_run() {
            cases.push(Case::TheirsIsKilled);
        }
        if matches!(stage, Stage::RedisCluster) {
            // Redisson writes some names to keys of two slots, which no cluster takes.
            cases.retain(|case| *case != Case::Names);
        }
        cases
    }

    pub(super) async fn play(
        self,
        kind: Kind,
        url: &str,
        open: impl AsyncFn() -> Ours,
    ) -> Result<(), Absence> {
        let open = async || match kind.hears_releases() {
            true => open().await,
            false => open().await.with_ttl(LEASE),
        };
        let (mut ours, mut theirs) = (open().await, start(kind, url).await?);
        match self {
            Case::OursHolds => one_waits((kind, url), &mut ours, &mut *theirs, TOLD).await?,
            Case::OursIsUnheard => {
                let (mut ours, mut looker) = (ours.with_ttl(LONG_LEASE), start(kind, url).await?);
                the_waiter_looks_at_the_leases_end(&mut ours, &mut *theirs, &mut *looker, LONG_LEASE).await;
            }
            Case::TheirsHolds => {
                one_waits((kind, url), &mut *theirs, &mut ours, ours_waits(kind)).await?;
            }
            Case::TheirsGoes => {
                let mut looker = start(kind, url).await?;
                the_one_between_goes(&mut ours, theirs, &mut open().await, &mut *looker).await;
            }
            Case::TheirsIsKilled => a_killed_holder_keeps_it_for_its_lease(theirs, &mut ours).await,
            Case::TheirsIsLate => a_late_release_releases_nothing(&mut *theirs, &mut ours).await,
            Case::Names => names_are_the_same_for_both(&mut ours, &mut *theirs).await,
            Case::Tokens => tokens_rise_in_one_order(&mut ours, &mut *theirs).await,
            Case::Storm => {
                let ours = [ours, open().await];
                let ours = ours.map(|one| Box::new(in_a_storm(one, kind)) as Box<dyn Contender>);
                let theirs: Vec<Box<dyn Contender>> = vec![theirs, start(kind, url).await?];
                a_storm_of_both(ours.into(), theirs, storm(kind)).await;
            }
            Case::LockEach => with_a_lock_each_they_miscount(&mut ours, &mut *theirs, MISCOUNT).await,
        }
        Ok(())
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Case::OursHolds => "ours_holds_theirs_waits",
            Case::OursIsUnheard => "a_release_of_ours_is_not_heard",
            Case::TheirsHolds => "theirs_holds_ours_waits",
            Case::TheirsGoes => "theirs_between_ours_goes",
            Case::TheirsIsKilled => "theirs_is_killed_ours_waits_for_its_lease",
            Case::TheirsIsLate => "a_late_release_of_theirs_releases_nothing",
            Case::Names => "names_are_the_same_for_both",
            Case::Tokens => "tokens_rise_in_one_order",
            Case::Storm => "a_storm_of_both",
            Case::LockEach => "with_a_lock_each_they_miscount",
        })
    }
}

/// One of them waits for the other, while a third client of this kind looks.
async fn one_waits(
    (kind, url): (Kind, &str),
    holder: &mut dyn Contender,
    waiter: &mut dyn Contender,
    soon: Duration,
) -> Result<(), Absence> {
    let mut looker = start(kind, url).await?;
    match kind.waiters() {
        Waiters::Queued => one_holds_and_the_other_waits(holder, waiter, &mut *looker).await,
        Waiters::Unknown => the_waiter_has_it_next(holder, waiter, &mut *looker, soon).await,
    }
    Ok(())
}

/// Returns how soon ours has a lock after a release of theirs.
fn ours_waits(kind: Kind) -> Duration {
    match kind.release() {
        Release::Told | Release::Seen => TOLD,
        Release::Silent => LOOKS,
    }
}

fn in_a_storm(ours: Ours, kind: Kind) -> Ours {
    match kind.release() {
        Release::Told | Release::Seen => ours,
        Release::Silent => ours.asking_again_after(PATIENCE),
    }
}

/// Returns how long a storm lasts. Prints it, so that a reader cannot take a short run for a full one.
fn storm(kind: Kind) -> Storm {
    let seconds = if is_full_run() { 30 } else { 3 };
    println!("{kind}: {seconds} s of storm; 30 with LOCK_TEST_FULL=1");
    let pause = match kind.release() {
        Release::Told => Duration::ZERO,
        Release::Seen | Release::Silent => PAUSE,
    };
    Storm { length: Duration::from_secs(seconds), pause }
}
