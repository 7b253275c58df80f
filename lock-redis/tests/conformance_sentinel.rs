//! Runs the conformance suite on a primary with two replicas, which three sentinels watch.

#[path = "conformance/admin.rs"]
mod admin;
#[path = "conformance/primaries.rs"]
mod primaries;
#[path = "conformance/several_servers.rs"]
mod several_servers;

use std::time::Duration;

use lock_conformance::harness::Identity;
use lock_conformance::{Data, Missing, Verdict};
use lock_test_servers::{Absence, Owned, RedisReplicas, RedisSentinels, SentinelSettings, Settings};

use several_servers::Topology;

fn main() -> Verdict {
    several_servers::run::<Watched>()
}

/// No case of the suite is about a failover: what stands still or is restarted is to come back as it was.
const NO_FAILOVER: Duration = Duration::from_secs(60);

#[derive(Debug)]
struct Watched {
    replicas: RedisReplicas,
    sentinels: RedisSentinels,
}

impl Topology for Watched {
    const WHAT: &str = "sentinel, a primary and 2 replicas";
    const VARIABLE: &str = "LOCK_TEST_SENTINELS";
    const PRIMARIES: usize = 1;
    const IDENTITY: Identity = Identity::Told;

    fn start(settings: &Settings) -> Result<Watched, Absence> {
        let replicas = RedisReplicas::start(settings)?;
        let watching = SentinelSettings { down_after: NO_FAILOVER, ..SentinelSettings::default() };
        let sentinels = RedisSentinels::watch(&replicas, &watching)?;
        Ok(Watched { replicas, sentinels })
    }

    fn url(&self) -> String {
        self.sentinels.url("")
    }

    fn servers(&self) -> &[Owned] {
        self.replicas.servers()
    }

    fn others(&self) -> &[Owned] {
        self.sentinels.members()
    }

    fn can_be_listed() -> Result<(), Missing> {
        Ok(())
    }

    fn restart(server: &Owned, data: Data) {
        server.restart(data).expect("it starts again");
    }
}
