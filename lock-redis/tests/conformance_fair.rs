//! Runs the conformance suite on Redis and Valkey, with fair locks.

#[path = "conformance/admin.rs"]
mod admin;
#[path = "conformance/backend.rs"]
mod backend;

use lock_conformance::Verdict;
use lock_conformance::harness::SHORTEST_TTL;
use lock_redis::{Grace, Layout};

fn main() -> Verdict {
    // Not the default of 5 s: a dead waiter may cost no more than a lease does on other servers.
    let grace = Grace::new(SHORTEST_TTL).expect("it is within the bounds");
    backend::run(Layout::Fair(grace))
}
