//! Runs the conformance suite on Redis and Valkey.

#[path = "conformance/admin.rs"]
mod admin;
#[path = "conformance/backend.rs"]
mod backend;

use lock_conformance::Verdict;
use lock_redis::Layout;

fn main() -> Verdict {
    backend::run(Layout::Own)
}
