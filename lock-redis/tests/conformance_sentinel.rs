//! Runs the conformance suite on a primary with two replicas, which three sentinels watch.

#[path = "conformance/admin.rs"]
mod admin;
#[path = "conformance/watched.rs"]
mod watched;

use lock_conformance::Verdict;
use lock_test_servers::{Absence, Settings, catalogue};

use watched::{SENTINELS, Sentinel, Watched};

fn main() -> Verdict {
    let started = match std::env::var(SENTINELS) {
        // A process that a case starts uses the servers of the process that started it.
        Ok(urls) => Ok(Watched::at(&urls)),
        Err(_) => Watched::start(&Settings::default()),
    };
    match started {
        Ok(servers) => lock_conformance::run(Sentinel::new(servers)),
        Err(Absence::NotRun(why)) => lock_conformance::not_run(catalogue::REDIS.name, &why),
        Err(Absence::Failure(why)) => lock_conformance::failed(catalogue::REDIS.name, &why),
    }
}
