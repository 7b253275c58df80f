//! Runs the conformance suite on a cluster of three primaries with a replica each.

#[path = "conformance/admin.rs"]
mod admin;
#[path = "conformance/clustered.rs"]
mod clustered;

use lock_conformance::Verdict;
use lock_test_servers::{Absence, Settings, catalogue};

use clustered::{CLUSTER, Cluster, Clustered};

fn main() -> Verdict {
    let started = match std::env::var(CLUSTER) {
        // A process that a case starts uses the servers of the process that started it.
        Ok(urls) => Ok(Clustered::at(&urls)),
        Err(_) => Clustered::start(&Settings::default()),
    };
    match started {
        Ok(servers) => lock_conformance::run(Cluster::new(servers)),
        Err(Absence::NotRun(why)) => lock_conformance::not_run(catalogue::REDIS.name, &why),
        Err(Absence::Failure(why)) => lock_conformance::failed(catalogue::REDIS.name, &why),
    }
}
