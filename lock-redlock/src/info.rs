//! The guarantees of these nodes.

use std::time::Duration;

use lock_core::Info;
use lock_core::driver::{Fencing, Lease, Wakes};
use lock_core::toolkit::HumanDuration;

const MIN_TTL: Duration = Duration::from_millis(50);

/// The time by which the nodes' clocks may fall back: a node forgets a token this long after the time that the token
/// stands for. The scripts have the same number in milliseconds.
const CLOCK_STEP: Duration = Duration::from_secs(3600);

const CLOCK: &str = "each node's wall clock. Two holders are possible, until the first one's next renewal, if clocks are \
    set forward (by hand, by an NTP step, by a virtual machine's resume) and the nodes that have granted the lock and whose \
    clocks were not set are not a majority. Their rates and the client's must agree within 1 % \
    (chrony: maxslewrate 5000 at most)";

/// Describes what so many nodes guarantee.
pub fn describe(server: String, nodes: usize, max_ttl: Duration) -> Info {
    let majority = nodes / 2 + 1;
    let longest = HumanDuration(max_ttl);
    // Each node is asked to release, to grant, and, if the nodes do not agree at once, to raise the token.
    let requests = u32::try_from(3 * nodes).unwrap_or(u32::MAX);
    let mut info = Info::new(
        "redlock",
        server,
        Fencing::WhileAMajorityKeepsItsData {
            clock_step: CLOCK_STEP,
            and: format!(
                "each node that lost its data has had no vote for max_ttl ({longest}), and the nodes' clocks agree \
                 within nine tenths of that time"
            ),
        },
        Lease::Lock,
        MIN_TTL..=max_ttl,
    );
    info.wakes = Wakes::Pushed;
    info.clock = CLOCK;
    info.data_loss = format!(
        "locks need {majority} of {nodes} nodes. A node that was restarted or flushed, or was a replica in between, has no \
         vote for {longest}, the longest ttl, so that no lock that it has forgotten is granted again. Nodes with replicas \
         have no vote at all"
    );
    info.requests_per_hand_over = requests;
    info
}
