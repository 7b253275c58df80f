//! Runs the conformance suite on a cluster of three primaries with a replica each.

#[path = "conformance/admin.rs"]
mod admin;
#[path = "conformance/primaries.rs"]
mod primaries;
#[path = "conformance/several_servers.rs"]
mod several_servers;

use lock_conformance::harness::Identity;
use lock_conformance::{Data, Missing, Verdict};
use lock_test_servers::{Absence, Owned, RedisCluster, Settings};

use several_servers::Topology;

fn main() -> Verdict {
    several_servers::run::<RedisCluster>()
}

impl Topology for RedisCluster {
    const WHAT: &str = "a cluster of 3 primaries and 3 replicas";
    const VARIABLE: &str = "LOCK_TEST_CLUSTER";
    const PRIMARIES: usize = 3;
    const IDENTITY: Identity = Identity::NotPromised;

    fn start(settings: &Settings) -> Result<RedisCluster, Absence> {
        RedisCluster::start(settings)
    }

    fn url(&self) -> String {
        self.url("")
    }

    fn servers(&self) -> &[Owned] {
        self.members()
    }

    fn can_be_listed() -> Result<(), Missing> {
        Err(Missing::because("members tell each other's own addresses: no proxy can stand in between"))
    }

    /// A member that loses its data keeps its place in the cluster.
    fn restart(member: &Owned, data: Data) {
        if data == Data::Lost {
            std::fs::remove_dir_all(member.folder().join("appendonlydir")).expect("it wrote there");
        }
        member.restart(Data::Kept).expect("it starts again");
    }
}
