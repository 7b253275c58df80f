//! Tests the drivers of other libraries' clients, and the cases that use them, with pairs of those clients. They use
//! one another's locks here, as they use ours in the backends' tests.

use std::time::Duration;

use libtest_mimic::{Arguments, Trial};
use lock_foreign_clients::{
    Contender, Counter, Foreign, Kind, a_storm_of_both, one_holds_and_the_other_waits,
};
use lock_test_servers::{self as servers, Absence, Owned, Product, Settings, judged_on};

fn main() {
    let mut arguments = Arguments::from_args();
    // A storm has the machine to itself.
    arguments.test_threads = Some(1);
    libtest_mimic::run(&arguments, on_etcd().into_iter().chain(on_zookeeper()).collect()).exit();
}

fn on_etcd() -> Vec<Trial> {
    let (go, etcdctl) = (Kind::EtcdGo, Kind::Etcdctl);
    let pairs = [[go, go], [go, etcdctl], [etcdctl, go], [etcdctl, etcdctl]];
    let mut cases: Vec<Case> = pairs.into_iter().map(holds_and_waits).collect();
    cases.extend(storms([go, etcdctl]));
    trials(&servers::Etcd, cases)
}

fn on_zookeeper() -> Vec<Trial> {
    let (curator, kazoo) = (Kind::Curator, Kind::Kazoo);
    let alike = [[curator, curator], [kazoo, kazoo]];
    let mut cases: Vec<Case> = alike.into_iter().map(holds_and_waits).collect();
    cases.extend(alike.into_iter().flat_map(storms));
    cases.push(Case::new("kazoo_counts_curators_nodes", [curator, kazoo], kazoo_waits));
    cases.push(Case::new("curator_does_not_count_kazoos_nodes", [curator, kazoo], curator_does_not));
    trials(&servers::ZooKeeper, cases)
}

#[derive(Clone)]
struct Case {
    name: String,
    kinds: [Kind; 2],
    play: fn(&str, [Kind; 2]) -> Result<(), Absence>,
}

impl Case {
    fn new(
        name: impl Into<String>,
        kinds: [Kind; 2],
        play: fn(&str, [Kind; 2]) -> Result<(), Absence>,
    ) -> Case {
        Case { name: name.into(), kinds, play }
    }

    /// Runs the case on a server of its own.
    fn run(&self, product: &'static dyn Product) -> Result<(), Absence> {
        self.kinds.into_iter().try_for_each(Foreign::find)?;
        let server = Owned::start(product, &Settings::default())?;
        (self.play)(server.url(), self.kinds)
    }
}

fn trials(product: &'static dyn Product, cases: Vec<Case>) -> Vec<Trial> {
    let test = |case: Case| {
        let name = case.name.clone();
        let test = move || match case.run(product) {
            Ok(()) => Ok(()),
            Err(Absence::NotRun(why)) => Err(why),
            Err(Absence::Failure(why)) => panic!("{why}"),
        };
        (name, test)
    };
    judged_on(product, cases.into_iter().map(test))
}

fn holds_and_waits([one, other]: [Kind; 2]) -> Case {
    Case::new(format!("{one}_holds_and_{other}_waits"), [one, other], waits)
}

fn storms([one, other]: [Kind; 2]) -> [Case; 2] {
    let miscounted = format!("{one}_and_{other}_with_a_lock_each_miscount");
    [
        Case::new(format!("a_storm_of_{one}_and_{other}"), [one, other], storm),
        Case::new(miscounted, [one, other], miscount),
    ]
}

fn waits(url: &str, [one, other]: [Kind; 2]) -> Result<(), Absence> {
    block_on(async {
        let (mut holder, mut waiter) = (Foreign::start(one, url).await?, Foreign::start(other, url).await?);
        let mut looker = Foreign::start(one, url).await?;
        one_holds_and_the_other_waits(&mut holder, &mut waiter, &mut looker).await;
        Ok(())
    })
}

const STORM: Duration = Duration::from_secs(2);

fn storm(url: &str, kinds: [Kind; 2]) -> Result<(), Absence> {
    block_on(async {
        let [one, other] = both(url, kinds).await?;
        a_storm_of_both(vec![one], vec![other], STORM).await;
        Ok(())
    })
}

/// Checks that the counter shows what a lock prevents. Otherwise the storm would prove nothing.
fn miscount(url: &str, kinds: [Kind; 2]) -> Result<(), Absence> {
    block_on(async {
        let [mut one, mut other] = both(url, kinds).await?;
        let counter = Counter::new().expect("there is room for a number");
        let file = counter.path();
        let (one, other) = tokio::join!(one.storm("one", file, STORM), other.storm("other", file, STORM));
        let number = counter.number().expect("a number");
        assert!(number < one + other, "{number} after {one} turns and {other}: none overlapped");
        Ok(())
    })
}

fn kazoo_waits(url: &str, kinds: [Kind; 2]) -> Result<(), Absence> {
    block_on(async {
        let [mut curator, mut kazoo] = both(url, kinds).await?;
        curator.ask("a").await;
        curator.held().await;
        assert_eq!(kazoo.attempt("a").await, Some(false));
        kazoo.ask("a").await;
        curator.release("a").await;
        kazoo.held().await;
        Ok(())
    })
}

/// The README tells this to users who have both clients on one lock.
fn curator_does_not(url: &str, kinds: [Kind; 2]) -> Result<(), Absence> {
    block_on(async {
        let [mut curator, mut kazoo] = both(url, kinds).await?;
        kazoo.ask("a").await;
        kazoo.held().await;
        assert_eq!(curator.attempt("a").await, Some(true), "it counts them now: update the README");
        Ok(())
    })
}

async fn both(url: &str, [one, other]: [Kind; 2]) -> Result<[Box<dyn Contender>; 2], Absence> {
    Ok([Box::new(Foreign::start(one, url).await?), Box::new(Foreign::start(other, url).await?)])
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Runtime::new().expect("the machine has room for it").block_on(future)
}
