//! When leases end, as far as this process can know, and how far apart in time the two servers may be.

use std::time::{Duration, Instant};

use lock_core::driver::Revoked;

use super::plan::NAMES;
use super::side::{REVOKER, Said};

/// Servers round to the millisecond, both the time that is left and the time of the request.
const ROUNDING: Duration = Duration::from_millis(2);

#[derive(Clone, Copy, Debug)]
struct Ends {
    earliest: Instant,
    latest: Instant,
}

/// The known end of the lease of each name. Between the earliest and the latest possible end, the answer to a step is
/// open.
#[derive(Debug)]
pub(super) struct LeaseEnds {
    /// No step begins with less time left than this.
    margin: Duration,
    /// Ends that are further away than this are not waited for.
    soon: Duration,
    ends: [Option<Ends>; NAMES],
    /// From when on a server with sessions may have freed a lock that was revoked.
    frees: [Option<Instant>; NAMES],
    /// The longest of the steps that set this lease. The ends on the two servers may be that far apart.
    longest: [Duration; NAMES],
}

impl LeaseEnds {
    pub(super) fn new(short: Duration) -> LeaseEnds {
        let (margin, soon) = (short / 4, short * 2);
        let (ends, frees, longest) = ([None; NAMES], [None; NAMES], [Duration::ZERO; NAMES]);
        LeaseEnds { margin, soon, ends, frees, longest }
    }

    /// Waits while the lease of this name may be about to end.
    pub(super) async fn wait(&self, name: usize) {
        let near = self.ends[name].filter(|ends| Instant::now() + self.margin >= ends.earliest);
        if let Some(ends) = near {
            tokio::time::sleep_until(ends.latest.into()).await;
        }
    }

    /// Waits until the lease of this name has ended, if that is soon. Returns whether there was one to wait for.
    pub(super) async fn outlive(&self, name: usize) -> bool {
        let now = Instant::now();
        let soon = self.ends[name].filter(|ends| ends.latest > now && ends.earliest <= now + self.soon);
        if let Some(ends) = soon {
            tokio::time::sleep_until(ends.latest.into()).await;
        }
        soon.is_some()
    }

    /// Returns whether a server with sessions may have freed, by this moment, a lock that was revoked.
    pub(super) fn may_be_freed(&self, name: usize, ended: Instant) -> bool {
        self.frees[name].is_some_and(|free| free <= ended)
    }

    /// Returns whether the lease may have ended between these two moments.
    pub(super) fn met(&self, name: usize, began: Instant, ended: Instant) -> bool {
        self.ends[name].is_some_and(|ends| ends.earliest <= ended && began < ends.latest)
    }

    /// Returns whether a session may have ended during such a silence.
    pub(super) fn is_long(&self, silence: Duration) -> bool {
        silence > self.margin
    }

    /// Returns how far apart the same moment may be on the two servers, in a step that took so long.
    pub(super) fn apart(&self, name: usize, step: Duration) -> Duration {
        self.longest[name] + step + ROUNDING
    }

    /// Learns from the answers of both servers, each with the moments at which it was asked for and received.
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

    /// Only its server can tell when a session ends. Each of the two servers decides for itself when a lock that was
    /// revoked is free. The client of its holder may free it earlier than the server said, at the deadline that the
    /// client knows, because its last proof may be half a ttl old.
    pub(super) fn heard_of_a_session(&mut self, name: usize, answers: [&Said; 2], began: Instant) {
        for said in answers {
            match said {
                Said::Revoked(Revoked::FreeIn(left)) => {
                    let free = began + *left / 2;
                    self.frees[name] = Some(self.frees[name].map_or(free, |before| before.min(free)));
                }
                said if no_revoked_lock_waits(said) => self.frees[name] = None,
                _ => {}
            }
        }
    }
}

/// Returns whether no lock that was revoked waits for its holder's deadline. A release alone does not say so, because a
/// waiter behind that lock releases a place too.
fn no_revoked_lock_waits(said: &Said) -> bool {
    match said {
        Said::Granted { .. } | Said::Revoked(Revoked::Free) => true,
        Said::Shown { holder, .. } => {
            holder.as_ref().and_then(|holder| holder.label.as_deref()) != Some(REVOKER)
        }
        _ => false,
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

#[cfg(test)]
mod tests {
    use super::super::side::{Rank, Shown};
    use super::*;

    const LEFT: Duration = Duration::from_secs(2);

    /// Returns what is known of a lock that was revoked at this moment and is free when its holder's deadline is over.
    fn revoked(began: Instant) -> LeaseEnds {
        let mut lease_ends = LeaseEnds::new(LEFT);
        let said = Said::Revoked(Revoked::FreeIn(LEFT));
        lease_ends.heard_of_a_session(0, [&said, &said], began);
        lease_ends
    }

    #[test]
    fn a_waiters_release_frees_nothing_that_was_revoked() {
        let began = Instant::now();
        let mut lease_ends = revoked(began);
        let released = Said::Released { others: None, elsewhere: false };
        let shown = Shown { label: Some(REVOKER.into()), has_last_token: None, left: None };
        let shown = Said::Shown { holder: Some(shown), waiters: None };
        for said in [released, shown, Said::NotHeld] {
            lease_ends.heard_of_a_session(0, [&said, &said], began);
            assert!(!lease_ends.may_be_freed(0, began + LEFT / 3), "{said:?}");
            assert!(lease_ends.may_be_freed(0, began + LEFT / 2), "{said:?}");
        }
    }

    #[test]
    fn calls_after_a_revoke_have_no_certain_time() {
        let granted = Said::Granted { token: Rank::Risen, left: LEFT };
        let free = Said::Shown { holder: None, waiters: None };
        for said in [granted, free, Said::Revoked(Revoked::Free)] {
            let began = Instant::now();
            let mut lease_ends = revoked(began);
            lease_ends.heard_of_a_session(0, [&said, &said], began);
            assert!(!lease_ends.may_be_freed(0, began + LEFT), "{said:?}");
        }
    }
}
