//! The guarantees of a PostgreSQL server.

use std::time::Duration;

use lock_core::Info;
use lock_core::driver::{Fencing, Lease, Lists, Takeovers, Wakes};

use crate::sweep::IDLE_BEFORE_DELETE;

const KEPT: &str = "each grant is on the server's disk before it counts, unless the server runs with fsync=off; after a \
     loss of data, for example by the promotion of a standby that lags behind, tokens rise unless the server's clock is \
     behind the last one";

const CLOCK: &str = "the server's wall clock: if it is set forward, leases end early; if it is set back, the leases of \
     dead holders last longer; its time zone doesn't matter";

const DATA_LOSS: &str = "a grant that a promoted standby has not received is lost: another client can take the lock \
     there, and the holder learns of it at its next renewal; no grant is lost if synchronous_standby_names makes each \
     grant wait for all standbys that may be promoted, which FIRST 1 and ANY 1 of several do not";

/// Describes what the server at this address guarantees. Releases are pushed, unless a pooler is found in between.
pub(super) fn info(server: String) -> Info {
    let mut info = Info::new(
        "postgres",
        server,
        Fencing::WhileDataIsKept { clock_step: IDLE_BEFORE_DELETE, kept: KEPT.to_owned() },
        Lease::Lock,
        Duration::from_millis(50)..=Duration::from_secs(365 * 24 * 3600),
    );
    info.wakes = Wakes::Pushed;
    info.lists = Lists::Held;
    info.takeovers = Takeovers::InOneRequest;
    info.clock = CLOCK;
    info.data_loss = DATA_LOSS.to_owned();
    info.requests_per_hand_over = 2;
    info
}
