//! The command while it runs: no part of it may be running when another holder could be.

use std::pin::pin;
use std::time::Duration;

use onelock::{Cause, Guard};
use tokio::time::{Instant, sleep};

use crate::exit::{Exit, Failure};
use crate::os::{Deadline, Event, Process, Signals};

/// However little is left, renewals are looked for no more often than this.
const SHORTEST_LOOK: Duration = Duration::from_millis(5);

/// How long before the end of the lease the command is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Margins {
    /// How often renewals are looked for at least.
    look: Duration,
    /// When it is asked to end.
    terminate: Duration,
    /// When it is killed.
    kill: Duration,
}

impl Margins {
    /// A healthy lease never has less than two thirds of its ttl left: the margins stay well below that.
    pub(crate) fn of(ttl: Duration, grace: Duration) -> Margins {
        let kill = (ttl / 100).max(Duration::from_millis(50)).min(ttl / 4);
        let terminate = grace.min(ttl / 3) + kill;
        // Twice per renewal.
        Margins { look: (ttl / 6).max(SHORTEST_LOOK), terminate, kill }
    }

    /// How long before the end the command is asked to end, so that it has its grace.
    pub(crate) fn terminate(self) -> Duration {
        self.terminate
    }

    /// When the command is killed if nothing is renewed from now on.
    pub(crate) fn deadline(self, guard: &Guard) -> Deadline {
        Deadline::after(|| self.left(guard))
    }

    /// Until the next look for a renewal. A late one must be told before the deadline that it moves.
    fn pause(self, guard: &Guard) -> Duration {
        (self.left(guard) / 2).clamp(SHORTEST_LOOK, self.look)
    }

    fn left(self, guard: &Guard) -> Duration {
        guard.valid_for().saturating_sub(self.kill)
    }
}

/// How the command came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// In its own way.
    ByItself(Exit),
    /// It was asked to, because the lock was about to be lost, or taken away, or had been held for long enough.
    Terminated(Cause),
    /// It was killed, because the lock was lost.
    Killed(Cause),
}

/// Sees the command to its end, in time. The process knows its deadline, and keeps to it should we not be there then.
///
/// After SIGTERM its own status no longer tells whether it did its work: that end is a loss even if the lease was
/// renewed in the last moment. Whoever revokes a lock in the usual way leaves it to us until its deadline: the command
/// has that long to end, and the process that knows the deadline kills it then. So do we: that process may be stopped, and
/// goes on only if it is told to.
///
/// `told` is the deadline that the process was started with.
pub(crate) async fn supervise(
    process: &mut Process,
    guard: &Guard,
    margins: Margins,
    mut told: Deadline,
    signals: &mut Signals,
) -> Result<Ended, Failure> {
    // Both resolve at once when the lock is lost.
    let (mut last_moment, mut warning) =
        (pin!(guard.at_risk(margins.kill)), pin!(guard.at_risk(margins.terminate)));
    let mut look = pin!(sleep(margins.pause(guard)));
    let (mut ended, mut is_lost) = (None, false);
    loop {
        tokio::select! {
            biased;
            // First, so that a process that has not run for a while doesn't look at anything else before.
            cause = &mut last_moment, if !is_lost => {
                is_lost = true;
                ended = Some(match cause {
                    Cause::Revoked if Process::KEEPS_TO_DEADLINES => {
                        process.terminate();
                        Ended::Terminated(cause)
                    }
                    _ => {
                        process.kill();
                        Ended::Killed(cause)
                    }
                });
            }
            () = told.reached(), if ended == Some(Ended::Terminated(Cause::Revoked)) => {
                process.kill();
                ended = Some(Ended::Killed(Cause::Revoked));
            }
            cause = &mut warning, if ended.is_none() => {
                process.terminate();
                ended = Some(Ended::Terminated(cause));
            }
            // What is lost has no later deadline than the one that was told.
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
                // Here we have been stopped like the command, and go on. It does not if the lock is gone meanwhile.
                Event::Stopped if guard.is_held() => process.go_on(),
                Event::Stopped => {}
            },
            signal = signals.next() => process.forward(signal),
        }
    }
    let exit = process.bury()?;
    Ok(ended.unwrap_or(Ended::ByItself(exit)))
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
