//! Tests the drivers of other libraries' clients, and the cases that use them, with pairs of those clients. They use
//! one another's locks here, as they use ours in the backends' tests.

use std::fmt;
use std::time::Duration;

use lock_conformance::Verdict;
use lock_conformance::rules::{self, block_on};
use lock_foreign_clients::{
    Contender, Kind, Storm, a_storm_of_both, find, one_holds_and_the_other_waits, start,
    the_waiter_has_it_next, with_a_lock_each_they_miscount,
};
use lock_test_servers::{self as servers, Absence, Owned, Product, Settings, judged_on};

fn main() -> Verdict {
    let trials = [
        (&servers::Etcd as &'static dyn Product, on_etcd()),
        (&servers::ZooKeeper, on_zookeeper()),
        (&servers::Redis, on_redis()),
    ];
    let trials = trials.into_iter().flat_map(|(product, cases)| {
        let test = |case: Case| (case.to_string(), move || case.run(product).map_err(Absence::reason));
        judged_on(product, cases.into_iter().map(test))
    });
    // A storm has the machine to itself.
    rules::run(trials.collect(), 1)
}

fn on_etcd() -> Vec<Case> {
    let (go, etcdctl) = (Kind::EtcdGo, Kind::Etcdctl);
    let pairs = [[go, go], [go, etcdctl], [etcdctl, go], [etcdctl, etcdctl]];
    let mut cases = pairs.map(|pair| Case(pair, Play::Waits)).to_vec();
    cases.extend([Play::Storm(STORM), Play::Miscount].map(|play| Case([go, etcdctl], play)));
    cases
}

fn on_zookeeper() -> Vec<Case> {
    let (curator, kazoo) = (Kind::Curator, Kind::Kazoo);
    let alike = |play| [curator, kazoo].map(|kind| Case([kind, kind], play));
    let mut cases = [Play::Waits, Play::Storm(STORM), Play::Miscount].map(alike).concat();
    cases.extend([Play::IsCounted, Play::IsNotCounted].map(|play| Case([curator, kazoo], play)));
    cases
}

fn on_redis() -> Vec<Case> {
    let (python, node, rust) = (Kind::RedisPy, Kind::NodeRedlock, Kind::Rslock);
    let (redsync, redislock) = (Kind::Redsync, Kind::Redislock);
    let (lock, fenced, spin) = (Kind::RedissonLock, Kind::RedissonFenced, Kind::RedissonSpin);
    let one_key = [[python, node], [node, rust], [rust, redsync], [redsync, redislock], [redislock, python]];
    let pairs = one_key.into_iter().chain([[lock, fenced], [spin, spin]]);
    let plays = [Play::IsNext, Play::Storm(WITH_PAUSES), Play::Miscount];
    pairs.flat_map(|pair| plays.map(|play| Case(pair, play))).collect()
}

/// Two clients, and what they do.
#[derive(Clone, Copy)]
struct Case([Kind; 2], Play);

#[derive(Clone, Copy)]
enum Play {
    Waits,
    IsNext,
    Storm(Storm),
    Miscount,
    IsCounted,
    IsNotCounted,
}

/// Each polls, or is told: it does not have to wait until a lease ends.
const SOON: Duration = Duration::from_secs(3);
const STORM: Storm = Storm { length: Duration::from_secs(2), pause: Duration::ZERO };
/// The pauses let clients that poll come between.
const WITH_PAUSES: Storm = Storm { pause: Duration::from_millis(20), ..STORM };

impl Case {
    /// Runs the case on a server of its own.
    fn run(self, product: &'static dyn Product) -> Result<(), Absence> {
        self.0.into_iter().try_for_each(find)?;
        let server = Owned::start(product, &Settings::default())?;
        block_on(self.play(server.url()))
    }

    async fn play(self, url: &str) -> Result<(), Absence> {
        let Case([kind, other], play) = self;
        let (mut one, mut other) = (start(kind, url).await?, start(other, url).await?);
        match play {
            Play::Waits => {
                one_holds_and_the_other_waits(&mut *one, &mut *other, &mut *start(kind, url).await?).await;
            }
            Play::IsNext => {
                the_waiter_has_it_next(&mut *one, &mut *other, &mut *start(kind, url).await?, SOON).await;
            }
            Play::Storm(storm) => a_storm_of_both(vec![one], vec![other], storm).await,
            Play::Miscount => with_a_lock_each_they_miscount(&mut *one, &mut *other, STORM.length).await,
            Play::IsCounted => is_counted(&mut *one, &mut *other).await,
            Play::IsNotCounted => is_not_counted(&mut *one, &mut *other).await,
        }
        Ok(())
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Case([one, other], play) = self;
        match play {
            Play::Waits | Play::IsNext => write!(f, "{one}_holds_and_{other}_waits"),
            Play::Storm(_) => write!(f, "a_storm_of_{one}_and_{other}"),
            Play::Miscount => write!(f, "{one}_and_{other}_with_a_lock_each_miscount"),
            Play::IsCounted => write!(f, "{other}_counts_{one}s_nodes"),
            Play::IsNotCounted => write!(f, "{one}_does_not_count_{other}s_nodes"),
        }
    }
}

async fn is_counted(curator: &mut dyn Contender, kazoo: &mut dyn Contender) {
    curator.acquire("a").await;
    assert_eq!(kazoo.attempt("a").await, Some(false));
    kazoo.ask("a").await;
    curator.release("a").await;
    kazoo.held().await;
}

/// The README tells this to users who have both clients on one lock.
async fn is_not_counted(curator: &mut dyn Contender, kazoo: &mut dyn Contender) {
    kazoo.acquire("a").await;
    assert_eq!(curator.attempt("a").await, Some(true), "it counts them now: update the README");
}
