//! Clients of other libraries on the same locks as ours: Go's and `etcdctl` on etcd, Curator and kazoo on ZooKeeper.
//!
//! A backend's `tests/interop.rs` calls [`run`]. `conformance/foreign/README.md` describes the drivers of those clients
//! and how they are built. A client that is missing is *not run*.

mod cases;
pub mod catalogue;
mod contender;
mod counter;
mod driver;
mod etcdctl;
mod foreign;
mod line_process;
mod ours;

use std::fmt;
use std::time::Duration;

use lock_conformance::rules::{self, block_on};
use lock_conformance::{Verdict, is_full_run};
use lock_core::{Client, Result};
use lock_test_servers::{Absence, Owned, Product, Settings, judged_on};

pub use cases::{a_storm_of_both, one_holds_and_the_other_waits, the_one_between_goes};
use catalogue::Listing;
pub use contender::Contender;
pub use counter::Counter;
pub use foreign::Foreign;
pub use ours::Ours;

/// How long anything may take that happens at once. Only a case that fails takes that long.
const LIMIT: Duration = Duration::from_secs(20);

/// A lock client of another library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `concurrency.Mutex` of etcd's Go client.
    EtcdGo,
    /// `etcdctl lock`.
    Etcdctl,
    /// `InterProcessMutex` of Curator.
    Curator,
    /// `Lock` of kazoo, which is told of the nodes that Curator and this library make.
    Kazoo,
}

impl Kind {
    fn listing(self) -> &'static Listing {
        match self {
            Kind::EtcdGo => &catalogue::ETCD_GO,
            Kind::Etcdctl => &catalogue::ETCDCTL,
            Kind::Curator => &catalogue::CURATOR,
            Kind::Kazoo => &catalogue::KAZOO,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.listing().name)
    }
}

/// Runs each case with each of these clients, each on a server of its own, with the arguments of `cargo test`. `open`
/// opens a client of this library for a server's URL, as another process would have it.
pub fn run<O, F>(product: &'static dyn Product, kinds: &[Kind], open: O) -> Verdict
where
    O: Fn(String) -> F + Copy + Send + 'static,
    F: Future<Output = Result<Client>> + Send + 'static,
{
    let each = |kind: &Kind| Case::ALL.map(|case| (format!("{kind}::{case}"), *kind, case));
    let tests = kinds.iter().flat_map(each).map(|(name, kind, case)| {
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
    O: Fn(String) -> F + Send + 'static,
    F: Future<Output = Result<Client>> + Send + 'static,
{
    Foreign::find(kind)?;
    let server = Owned::start(product, &Settings::default())?;
    let url = server.url().to_owned();
    block_on(async move {
        let open = async || Ours::new(open(url.clone()).await.expect("the server was started just now"));
        case.play(kind, &url, open).await
    })
}

/// What is played with our client and the other library's.
#[derive(Clone, Copy, Debug)]
enum Case {
    OursHolds,
    TheirsHolds,
    TheirsGoes,
    Storm,
}

impl Case {
    const ALL: [Case; 4] = [Case::OursHolds, Case::TheirsHolds, Case::TheirsGoes, Case::Storm];

    async fn play(self, kind: Kind, url: &str, open: impl AsyncFn() -> Ours) -> Result<(), Absence> {
        let (mut ours, mut theirs) = (open().await, Foreign::start(kind, url).await?);
        let mut looker = Foreign::start(kind, url).await?;
        match self {
            Case::OursHolds => one_holds_and_the_other_waits(&mut ours, &mut theirs, &mut looker).await,
            Case::TheirsHolds => one_holds_and_the_other_waits(&mut theirs, &mut ours, &mut looker).await,
            Case::TheirsGoes => {
                the_one_between_goes(&mut ours, theirs, &mut open().await, &mut looker).await;
            }
            Case::Storm => {
                let ours = [ours, open().await].map(|one| Box::new(one) as Box<dyn Contender>);
                let theirs = [theirs, looker].map(|one| Box::new(one) as Box<dyn Contender>);
                a_storm_of_both(ours.into(), theirs.into(), storm(kind)).await;
            }
        }
        Ok(())
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Case::OursHolds => "ours_holds_theirs_waits",
            Case::TheirsHolds => "theirs_holds_ours_waits",
            Case::TheirsGoes => "theirs_between_ours_goes",
            Case::Storm => "a_storm_of_both",
        })
    }
}

/// Returns how long a storm lasts. Prints it, so that a reader cannot take a short run for a full one.
fn storm(kind: Kind) -> Duration {
    let seconds = if is_full_run() { 30 } else { 3 };
    println!("{kind}: {seconds} s of storm; 30 with LOCK_TEST_FULL=1");
    Duration::from_secs(seconds)
}
