//! Supervises the command: no part of it may run when another holder could run.

use std::pin::pin;
use std::time::Duration;

use onelock::{Guard, LossReason};
use tokio::time::{Instant, sleep};

use crate::exit::{Exit, Failure};
use crate::os::{Deadline, Event, Process, Signals};

/// The shortest pause between two looks for a renewal.
const SHORTEST_LOOK: Duration = Duration::from_millis(5);

/// How long before the end of the lease the command is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Margins {
    /// The longest pause between two looks for a renewal.
    look: Duration,
    /// How long before the end of the lease the command gets SIGTERM.
    terminate: Duration,
    /// How long before the end of the lease the command is killed.
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

    /// Returns how long before the end of the lease the command gets SIGTERM, so that it has its grace.
    pub(crate) fn terminate(self) -> Duration {
        self.terminate
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

/// How the command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// By itself.
    ByItself(Exit),
    /// By SIGTERM: the lock was about to be lost, was revoked, or was held for as long as allowed.
    Terminated(LossReason),
    /// By SIGKILL: the lock was lost.
    Killed(LossReason),
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
/// `told` is the deadline with which the process was started.
pub(crate) async fn supervise(
    process: &mut Process,
    guard: &Guard,
    margins: Margins,
    mut told: Deadline,
    signals: &mut Signals,
) -> Result<Ended, Failure> {
    // Both futures resolve at once when the lock is lost.
    let (mut last_moment, mut warning) =
        (pin!(guard.at_risk(margins.kill)), pin!(guard.at_risk(margins.terminate)));
    let mut look = pin!(sleep(margins.pause(guard)));
    let (mut ended, mut is_lost) = (None, false);
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
            // A lost lock gets no later deadline.
            () = &mut look, if !is_lost => {
                told = margins.deadline(guard);
                process.kill_at(told);
                look.as_mut().reset(Instant::now() + margins.pause(guard));
            }
            event = process.event() => match event? {
                Event::Ended => break,
                Event::Killed => {
                    ended = Some(Ended::Killed(guard.at_risk(Duration::MAX).await));
                    break;
                }
                // This process was stopped together with the command, and runs again. The command continues only if the
                // lock is still held.
                Event::Stopped if guard.is_held() => process.go_on(),
                Event::Stopped => {}
            },
            signal = signals.next() => process.forward(signal),
        }
    }
    let exit = process.reap()?;
    Ok(ended.unwrap_or(Ended::ByItself(exit)))
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

#[cfg(test)]
mod tests {
    use super::*;

    const GRACE: Duration = Duration::from_secs(5);

    #[test]
    fn margins_leave_time_to_stop_and_are_not_met_by_a_healthy_lease() {
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
