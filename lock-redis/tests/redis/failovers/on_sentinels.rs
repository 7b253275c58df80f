//! A primary with two replicas, which three sentinels watch.

use std::time::Duration;

use lock_conformance::Data;
use lock_test_servers::{Owned, RedisReplicas, RedisSentinels, SentinelSettings};

use super::Copies;
use super::history::{Harm, Way};
use super::load::{Contended, Turn};
use crate::copies::replicas;
use crate::sentinels::is_primary;
use crate::server::raw_at;

/// For how long a primary lets clients wait that write, in milliseconds: until the sentinels have told all of them of the
/// other one.
const PAUSE: &str = "3000";

/// After what time an administrator looks whether the failover was carried out.
const AGAIN: Duration = Duration::from_millis(50);

pub(super) struct Watched {
    servers: RedisReplicas,
    sentinels: RedisSentinels,
}

impl Watched {
    pub(super) fn start() -> Watched {
        let servers = replicas(&[]);
        let settings = SentinelSettings::default();
        println!("the sentinels' down-after is {:?}", settings.down_after);
        let sentinels = RedisSentinels::watch(&servers, &settings).expect("Redis was started before");
        Watched { servers, sentinels }
    }
}

impl Copies for Watched {
    /// Sentinels begin no second failover within twice their failover-timeout of 2 s, and a second of chance.
    const BETWEEN: Duration = Duration::from_secs(5);
    const WAYS: &[Way] = &[Way::KilledAhead, Way::Frozen, Way::Switched, Way::HandedOver, Way::Killed];

    fn url(&self) -> String {
        self.sentinels.url("")
    }

    fn names(&self) -> Vec<Contended> {
        let names = [("a", Turn::Short), ("b", Turn::Short), ("c", Turn::Long)];
        names.map(|(name, turn)| Contended { name: name.to_owned(), group: 0, turn }).into()
    }

    fn groups(&self) -> usize {
        1
    }

    fn servers(&self) -> &[Owned] {
        self.servers.servers()
    }

    fn primary(&self, _: usize) -> usize {
        self.servers.primary().unwrap()
    }

    fn replicas(&self, _: usize, primary: usize) -> Vec<usize> {
        (0..self.servers().len()).filter(|server| *server != primary).collect()
    }

    async fn switch(&self, _: usize, old: usize, way: Way) {
        if way == Way::HandedOver {
            let mut primary = raw_at(self.servers()[old].url()).await;
            let _: () = primary.ask(&["CLIENT", "PAUSE", PAUSE, "WRITE"]).await;
            self.servers.catch_up().unwrap();
        }
        let mut admin = raw_at(&format!("redis://{}", self.sentinels.members()[0].address())).await;
        // A failover by command is given up, and not begun again, if no replica was heard of for a moment.
        while !self.has_successor(0, old).await {
            let _: redis::RedisResult<()> =
                admin.try_ask(&["SENTINEL", "FAILOVER", RedisSentinels::SERVICE]).await;
            tokio::time::sleep(AGAIN).await;
        }
    }

    /// The old primary is told that it is a replica some time after the new one was promoted, also if that was done by
    /// command.
    fn harm(way: Way) -> Harm {
        match way {
            Way::HandedOver => Harm::Nothing,
            Way::Frozen | Way::Switched => Harm::TwoAnswer,
            Way::KilledAhead | Way::Killed => Harm::GrantsAreLost,
        }
    }

    async fn has_successor(&self, _: usize, old: usize) -> bool {
        for server in self.replicas(0, old) {
            if is_primary(&self.servers, server).await.unwrap_or(false) {
                return true;
            }
        }
        false
    }

    fn restart(&self, server: usize) {
        self.servers()[server].restart(Data::Lost).unwrap();
    }

    async fn become_whole(&self, _: usize) {
        self.servers.become_whole().unwrap();
        self.sentinels.become_ready().unwrap();
    }
}
