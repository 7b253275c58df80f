//! Clients of other libraries on the same locks as ours: Go's and `etcdctl` on etcd, Curator and kazoo on ZooKeeper,
//! redis-py, node-redlock, rslock, redsync, redislock and Redisson on Redis.
//!
//! Other libraries' drivers for databases write under the fences of lock-sql ([`SqlDriver`]).
//!
//! A backend's `tests/interop.rs` calls [`run`]. `conformance/foreign/README.md` describes the drivers of those clients
//! and how they are built. A client that is missing is *not run*.

mod case;
mod cases;
pub mod catalogue;
mod contender;
mod counter;
mod driver;
mod etcdctl;
mod foreign;
mod kind;
mod line_process;
mod ours;
mod sql_fences;

use std::any::Any;
use std::time::Duration;

use lock_conformance::Verdict;
use lock_conformance::rules::{self, block_on};
use lock_core::Client;
use lock_test_servers::{self as servers, Absence, Owned, Product, RedisCluster, Settings, judged_on};

use case::Case;
pub use cases::{
    Storm, a_storm_of_both, one_holds_and_the_other_waits, the_waiter_has_it_next,
    with_a_lock_each_they_miscount,
};
pub use contender::Contender;
pub use foreign::{Foreign, find, start};
pub use kind::Kind;
pub use ours::Ours;
pub use sql_fences::{FencedWrite, SqlDriver};

/// The servers on which a case is played. Each case has its own.
#[derive(Clone, Copy, Debug)]
pub enum Stage {
    /// One server.
    Server(&'static dyn Product),
    /// A cluster of Redis.
    RedisCluster,
}

/// The longest time that anything may take that happens at once. Only a case that fails takes that long.
const LIMIT: Duration = Duration::from_secs(20);

/// Runs the cases on these stages, each case with each of the stage's clients and on servers of its own, with the
/// arguments of `cargo test`. `open` opens a client of this library for a server's URL, as another process would have it,
/// with the layout of that kind.
pub fn run<O, F>(stages: &[(Stage, &[Kind])], open: O) -> Verdict
where
    O: Fn(Kind, String) -> F + Copy + Send + 'static,
    F: Future<Output = lock_core::Result<Client>> + Send + 'static,
{
    let tests = stages.iter().flat_map(|&(stage, kinds)| {
        let each = |kind| Case::of(kind, stage).into_iter().map(move |case| (kind, case));
        let tests = kinds.iter().copied().flat_map(each).map(move |(kind, case)| {
            let name = format!("{}{kind}::{case}", stage.prefix());
            (name, move || on_servers_of_its_own(stage, kind, case, open).map_err(Absence::reason))
        });
        judged_on(stage.product(), tests)
    });
    // A storm has the machine to itself.
    rules::run(tests.collect(), 1)
}

impl Stage {
    /// Returns what the names of its cases begin with.
    fn prefix(self) -> &'static str {
        match self {
            Stage::Server(_) => "",
            Stage::RedisCluster => "cluster-",
        }
    }

    fn product(self) -> &'static dyn Product {
        match self {
            Stage::Server(product) => product,
            Stage::RedisCluster => &servers::Redis,
        }
    }

    /// Starts the servers. Returns their URL, and what ends them when it is dropped.
    fn start(self) -> Result<(String, Box<dyn Any>), Absence> {
        match self {
            Stage::Server(product) => {
                let server = Owned::start(product, &Settings::default())?;
                Ok((server.url().to_owned(), Box::new(server)))
            }
            Stage::RedisCluster => {
                let cluster = RedisCluster::start(&Settings::default())?;
                let members: Vec<String> = cluster.members().iter().map(Owned::address).collect();
                Ok((format!("redis+cluster://{}", members.join(",")), Box::new(cluster)))
            }
        }
    }
}

fn on_servers_of_its_own<O, F>(stage: Stage, kind: Kind, case: Case, open: O) -> Result<(), Absence>
where
    O: Fn(Kind, String) -> F + Send + 'static,
    F: Future<Output = lock_core::Result<Client>> + Send + 'static,
{
    find(kind)?;
    let (url, _servers) = stage.start()?;
    block_on(async move {
        let open =
            async || Ours::new(open(kind, url.clone()).await.expect("the server was started just now"));
        case.play(kind, &url, open).await
    })
}
