//! When leases end, as far as can be known from here, and how far apart the two servers may be.

use std::time::{Duration, Instant};

use lock_core::driver::Revoked;

use super::plan::NAMES;
use super::side::Said;

/// Servers round to the millisecond: what is left, and when it is asked.
const ROUNDING: Duration = Duration::from_millis(2);

#[derive(Clone, Copy, Debug)]
struct Ends {
    earliest: Instant,
    latest: Instant,
}

/// What is known of each name's lease.
#[derive(Debug)]
pub(super) struct Twilight {
    /// No step begins with less left.
    margin: Duration,
    /// Later ends are not waited for.
    soon: Duration,
    ends: [Option<Ends>; NAMES],
    /// The longest step of those that set this lease: so far apart may the two ends lie.
    longest: [Duration; NAMES],
}

impl Twilight {
    pub(super) fn new(short: Duration) -> Twilight {
        Twilight { margin: short / 4, soon: short * 2, ends: [None; NAMES], longest: [Duration::ZERO; NAMES] }
    }

    /// Waits while the lease of this name may be about to end.
    pub(super) async fn wait(&self, name: usize) {
        let near = self.ends[name].filter(|ends| Instant::now() + self.margin >= ends.earliest);
        if let Some(ends) = near {
            tokio::time::sleep_until(ends.latest.into()).await;
        }
    }

    /// Waits until the lease of this name has ended, if that is soon. Whether there was one to wait for.
    pub(super) async fn outlive(&self, name: usize) -> bool {
        let now = Instant::now();
        let soon = self.ends[name].filter(|ends| ends.latest > now && ends.earliest <= now + self.soon);
        if let Some(ends) = soon {
            tokio::time::sleep_until(ends.latest.into()).await;
        }
        soon.is_some()
    }

    /// Whether the lease may have ended between these two.
    pub(super) fn met(&self, name: usize, began: Instant, ended: Instant) -> bool {
        self.ends[name].is_some_and(|ends| ends.earliest <= ended && began < ends.latest)
    }

    /// How far apart the same moment may lie on the two, in a step that took so long.
    pub(super) fn apart(&self, name: usize, step: Duration) -> Duration {
        self.longest[name] + step + ROUNDING
    }

    /// Learns from the answers of both, each with when it was asked for and when it was here.
    pub(super) fn heard(&mut self, name: usize, answers: [(&Said, Instant, Instant); 2]) {
        let [(_, began, _), (said, _, ended)] = answers;
        match said {
            Said::Granted { token: super::side::Rank::Risen, .. } => self.longest[name] = ended - began,
            Said::Granted { .. } | Said::Held { .. } => {
                self.longest[name] = self.longest[name].max(ended - began);
            }
            Said::Released { .. } | Said::Revoked(Revoked::Free) => self.ends[name] = None,
            _ => {}
        }
        let ends = answers.iter().filter_map(|(said, asked, here)| {
            let left = left(said)?;
            Some(Ends { earliest: *asked + left, latest: *here + left + ROUNDING })
        });
        let both =
            ends.reduce(|a, b| Ends { earliest: a.earliest.min(b.earliest), latest: a.latest.max(b.latest) });
        self.ends[name] = both.or(self.ends[name]);
    }
}

fn left(said: &Said) -> Option<Duration> {
    match said {
        Said::Granted { left, .. } | Said::Held { left } => Some(*left),
        Said::Busy(busy) => busy.free_in,
        Said::Revoked(Revoked::FreeIn(left)) => Some(*left),
        _ => None,
    }
}
