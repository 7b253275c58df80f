//! The guarantees of this cluster.

use std::time::Duration;

use lock_core::Info;
use lock_core::driver::{Fair, Fencing, Lease, Lists, Wakes};

/// Above this ttl, servers can be configured to give the next leader what is left of a lease, instead of its whole ttl.
pub(crate) const MAX_TTL: Duration = Duration::from_secs(300);
/// Leases have whole seconds.
const SECOND: Duration = Duration::from_secs(1);
/// The length of the shortest ttl in elections. A move must be over before a leader that stood still goes on.
const ELECTIONS: u32 = 5;

const CLOCK: &str = "the leader's monotonic clock, which is never set; its rate and the client's must agree within 1 %. A \
     leader that stood still for longer than the ttl, and goes on before this client has noticed its successor, may end \
     leases early (etcd issue 15247, all versions). The holder is told at once, and the fencing token tells the two \
     holders apart";

pub(crate) fn info(server: String, election: Duration) -> Info {
    let mut info = Info::new(
        "etcd",
        server,
        Fencing::UntilAMajorityLosesItsData { and: "while no older snapshot is restored".to_owned() },
        Lease::Session,
        min_ttl(election)..=MAX_TTL,
    );
    info.fair = Fair::PerProcess;
    info.wakes = Wakes::Pushed;
    info.lists = Lists::Held;
    info.clock = CLOCK;
    info.data_loss =
        "a minority of the members may be lost; without a majority no lock is granted or renewed. If \
         all data is lost, every lock is free, and tokens start again from the beginning"
            .to_owned();
    info.requests_per_hand_over = 2;
    info
}

/// The shortest ttl, in whole seconds.
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
