//! Servers that work together, of which one is killed.

use std::io;
use std::time::Instant;

use lock_conformance::Data;
use lock_test_servers::{
    self as servers, Absence, Clock, Etcd, MongoDb, Owned, Persistence, Redis, Settings, ZooKeeper,
};

use crate::Outcome;
use crate::backend::Backend;

/// Starts servers that keep nothing.
pub(crate) fn start(count: usize, clock: Clock) -> Outcome<Vec<Owned>> {
    let settings = Settings { persistence: Persistence::None, clock, ..Settings::default() };
    let started = (0..count).map(|_| Owned::start(&Redis, &settings)).collect::<Result<_, _>>();
    Ok(started.map_err(|absence| absence.to_string())?)
}

/// Returns the URL of several servers, without parameters.
pub(crate) fn url_of(servers: &[Owned]) -> String {
    let hosts: Vec<String> = servers.iter().map(Owned::address).collect();
    format!("redlock://{}/", hosts.join(","))
}

/// Several servers that were started here. Dropping it kills them.
pub(crate) enum Cluster {
    /// Three servers that know of each other.
    Led(servers::Cluster),
    /// Five servers that do not know of each other.
    Redlock(Vec<Owned>),
}

impl Cluster {
    /// Returns whether this program can start several servers of this kind that go on without one of them.
    pub(crate) fn is_known_of(backend: Backend) -> bool {
        matches!(backend, Backend::Etcd | Backend::ZooKeeper | Backend::Mongo | Backend::Redlock)
    }

    /// Starts one, and waits until it serves, for seconds.
    pub(crate) fn start(backend: Backend) -> Result<Cluster, Absence> {
        let settings = Settings::default();
        match backend {
            Backend::Etcd => Etcd::cluster(&settings, None).map(Cluster::Led),
            Backend::ZooKeeper => ZooKeeper::ensemble(&settings, None).map(Cluster::Led),
            Backend::Mongo => MongoDb::set(&settings).map(Cluster::Led),
            Backend::Redlock => {
                let servers = (0..5).map(|_| Owned::start(&Redis, &settings));
                servers.collect::<Result<_, _>>().map(Cluster::Redlock)
            }
            _ => Err(Absence::NotRun(format!("no cluster of {} can be started here", backend.as_str()))),
        }
    }

    pub(crate) fn url(&self) -> String {
        match self {
            Cluster::Led(cluster) => cluster.url(),
            Cluster::Redlock(servers) => url_of(servers),
        }
    }

    /// Kills the member that leads (-9); where none does, the first one. Returns its place, and when that was.
    pub(crate) fn kill_leader(&self) -> io::Result<(usize, Instant)> {
        let leader = match self {
            Cluster::Led(cluster) => cluster.leader()?,
            Cluster::Redlock(_) => 0,
        };
        let at = Instant::now();
        self.members()[leader].kill()?;
        Ok((leader, at))
    }

    /// Starts a member again with its data, and waits until the others have it back.
    pub(crate) fn mend(&self, member: usize) -> io::Result<()> {
        self.members()[member].restart(Data::Kept)?;
        match self {
            Cluster::Led(cluster) => cluster.become_whole(),
            Cluster::Redlock(_) => Ok(()),
        }
    }

    fn members(&self) -> &[Owned] {
        match self {
            Cluster::Led(cluster) => cluster.members(),
            Cluster::Redlock(servers) => servers,
        }
    }
}
