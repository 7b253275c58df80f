//! The guarantees of this ensemble.

use std::ops::RangeInclusive;
use std::time::Duration;

use lock_core::driver::{Fair, Fencing, Lease, Lists, Wakes};
use lock_core::toolkit::HumanDuration;
use lock_core::{Error, Info, Result};

use crate::query_link::LONGEST_TIMEOUT;

/// The timeouts that the servers grant, and how long a ping between them takes at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Granted {
    pub(crate) tick: Duration,
    pub(crate) longest: Duration,
}

/// The shortest ttl in ticks: a session is proven at least four times in its timeout, and at most once a tick.
const TICKS: u32 = 4;

const CLOCK: &str = "Java's monotonic clock of the leading server, which can't be set. What is assumed: while a leader \
    runs and its link to the server of this client's connection is not dead, a ping between them and its answer take less \
    than a tick (?tick=); if they take longer, a lock may end before its holder is told, and only the fencing token tells \
    two holders apart";

const DATA_LOSS: &str = "a minority of the servers may be lost; without a majority nothing is granted, renewed or \
    released, and sessions end. If all data is lost, every lock is free, and tokens start again";

impl Granted {
    /// Derives it from the timeouts that the server granted when it was asked for two ticks and for the longest.
    pub(crate) fn new(tick: Duration, shortest: Duration, longest: Duration) -> Granted {
        // A server grants at least two of its own ticks, unless its configuration says otherwise.
        Granted { tick: tick.max(shortest / 2), longest }
    }

    /// The widest bounds, before a server was asked.
    pub(crate) fn before_it_is_known(tick: Duration) -> Granted {
        Granted { tick, longest: LONGEST_TIMEOUT }
    }

    pub(crate) fn shortest_ttl(self) -> Duration {
        self.tick.saturating_mul(TICKS)
    }

    /// Checks a ttl that was accepted before a server was asked.
    pub(crate) fn check_ttl(self, ttl: Duration) -> Result<()> {
        let bounds = self.bounds();
        match bounds.contains(&ttl) {
            true => Ok(()),
            false => Err(Error::invalid(format!(
                "the ttl of {} is outside of what the servers grant: {} to {}",
                HumanDuration(ttl),
                HumanDuration(*bounds.start()),
                HumanDuration(*bounds.end())
            ))),
        }
    }

    fn bounds(self) -> RangeInclusive<Duration> {
        self.shortest_ttl()..=self.longest.max(self.shortest_ttl())
    }

    pub(crate) fn describe(self, server: String) -> Info {
        let mut info = Info::new(
            "zookeeper",
            server,
            Fencing::UntilAMajorityLosesItsData {
                and: "no older copy of the data is restored, and the ensemble is not set up again".to_owned(),
            },
            Lease::Session,
            self.bounds(),
        );
        info.fair = Fair::PerProcess;
        info.wakes = Wakes::Pushed;
        info.lists = Lists::Held;
        info.clock = CLOCK;
        info.data_loss = DATA_LOSS.to_owned();
        info.requests_per_hand_over = 4;
        info
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shortest_ttl_is_four_of_the_longer_ticks() {
        let millis = Duration::from_millis;
        let granted =
            |tick, shortest| Granted::new(millis(tick), millis(shortest), millis(40_000)).shortest_ttl();
        assert_eq!(granted(200, 400), millis(800));
        assert_eq!(granted(200, 4000), millis(8000));
        assert_eq!(granted(2000, 4000), millis(8000), "for a server that grants less, the given tick counts");
    }

    #[test]
    fn a_ttl_is_rechecked_against_known_bounds() {
        let seconds = Duration::from_secs;
        let before = Granted::before_it_is_known(seconds(2));
        assert!(before.check_ttl(seconds(7)).is_err() && before.check_ttl(seconds(3600)).is_ok());
        let granted = Granted::new(seconds(2), seconds(4), seconds(40));
        for (ttl, is_fine) in [(7, false), (8, true), (40, true), (41, false)] {
            assert_eq!(granted.check_ttl(seconds(ttl)).is_ok(), is_fine, "{ttl} s");
        }
        let none = Granted::new(seconds(2), seconds(4), seconds(5));
        assert!(none.check_ttl(seconds(8)).is_ok(), "`check` tells that no session is long enough");
    }
}
