//! Runs the suite on the backends of `docs/add-a-backend.md`, which are there to be copied.

mod bucket;
mod toy;

use lock_conformance::{Verdict, run};

fn main() -> Verdict {
    run(toy::ToyHarness::default()).and(run(bucket::BucketHarness::default()))
}
