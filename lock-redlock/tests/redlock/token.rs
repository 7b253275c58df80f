//! The two rounds: the token rises whatever the clocks of the nodes do, and whichever nodes are the majority.

use std::sync::Arc;
use std::time::Duration;

use lock_conformance::Step;
use lock_conformance::proxy::{Direction, Proxy};
use lock_core::{Effect, ErrorKind, FencingToken, Name};
use lock_redlock::{Ask, Freed, Kept, Keys, Node, RedisNode, Tells, Vote};
use lock_test_servers::{Clock, Persistence, Settings, clock};

use super::nodes::{FIVE, Nodes, admin};
use super::{PATIENCE, TTL, five, ms, options, released, run};

const HOUR: Duration = Duration::from_secs(3600);

// Proves: redlock-clocks, server-clock-set
/// Returns `Err` with the reason if the test can't be run.
pub(crate) fn it_rises_with_clocks_an_hour_apart() -> Result<(), String> {
    clock::can_be_set()?;
    run(async {
        let settings = Settings { persistence: Persistence::None, clock: Clock::Own, ..Settings::default() };
        let nodes = Nodes::start(FIVE, Duration::from_secs(30), &settings).unwrap();
        nodes.servers()[0].step_clock(Step::Forward(HOUR)).unwrap();
        nodes.servers()[4].step_clock(Step::Back(HOUR)).unwrap();
        let (ahead, behind) = (clock_of(&nodes.urls()[0]).await, clock_of(&nodes.urls()[4]).await);
        assert!(ahead.saturating_sub(behind) > HOUR, "the clocks are set: {ahead:?} and {behind:?}");
        let clients = [nodes.open(options()).await.unwrap(), nodes.open(options()).await.unwrap()];
        let mut last = None;
        for n in 0..200 {
            // Each time two other nodes, or one, do not answer.
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
    Ok(())
}

/// Returns a node's time since 1970.
async fn clock_of(url: &str) -> Duration {
    let (seconds, micros) =
        redis::cmd("TIME").query_async::<(u64, u64)>(&mut admin(url).await).await.unwrap();
    Duration::from_secs(seconds) + Duration::from_micros(micros)
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
                // A node that answered after a majority may not have the token yet.
                let Some(key) = keys.first() else { continue };
                let mut get = redis::cmd("GET");
                let token: u64 = get.arg(key).query_async(&mut admin(url).await).await.unwrap();
                agree += u32::from(token == guard.token().get());
            }
            assert!(agree >= 3, "{agree} of 5 keep {}", guard.token());
            let shown = client.lock("a").build().unwrap().inspect().await.unwrap().holder.unwrap();
            assert_eq!(shown.token, Some(guard.token()));
            released(guard).await;
        }
    });
}

// Proves: quorum-split
/// Each time two other nodes are away. Any two majorities share at least one node, and here no more than one.
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

// Proves: request-twice
pub(crate) fn an_attempt_that_arrives_twice_is_one_grant() {
    run(async {
        let nodes = five(Duration::from_secs(30));
        let (node, a) = (nodes.node(0), ask("a"));
        let token = granted(&node, &a).await;
        assert_eq!(granted(&node, &a).await, token, "the same grant, asked for again");
        let raised = later(token);
        assert!(node.raise(a.clone(), token, raised, PATIENCE).await.unwrap());
        assert!(node.raise(a.clone(), token, raised, PATIENCE).await.unwrap(), "the node has it already");
        assert_eq!(granted(&node, &a).await, raised, "the raised token stays");
    });
}

// Proves: request-twice
/// Two grants to one owner, with a grant to another owner between them.
pub(crate) fn a_raise_is_for_one_grant_alone() {
    run(async {
        let nodes = five(Duration::from_secs(30));
        let (node, a, b) = (nodes.node(0), ask("a"), ask("b"));
        let first = granted(&node, &a).await;
        freed(&node, &a).await;
        let between = granted(&node, &b).await;
        freed(&node, &b).await;
        // A copy of the first attempt that arrives late does this.
        let again = granted(&node, &a).await;
        assert!(first < between && between < again);
        assert!(!node.raise(a.clone(), first, later(again), PATIENCE).await.unwrap());
        assert_eq!(granted(&node, &a).await, again, "nothing was raised");
        assert!(!node.raise(b, between, later(again), PATIENCE).await.unwrap(), "it is another owner's");
    });
}

pub(crate) fn a_token_that_is_none_leaves_the_lock_free() {
    run(async {
        let nodes = five(Duration::from_secs(30));
        let (node, a) = (nodes.node(0), ask("a"));
        let token = granted(&node, &a).await;
        freed(&node, &a).await;
        let mut admin = admin(&nodes.urls()[0]).await;
        // Also texts that Lua accepts as numbers.
        for text in
            ["9007199254740992", "x", "", "nan", "-nan", "inf", "-inf", "0x10", "1e3", "-5", "5.5", " 5"]
        {
            let mut set = redis::cmd("SET");
            set.arg(&a.keys.token[..]).arg(text).exec_async(&mut admin).await.unwrap();
            let refused = node.grant(a.clone(), None, PATIENCE).await.expect_err(text);
            let refilled = node.refill(a.clone(), token, PATIENCE).await.expect_err(text);
            for error in [refused, refilled] {
                assert_eq!(error.kind(), ErrorKind::Rejected, "{text:?}: {error}");
                assert!(error.message().contains("holds no token"), "{text:?}: {error}");
            }
            let mut exists = redis::cmd("EXISTS");
            let taken: u32 = exists.arg(&a.keys.lock[..]).query_async(&mut admin).await.unwrap();
            assert_eq!(taken, 0, "{text:?}: an error after the write left the lock taken");
        }
    });
}

// Proves: request-late
/// Before its deadline, the copy takes a lock that is free again, and must not look like the attempt's first grant.
/// After its deadline it takes nothing.
pub(crate) fn a_late_copy_of_an_attempt_is_another_grant() {
    run(async {
        let nodes = five(Duration::from_secs(30));
        let proxy = Proxy::start_all(&nodes.addresses()[..1]).await.unwrap();
        let (node, far, a) = (nodes.node(0), nodes.behind(proxy.addresses()).node(0), ask("a"));
        let first = granted(&far, &a).await;
        freed(&node, &a).await;
        assert!(first < granted(&node, &a).await);
        freed(&node, &a).await;
        let asked = nodes.counters().await.requests;
        proxy.hold_open_ones(Direction::ToServer);
        let late = far.grant(a.clone(), None, ms(200)).await.unwrap_err();
        assert_eq!(late.kind(), ErrorKind::Unavailable { effect: Effect::Unknown }, "{late}");
        proxy.deliver(Direction::ToServer);
        while nodes.counters().await.requests == asked {
            tokio::time::sleep(ms(5)).await;
        }
        assert_eq!(node.renew(a, PATIENCE).await.unwrap(), Kept::Absent, "the late copy has taken nothing");
    });
}

/// All nodes mint the token that is proposed to them, and none is asked to raise its own.
pub(crate) fn a_try_needs_one_round() {
    const TRIES: u64 = 200;
    run(async {
        let nodes = five(Duration::from_secs(30));
        let clients = [nodes.open(options()).await.unwrap(), nodes.open(options()).await.unwrap()];
        let asked = nodes.counters().await.requests;
        for n in 0..TRIES {
            let client = &clients[n as usize % 2];
            released(client.lock("a").ttl(TTL).build().unwrap().acquire().await.unwrap()).await;
        }
        clients[0].shutdown(TTL).await;
        clients[1].shutdown(TTL).await;
        let requests = nodes.counters().await.requests - asked;
        println!("{requests} requests for {TRIES} grants and releases on {FIVE} nodes");
        // With a second round in each try, it would be two more at least. A busy machine may be late for some.
        assert!(requests < TRIES * (2 * FIVE as u64 + 1), "{requests} requests for {TRIES} cycles");
    });
}

pub(crate) fn a_proposal_raises_the_token_of_lower_nodes() {
    run(async {
        let nodes = five(Duration::from_secs(30));
        let (node, a) = (nodes.node(0), ask("a"));
        assert_eq!(node.on_arrival(lock_core::Clock::system().now()), None, "the node has told no time yet");
        let first = granted(&node, &a).await;
        freed(&node, &a).await;
        let proposed =
            FencingToken::new(node.on_arrival(lock_core::Clock::system().now()).unwrap() as u64 + 500_000)
                .unwrap();
        assert!(proposed > first);
        assert_eq!(proposes(&node, &a, proposed).await, proposed);
        assert_eq!(proposes(&node, &a, later(proposed)).await, proposed, "the same grant, asked for again");
        freed(&node, &a).await;
        let next = proposes(&node, &a, proposed).await;
        assert_eq!(next.get(), proposed.get() + 1, "the token rises with each grant, whatever is proposed");
        freed(&node, &a).await;
    });
}

/// A node whose data is lost could not be above it when it votes again.
pub(crate) fn a_proposal_counts_up_to_a_second_ahead() {
    for (max_ttl, limit) in [(Duration::from_secs(30), ms(1000)), (ms(2000), ms(200))] {
        run(async {
            let nodes = Nodes::start(3, max_ttl, &Settings::default()).unwrap();
            let (node, a) = (nodes.node(0), ask("a"));
            let far = clock_of(&nodes.urls()[0]).await + HOUR;
            let before = clock_of(&nodes.urls()[0]).await;
            let token = proposes(&node, &a, FencingToken::new(far.as_micros() as u64).unwrap()).await;
            let after = clock_of(&nodes.urls()[0]).await;
            let minted = Duration::from_micros(token.get());
            assert!(
                before + limit <= minted && minted <= after + limit,
                "{max_ttl:?}: {minted:?}, {after:?}"
            );
        });
    }
}

/// Only the owner whose earlier try it was takes it over.
pub(crate) fn what_an_earlier_try_left_is_taken_over() {
    run(async {
        let nodes = five(Duration::from_secs(30));
        let (node, first) = (nodes.node(0), ask("first try"));
        let left = granted(&node, &first).await;
        let next = Ask { value: "next try".into(), ..ask("") };
        assert!(
            matches!(node.grant(next.clone(), None, PATIENCE).await.unwrap(), Vote::No(_)),
            "another owner's"
        );
        let next = Ask { earlier: Arc::new(["first try".into()]), ..next };
        assert!(left < granted(&node, &next).await, "a grant of its own");
        assert!(matches!(node.release(first, Tells::NoWaiter, PATIENCE).await, Ok(Freed::No)), "it is gone");
        freed(&node, &next).await;
    });
}

/// Returns a request for one lock, with this value.
pub(crate) fn ask(value: &str) -> Ask {
    let keys = Keys {
        name: Name::new("raised").unwrap(),
        lock: b"raised".to_vec(),
        token: b"raised:token".to_vec(),
        channel: b"raised:channel".to_vec(),
    };
    Ask { keys: Arc::new(keys), value: value.into(), earlier: Arc::new([]), ttl: TTL, longest: TTL }
}

async fn granted(node: &RedisNode, ask: &Ask) -> FencingToken {
    voted(node.grant(ask.clone(), None, PATIENCE).await.unwrap())
}

async fn proposes(node: &RedisNode, ask: &Ask, token: FencingToken) -> FencingToken {
    voted(node.grant(ask.clone(), Some(token), PATIENCE).await.unwrap())
}

fn voted(vote: Vote) -> FencingToken {
    match vote {
        Vote::Yes { token, .. } => token,
        other => panic!("{other:?}"),
    }
}

async fn freed(node: &RedisNode, ask: &Ask) {
    assert!(matches!(node.release(ask.clone(), Tells::NoWaiter, PATIENCE).await, Ok(Freed::Yes { .. })));
}

fn later(token: FencingToken) -> FencingToken {
    FencingToken::new(token.get() + 1_000_000).unwrap()
}
