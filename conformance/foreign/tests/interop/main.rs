//! Tests the drivers of other libraries' clients, and the cases that use them, with pairs of those clients. They use
//! one another's locks here, as they use ours in the backends' tests.

use std::time::Duration;

use libtest_mimic::{Arguments, Trial};
use lock_foreign_clients::{
    Contender, Foreign, Kind, Storm, a_storm_of_both, one_holds_and_the_other_waits, the_waiter_has_it_next,
    with_a_lock_each_they_miscount,
};
use lock_test_servers::{self as servers, Absence, Owned, Product, Settings, judged_on};

fn main() {
    let mut arguments = Arguments::from_args();
    // A storm has the machine to itself.
    arguments.test_threads = Some(1);
    libtest_mimic::run(&arguments, [on_etcd(), on_zookeeper(), on_redis()].into_iter().flatten().collect())
        .exit();
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

fn on_redis() -> Vec<Trial> {
    let (python, node, rust) = (Kind::RedisPy, Kind::NodeRedlock, Kind::Rslock);
    let (redsync, redislock) = (Kind::Redsync, Kind::Redislock);
    let (lock, fenced, spin) = (Kind::RedissonLock, Kind::RedissonFenced, Kind::RedissonSpin);
    let one_key = [[python, node], [node, rust], [rust, redsync], [redsync, redislock], [redislock, python]];
    let pairs = one_key.into_iter().chain([[lock, fenced], [spin, spin]]);
    let cases = pairs.flat_map(|pair| {
        let [storm, miscounted] = storms(pair);
        let waits = Case { play: is_next, ..holds_and_waits(pair) };
        [waits, Case { play: storm_with_pauses, ..storm }, miscounted]
    });
    trials(&servers::Redis, cases.collect())
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

/// Each polls, or is told: it does not have to wait until a lease ends.
const SOON: Duration = Duration::from_secs(3);

fn is_next(url: &str, [one, other]: [Kind; 2]) -> Result<(), Absence> {
    block_on(async {
        let (mut holder, mut waiter) = (Foreign::start(one, url).await?, Foreign::start(other, url).await?);
        let mut looker = Foreign::start(one, url).await?;
        the_waiter_has_it_next(&mut holder, &mut waiter, &mut looker, SOON).await;
        Ok(())
    })
}

const STORM: Storm = Storm { length: Duration::from_secs(2), pause: Duration::ZERO };
/// The pauses let clients that poll come between.
const WITH_PAUSES: Storm = Storm { pause: Duration::from_millis(20), ..STORM };

fn storm(url: &str, kinds: [Kind; 2]) -> Result<(), Absence> {
    a_storm(url, kinds, STORM)
}

fn storm_with_pauses(url: &str, kinds: [Kind; 2]) -> Result<(), Absence> {
    a_storm(url, kinds, WITH_PAUSES)
}

fn a_storm(url: &str, kinds: [Kind; 2], storm: Storm) -> Result<(), Absence> {
    block_on(async {
        let [one, other] = both(url, kinds).await?;
        a_storm_of_both(vec![one], vec![other], storm).await;
        Ok(())
    })
}

fn miscount(url: &str, kinds: [Kind; 2]) -> Result<(), Absence> {
    block_on(async {
        let [mut one, mut other] = both(url, kinds).await?;
        with_a_lock_each_they_miscount(&mut *one, &mut *other, STORM.length).await;
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
