//! What this cluster guarantees.

use std::time::Duration;

use lock_core::Info;
use lock_core::driver::{Fair, Fencing, Lease, Wakes};

/// Above it, a server may be told to carry what is left of a lease over to the next leader, instead of its whole ttl.
pub(crate) const MAX_TTL: Duration = Duration::from_secs(300);
/// Leases have whole seconds.
const SECOND: Duration = Duration::from_secs(1);
/// A move has to be over by the time that a leader which stood still goes on: several elections long.
const ELECTIONS: u32 = 5;

const CLOCK: &str = "the leader's monotonic clock, which nobody sets; its rate and the client's must agree within 1 %. A leader \
     that stood still for longer than the ttl, and goes on before this client has noticed its successor, may end leases \
     early (etcd issue 15247, all versions): the holder is told at once, and the token is between the two";

pub(crate) fn info(server: String, election: Duration) -> Info {
    Info {
        backend: "etcd",
        server,
        identity: None,
        fencing: Fencing::UntilAMajorityLosesItsData { and: "while nobody restores an older snapshot".to_owned() },
        lease: Lease::Session,
        fair: Fair::PerProcess,
        wakes: Wakes::Pushed,
        min_ttl: min_ttl(election),
        max_ttl: MAX_TTL,
        clock: CLOCK,
        data_loss: "a minority of the members may be lost; without a majority nothing is granted, and nothing renewed. If all \
             data is lost every lock is free, and tokens begin anew"
            .to_owned(),
        requests_per_hand_over: 2,
    }
}

/// In whole seconds.
fn min_ttl(election: Duration) -> Duration {
    let elections = election * ELECTIONS;
    let whole = Duration::from_secs(elections.as_secs());
    if elections > whole { whole + SECOND } else { whole.max(SECOND) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shortest_ttl_outlasts_an_election() {
        for (election, seconds) in [(10, 1), (200, 1), (201, 2), (500, 3), (1000, 5)] {
            assert_eq!(
                min_ttl(Duration::from_millis(election)),
                Duration::from_secs(seconds),
                "{election} ms"
            );
        }
    }
}
