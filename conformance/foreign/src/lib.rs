//! Clients of other libraries on the same locks as ours: Go's and `etcdctl` on etcd, Curator and kazoo on ZooKeeper,
//! redis-py, node-redlock, rslock, redsync, redislock and Redisson on Redis.
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

use std::time::Duration;

use lock_conformance::Verdict;
use lock_conformance::rules::{self, block_on};
use lock_core::{Client, Result};
use lock_test_servers::{Absence, Owned, Product, Settings, judged_on};

use case::Case;
pub use cases::{
    Storm, a_storm_of_both, one_holds_and_the_other_waits, the_waiter_has_it_next,
    with_a_lock_each_they_miscount,
};
pub use contender::Contender;
pub use foreign::Foreign;
pub use kind::Kind;
pub use ours::Ours;

/// How long anything may take that happens at once. Only a case that fails takes that long.
const LIMIT: Duration = Duration::from_secs(20);

/// Runs each case with each of these clients, each on a server of its own, with the arguments of `cargo test`. `open`
/// opens a client of this library for a server's URL, as another process would have it, with the layout of that kind.
pub fn run<O, F>(product: &'static dyn Product, kinds: &[Kind], open: O) -> Verdict
where
    O: Fn(Kind, String) -> F + Copy + Send + 'static,
    F: Future<Output = Result<Client>> + Send + 'static,
{
    let each = |kind| Case::of(kind).into_iter().map(move |case| (format!("{kind}::{case}"), kind, case));
    let tests = kinds.iter().copied().flat_map(each).map(|(name, kind, case)| {
        let test = move || not_run(on_a_server_of_its_own(product, kind, case, open));
        (name, test)
    });
    // A storm has the machine to itself.
    rules::run(judged_on(product, tests), 1)
}

/// Returns why the case was not run, if it was not. Panics if it had to be run.
fn not_run(played: Result<(), Absence>) -> Result<(), String> {
    match played {
        Ok(()) => Ok(()),
        Err(Absence::NotRun(why)) => Err(why),
        Err(Absence::Failure(why)) => panic!("{why}"),
    }
}

fn on_a_server_of_its_own<O, F>(
    product: &'static dyn Product,
    kind: Kind,
    case: Case,
    open: O,
) -> Result<(), Absence>
where
    O: Fn(Kind, String) -> F + Send + 'static,
    F: Future<Output = Result<Client>> + Send + 'static,
{
    Foreign::find(kind)?;
    let server = Owned::start(product, &Settings::default())?;
    let url = server.url().to_owned();
    block_on(async move {
        let open =
            async || Ours::new(open(kind, url.clone()).await.expect("the server was started just now"));
        case.play(kind, &url, open).await
    })
}
