//! Failovers, one after the other, while clients take, hold, renew and release locks and write to a resource that checks
//! their tokens.

mod checks;
mod history;
mod load;
mod on_cluster;
mod on_sentinels;

use std::time::{Duration, Instant};

use lock_conformance::timing::{released, within};
use lock_conformance::{assert_in_time, is_full_run};
use lock_core::Client;
use lock_test_servers::{Owned, RedisAdmin};

use crate::server::{raw_at, run_within};
use history::{Failover, Harm, History, Way};
use load::{Contended, Load, Turn};
use on_cluster::Cluster;
use on_sentinels::Watched;

/// Longer than a failover takes: the others notice, agree, and one of them is promoted or promotes itself.
const FAILOVER: Duration = Duration::from_secs(15);
/// For how long a name may stay without a grant when its lock is free on a new primary: clients pause for a second at
/// most after an error, and for a moment until they have found it.
const FOUND: Duration = Duration::from_secs(2);
/// The end of a token's key.
const TOKEN: &str = ":lock~t";

/// Servers, some of which are copies of each other.
trait Copies {
    /// The least time between the beginnings of two failovers: sentinels want a pause after one.
    const BETWEEN: Duration;
    /// The ways in which a primary is replaced, one after the other.
    const WAYS: &[Way];

    fn url(&self) -> String;

    /// Returns the names that clients contend for, each at one group of copies.
    fn names(&self) -> Vec<Contended>;

    /// Returns how many groups of copies there are.
    fn groups(&self) -> usize;

    /// Returns all servers. A server keeps its number.
    fn servers(&self) -> &[Owned];

    /// Returns the number of a group's primary.
    fn primary(&self, group: usize) -> usize;

    /// Returns the numbers of the copies of this primary.
    fn replicas(&self, group: usize, primary: usize) -> Vec<usize>;

    /// Has another server take the primary's place, as administrators do.
    async fn switch(&self, group: usize, primary: usize, way: Way);

    /// Returns what a failover of this kind may do to exclusion.
    fn harm(way: Way) -> Harm;

    /// Returns whether a server other than `old` is the group's primary.
    async fn has_successor(&self, group: usize, old: usize) -> bool;

    /// Starts a server again that was killed.
    fn restart(&self, server: usize);

    /// Waits until the group has one primary, and its other servers have all data.
    async fn become_whole(&self, group: usize);
}

// Proves: redis-failover, elections
pub(crate) fn sentinels_replace_the_primary_again_and_again() {
    again_and_again(Watched::start);
}

// Proves: redis-failover, elections
pub(crate) fn a_clusters_primaries_are_replaced_again_and_again() {
    again_and_again(Cluster::start);
}

fn again_and_again<C: Copies>(start: impl FnOnce() -> C) {
    let times = if is_full_run() { 12 } else { C::WAYS.len() };
    println!("{times} failovers; 12 with LOCK_TEST_FULL=1");
    run_within(Duration::from_secs(110), async {
        let copies = start();
        let names = copies.names();
        let load = Load::start(&copies.url(), &names).await;
        let mut failovers = Vec::new();
        for nth in 0..times {
            let group = Group::of(&copies, &names, nth % copies.groups());
            let failover = group.fail_over(C::WAYS[nth % C::WAYS.len()], load.history()).await;
            tokio::time::sleep_until((failover.began + C::BETWEEN).into()).await;
            failovers.push(failover);
        }
        let (history, clients) = load.stop().await;
        checks::check(&history, &names, &failovers);
        each_is_free(&clients[0], &names).await;
        for client in clients {
            assert_eq!(client.shutdown(FOUND).await, 0);
        }
        nothing_is_left(&copies, names.len()).await;
    });
}

/// A primary and its copies, and the numbers of the names that it has.
struct Group<'a, C> {
    copies: &'a C,
    number: usize,
    short: Vec<usize>,
    long: Vec<usize>,
}

impl<C: Copies> Group<'_, C> {
    fn of<'a>(copies: &'a C, names: &[Contended], number: usize) -> Group<'a, C> {
        let such = |turn: Turn| {
            let of_group = |(_, name): &(usize, &Contended)| name.group == number && name.turn == turn;
            names.iter().enumerate().filter(of_group).map(|(name, _)| name).collect()
        };
        Group { copies, number, short: such(Turn::Short), long: such(Turn::Long) }
    }

    /// Has the primary replaced, and waits until all is as before, with another primary.
    async fn fail_over(&self, way: Way, history: &History) -> Failover {
        let Group { copies, number: group, .. } = *self;
        let old = copies.primary(group);
        let server = &copies.servers()[old];
        let began = Instant::now();
        match way {
            Way::KilledAhead => {
                self.be_ahead(server, history).await;
                server.kill().unwrap();
            }
            Way::Killed => server.kill().unwrap(),
            Way::Frozen => server.pause().unwrap(),
            Way::Switched | Way::HandedOver => copies.switch(group, old, way).await,
        }
        let struck = Instant::now();
        within("another server is the primary", FAILOVER, async {
            while !copies.has_successor(group, old).await {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        })
        .await;
        let promoted = Instant::now();
        let granted = within("a grant", FAILOVER, history.grant_after(&self.short, promoted)).await;
        match way {
            Way::KilledAhead | Way::Killed => copies.restart(old),
            Way::Frozen => server.resume().unwrap(),
            Way::Switched | Way::HandedOver => {}
        }
        copies.become_whole(group).await;
        println!(
            "{way:?}: another primary after {:?}, the first grant {:?} after that, all as before after {:?}",
            promoted - struck,
            granted - promoted,
            struck.elapsed()
        );
        // The lock that was held when the primary went ends with its ttl, if its holder is not heard.
        let due = promoted.max(struck + Turn::Short.ttl()) + FOUND;
        assert_in_time!(granted < due, "{way:?}: the first grant came {:?} after it", granted - struck);
        Failover { group, way, harm: C::harm(way), began, settled: Instant::now() }
    }

    /// Waits until the primary has granted locks of which its replicas know nothing.
    async fn be_ahead(&self, primary: &Owned, history: &History) {
        let mut raw = raw_at(primary.url()).await;
        let _: () = raw.ask(&["ACL", "SETUSER", "default", "-psync", "-sync"]).await;
        let _: u32 = raw.ask(&["CLIENT", "KILL", "TYPE", "replica"]).await;
        let cut = Instant::now();
        for names in [&self.short, &self.long] {
            within("a grant", FAILOVER, history.grant_after(names, cut)).await;
        }
    }
}

/// Checks that no lock is left of a holder that has gone, beyond its ttl.
async fn each_is_free(client: &Client, names: &[Contended]) {
    for Contended { name, turn, .. } in names {
        let asked = Instant::now();
        let lock = client.lock(name.as_str()).ttl(turn.ttl()).wait(FAILOVER).build().unwrap();
        released(lock.acquire().await.unwrap()).await;
        let took = asked.elapsed();
        println!("{name} was free after {took:?}");
        assert_in_time!(took < turn.ttl() + FOUND, "{name} is free after {took:?}");
    }
}

/// Checks that the primaries have a token for each name, and nothing else.
async fn nothing_is_left<C: Copies>(copies: &C, names: usize) {
    let mut tokens = 0;
    for group in 0..copies.groups() {
        let mut admin = RedisAdmin::of(copies.servers()[copies.primary(group)].url()).await;
        let left = admin.keys_without(&[TOKEN]).await;
        assert!(left.is_empty(), "all was released: {left:?}");
        within("no client listens", FOUND, async {
            while admin.channel_count().await > 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
        tokens += admin.key_count().await;
    }
    assert_eq!(tokens, names as u64, "each name has one token");
}
