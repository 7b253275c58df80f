//! Supervises the command: no part of it may run when another holder could run.

use std::pin::pin;
use std::time::Duration;

use onelock::{Clock, Guard, LossReason};
use tokio::time::{Instant, sleep};

use crate::exit::{Exit, Failure};
use crate::os::{Deadline, Event, Found, Process, Signal, Signals, Survivor};
use crate::run::release::{SECOND, at};

/// The shortest pause between two looks for a renewal.
const SHORTEST_LOOK: Duration = Duration::from_millis(5);

/// The times before the end of the lease at which the command is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Margins {
    /// The longest pause between two looks for a renewal.
    look: Duration,
    /// The time between SIGTERM and the end of the lease.
    terminate: Duration,
    /// The time between SIGKILL and the end of the lease.
    kill: Duration,
}

impl Margins {
    /// Computes the margins. A healthy lease always has at least two thirds of its ttl left; the margins stay well
    /// below that.
    pub(crate) fn of(ttl: Duration, grace: Duration) -> Margins {
        let kill = (ttl / 100).max(Duration::from_millis(50)).min(ttl / 4);
        let terminate = grace.min(ttl / 3) + kill;
        // Two looks for each renewal.
        Margins { look: (ttl / 6).max(SHORTEST_LOOK), terminate, kill }
    }

    /// Returns how long the command has between SIGTERM and SIGKILL.
    fn grace(self) -> Duration {
        self.terminate - self.kill
    }

    /// Returns when the command is killed if the lease is not renewed from now on.
    pub(crate) fn deadline(self, guard: &Guard) -> Deadline {
        Deadline::after(|| self.left(guard))
    }

    /// Returns the pause until the next look for a renewal. The watcher must learn of a late renewal before the old
    /// deadline.
    fn pause(self, guard: &Guard) -> Duration {
        (self.left(guard) / 2).clamp(SHORTEST_LOOK, self.look)
    }

    fn left(self, guard: &Guard) -> Duration {
        guard.valid_for().saturating_sub(self.kill)
    }
}

/// The end of the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// By itself.
    ByItself(Exit),
    /// By SIGTERM: the lock was about to be lost, was revoked, or was held for as long as allowed.
    Terminated(LossReason),
    /// By SIGKILL: the lock was lost.
    Killed(LossReason),
}

/// The outcome of the supervision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Ended(Ended),
    /// A process that can't be ended. The lock was lost for the reason, or a signal has ended the wait.
    GoesOn(Survivor, Option<LossReason>),
}

/// A remark to the user while the command is supervised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Remark {
    /// The command has ended and left so many processes running, of which one is named. They are killed.
    LeftBehind(u32, Found),
    /// A process that can't be ended. The lock is kept as long as it is ours.
    GoesOn(Survivor),
}

/// A held lock, and how long the command may hold it.
pub(crate) struct Hold<'a> {
    pub(crate) guard: &'a Guard,
    pub(crate) clock: &'a Clock,
    pub(crate) margins: Margins,
    /// When the command has held the lock for as long as it may.
    pub(crate) ends: Option<onelock::Instant>,
}

/// Supervises the command until it ends, and ends it in time. The process knows its deadline, and keeps to it even if
/// this program does not run then.
///
/// After SIGTERM the command's status no longer says whether it did its work. So that end counts as a loss, even if the
/// lease was renewed in the last moment.
///
/// A lock that is revoked in the usual way stays this holder's until its deadline. The command has that long to end,
/// and then the process that knows the deadline kills it. This function kills it then, too: that process may be
/// stopped, and only continues if it receives an order.
///
/// While a process of the command can't be ended, the lock is kept: this function returns when that process has ended,
/// when the lock is another's to take, or at a signal that comes after that was told.
///
/// `told` is the deadline with which the process was started.
pub(crate) async fn supervise(
    process: &mut Process,
    hold: &Hold<'_>,
    mut told: Deadline,
    signals: &mut Signals,
    remark: impl Fn(Remark),
) -> Result<Outcome, Failure> {
    let &Hold { guard, clock, margins, ends } = hold;
    // Both futures resolve at once when the lock is lost.
    let (mut last_moment, mut warning) =
        (pin!(guard.at_risk(margins.kill)), pin!(guard.at_risk(margins.terminate)));
    let mut look = pin!(sleep(margins.pause(guard)));
    let (mut ended, mut is_lost) = (None, false);
    let mut survivor: Option<(Survivor, Instant)> = None;
    loop {
        tokio::select! {
            biased;
            // First: after a pause of this process, the loss must be seen before anything else.
            cause = &mut last_moment, if !is_lost => {
                is_lost = true;
                ended = Some(end_in_the_last_moment(process, cause));
            }
            () = told.reached(), if ended == Some(Ended::Terminated(LossReason::Revoked)) => {
                process.kill();
                ended = Some(Ended::Killed(LossReason::Revoked));
            }
            cause = &mut warning, if ended.is_none() => {
                process.terminate();
                ended = Some(Ended::Terminated(cause));
            }
            () = at(ends, clock), if ended.is_none() => {
                process.terminate();
                ended = Some(Ended::Terminated(LossReason::MaxHold));
            }
            () = at(ends.map(|ends| ends + margins.grace()), clock),
                if ended == Some(Ended::Terminated(LossReason::MaxHold)) =>
            {
                process.kill();
                ended = Some(Ended::Killed(LossReason::MaxHold));
            }
            // A lost lock gets no later deadline.
            () = &mut look, if !is_lost => {
                told = margins.deadline(guard);
                process.kill_at(told);
                look.as_mut().reset(Instant::now() + margins.pause(guard));
            }
            (found, reason) = lost_with(survivor, guard, told.later(margins.kill)) => {
                return Ok(Outcome::GoesOn(found, Some(reason)));
            }
            event = process.event() => match event? {
                Event::Ended => break,
                Event::LeaderEnded if ended.is_none() && guard.is_held() => break,
                // What it has left behind must not go on without the lock.
                Event::LeaderEnded => process.kill(),
                Event::Killed => {
                    ended = Some(Ended::Killed(guard.at_risk(Duration::MAX).await));
                    break;
                }
                // This process was stopped together with the command, and runs again. The command continues only if the
                // lock is still held.
                Event::Stopped if guard.is_held() => process.go_on(),
                Event::Stopped => {}
                Event::LeftBehind(count, found) if ended.is_none() => remark(Remark::LeftBehind(count, found)),
                Event::LeftBehind(..) => {}
                Event::GoesOn(found) => {
                    survivor = Some((found, Instant::now()));
                    remark(Remark::GoesOn(found));
                }
            },
            signal = signals.next_to_pass_on() => {
                if let Some((found, since)) = survivor
                    && ends_the_wait(signal, since)
                {
                    return Ok(Outcome::GoesOn(found, None));
                }
                // A command that is stopped continues only if the lock is still held.
                if !signal.continues() || guard.is_held() {
                    process.forward(signal);
                }
            }
        }
    }
    let exit = process.exit();
    Ok(Outcome::Ended(ended.unwrap_or(Ended::ByItself(exit))))
}

/// Ends the daemons that the command has left behind: the lock was lost after all. Returns one that can't be ended.
pub(crate) async fn end_daemons(process: &mut Process) -> Option<Survivor> {
    process.kill();
    loop {
        match process.event().await {
            Ok(Event::Ended | Event::Killed) | Err(_) => {
                process.reap();
                return None;
            }
            Ok(Event::GoesOn(survivor)) => {
                process.let_go();
                return Some(survivor);
            }
            Ok(Event::LeaderEnded | Event::Stopped | Event::LeftBehind(..)) => {}
        }
    }
}

/// Ends the command when the lock is lost or about to be. After a usual revoke it has until its deadline.
fn end_in_the_last_moment(process: &mut Process, cause: LossReason) -> Ended {
    match cause {
        LossReason::Revoked if Process::KEEPS_TO_DEADLINES => {
            process.terminate();
            Ended::Terminated(cause)
        }
        _ => {
            process.kill();
            Ended::Killed(cause)
        }
    }
}

/// If there is a survivor, waits until another client can have the lock, and returns it with the reason. A
/// lock that was revoked in the usual way stays ours until `lease_ends`.
async fn lost_with(
    survivor: Option<(Survivor, Instant)>,
    guard: &Guard,
    lease_ends: Deadline,
) -> (Survivor, LossReason) {
    let Some((found, _)) = survivor else { return std::future::pending().await };
    let reason = guard.lost().await;
    if reason == LossReason::Revoked && Process::KEEPS_TO_DEADLINES {
        lease_ends.reached().await;
    }
    (found, reason)
}

/// Returns whether a signal ends the wait for a process that can't be ended. One that comes right after the command's
/// end may be the second half of what has ended the command, as a service manager sends SIGHUP after SIGTERM.
fn ends_the_wait(signal: Signal, since: Instant) -> bool {
    signal.asks_to_end() && since.elapsed() >= SECOND
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRACE: Duration = Duration::from_secs(5);

    #[test]
    fn margins_leave_time_to_stop_and_spare_healthy_leases() {
        for ttl in [30, 100, 500, 1_000, 30_000, 600_000, 86_400_000].map(Duration::from_millis) {
            let Margins { look, terminate, kill } = Margins::of(ttl, GRACE);
            assert!(!kill.is_zero() && kill < terminate, "{ttl:?}");
            assert!(terminate < ttl * 6 / 10, "{ttl:?}");
            assert!(!look.is_zero() && look <= ttl / 6, "{ttl:?}");
        }
        let usual = Margins::of(Duration::from_secs(30), GRACE);
        let (look, kill) = (Duration::from_secs(5), Duration::from_millis(300));
        assert_eq!(usual, Margins { look, terminate: GRACE + kill, kill });
        let patient = Margins::of(Duration::from_secs(30), Duration::from_secs(60));
        assert_eq!(patient.terminate, Duration::from_secs(10) + kill);
    }
}
