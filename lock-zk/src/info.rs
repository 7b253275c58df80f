//! What this very ensemble guarantees.

use std::time::Duration;

use lock_core::Info;
use lock_core::driver::{Fair, Fencing, Lease, Wakes};

/// Which timeouts the servers grant, and how long a ping takes among them at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Granted {
    pub(crate) tick: Duration,
    pub(crate) longest: Duration,
}

/// A session is proven four times in its timeout at least, and never more than once a tick.
const TICKS: u32 = 4;

const CLOCK: &str = "Java's monotonic clock of the server that leads; nobody sets it. While a leader runs and its link to \
    the server that we are connected to is not dead, a ping between them and its answer take less than a tick (?tick=); \
    if they take longer, a lock may end before its holder is told, and only the token is between two holders";

impl Granted {
    /// By the timeouts that the server granted, when it was asked for two ticks and for the longest.
    pub(crate) fn new(tick: Duration, shortest: Duration, longest: Duration) -> Granted {
        // A server grants two ticks of its own at least, unless its configuration says otherwise.
        Granted { tick: tick.max(shortest / 2), longest }
    }

    pub(crate) fn shortest_ttl(self) -> Duration {
        self.tick * TICKS
    }

    pub(crate) fn describe(self, server: String) -> Info {
        Info {
            backend: "zookeeper",
            server,
            identity: None,
            fencing: Fencing::UntilAMajorityLosesItsData {
                and: "no older copy of the data is restored, nor the ensemble set up anew".to_owned(),
            },
            lease: Lease::Session,
            fair: Fair::PerProcess,
            wakes: Wakes::Pushed,
            min_ttl: self.shortest_ttl(),
            max_ttl: self.longest.max(self.shortest_ttl()),
            clock: CLOCK,
            data_loss: "a minority of the servers may be lost; without a majority nothing is granted, renewed or \
                        released, and sessions end. Lost altogether, every lock is free, and tokens begin anew"
                .to_owned(),
            requests_per_hand_over: 4,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shortest_ttl_is_four_ticks_of_whichever_is_longer() {
        let millis = Duration::from_millis;
        let granted =
            |tick, shortest| Granted::new(millis(tick), millis(shortest), millis(40_000)).shortest_ttl();
        assert_eq!(granted(200, 400), millis(800));
        assert_eq!(granted(200, 4000), millis(8000));
        assert_eq!(granted(2000, 4000), millis(8000), "a server that grants less is taken by its tick");
    }
}
