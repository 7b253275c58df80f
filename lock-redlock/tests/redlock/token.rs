//! Two rounds: the token rises whatever the clocks of the nodes do, and whichever nodes make the majority.

use std::time::Duration;

use lock_conformance::Step;
use lock_conformance::servers::{Clock, Persistence, Settings, clock};

use super::nodes::{FIVE, Nodes, admin};
use super::{TTL, five, ms, options, released, run};

const HOUR: Duration = Duration::from_secs(3600);

pub(crate) fn it_rises_with_clocks_an_hour_apart() {
    if let Err(why) = clock::can_be_set() {
        println!("not run: {why}");
        return;
    }
    run(async {
        let settings = Settings { persistence: Persistence::None, clock: Clock::Own, ..Settings::default() };
        let nodes = Nodes::start(FIVE, Duration::from_secs(30), &settings).unwrap();
        nodes.servers()[0].step_clock(Step::Forward(HOUR)).unwrap();
        nodes.servers()[4].step_clock(Step::Back(HOUR)).unwrap();
        let clients = [nodes.open(options()).await.unwrap(), nodes.open(options()).await.unwrap()];
        let mut last = None;
        for n in 0..200 {
            // Another two of them don't answer each time.
            let silent = [n % FIVE, (n / FIVE + n + 1) % FIVE];
            let silent = &silent[..if silent[0] == silent[1] { 1 } else { 2 }];
            if n % 10 == 0 {
                silent.iter().for_each(|at| nodes.servers()[*at].pause().unwrap());
            }
            let guard = clients[n % 2].lock("a").ttl(TTL).build().unwrap().acquire().await.unwrap();
            assert!(last < Some(guard.token()), "{last:?}, then {}", guard.token());
            last = Some(guard.token());
            released(guard).await;
            if n % 10 == 0 {
                silent.iter().for_each(|at| nodes.servers()[*at].resume().unwrap());
            }
        }
    });
}

pub(crate) fn a_majority_shows_the_token_that_was_granted() {
    run(async {
        let nodes = five(Duration::from_secs(30));
        let client = nodes.open(options()).await.unwrap();
        for _ in 0..50 {
            let guard = client.lock("a").ttl(TTL).build().unwrap().acquire().await.unwrap();
            let mut agree = 0;
            for url in nodes.urls() {
                let mut find = redis::cmd("KEYS");
                let keys: Vec<Vec<u8>> =
                    find.arg("a???:lock~t").query_async(&mut admin(url).await).await.unwrap();
                let mut get = redis::cmd("GET");
                let token: u64 = get.arg(&keys[0]).query_async(&mut admin(url).await).await.unwrap();
                agree += u32::from(token == guard.token().get());
            }
            assert!(agree >= 3, "{agree} of 5 keep {}", guard.token());
            let shown = client.lock("a").build().unwrap().inspect().await.unwrap().holder.unwrap();
            assert_eq!(shown.token, Some(guard.token()));
            released(guard).await;
        }
    });
}

/// Each time another two are away: any two majorities share one node at least, and no more here.
pub(crate) fn it_rises_over_every_change_of_the_majority() {
    run(async {
        let nodes = five(Duration::from_secs(30));
        let client = nodes.open(options()).await.unwrap();
        let lock = client.lock("a").ttl(ms(1500)).build().unwrap();
        let mut last = None;
        for round in 0..10 {
            let away = [round % FIVE, (round + 1 + round / FIVE) % FIVE];
            away.iter().for_each(|at| nodes.servers()[*at].pause().unwrap());
            let guard = lock.acquire().await.unwrap();
            assert!(last < Some(guard.token()), "{last:?}, then {}", guard.token());
            last = Some(guard.token());
            released(guard).await;
            away.iter().for_each(|at| nodes.servers()[*at].resume().unwrap());
        }
    });
}
