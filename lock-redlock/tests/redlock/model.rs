//! The simulation's node does what the scripts do on a server: both get random questions, and have to give the same
//! answers.

use std::sync::Arc;
use std::time::Duration;

use lock_conformance::Data;
use lock_core::{Client, FencingToken, Name};
use lock_memory::ServerTime;
use lock_redlock::{Ask, Freed, Kept, Keys, Node, RedisNode, Tells, Vote};
use lock_simulation::Loss;
use lock_simulation::node_model::{Answer, NodeServer, Question};

use super::nodes::{Nodes, admin};
use super::{five, options, run};

const SEEDS: u64 = 20;
const QUESTIONS: usize = 250;
/// So long that nothing expires during the comparison.
const TTL: Duration = Duration::from_secs(600);
const PATIENCE: Duration = Duration::from_secs(5);
const VALUES: [&str; 3] = ["a", "b", "c"];

pub(crate) fn the_simulations_node_answers_as_the_scripts_do() {
    run(async {
        // The longest ttl of the model.
        let nodes = five(Duration::from_secs(1));
        for seed in 0..SEEDS {
            let mut pair = Pair::of(&nodes, seed).await;
            for nth in 0..QUESTIONS {
                let step = pair.dice.below(100);
                let (real, model) = pair.step(step).await;
                assert_eq!(real, model, "seed {seed}, question {nth}, kind {step}");
            }
        }
    });
}

/// A server and its model.
struct Pair<'a> {
    nodes: &'a Nodes,
    /// A client of all nodes, which marks them.
    client: Client,
    real: RedisNode,
    model: NodeServer,
    keys: Arc<Keys>,
    /// The tokens that a question may name.
    tokens: Vec<FencingToken>,
    /// The newest time that the server has reported.
    now: ServerTime,
    dice: Dice,
}

impl Pair<'_> {
    async fn of(nodes: &Nodes, seed: u64) -> Pair<'_> {
        let name = format!("model {seed}");
        let keys = Keys {
            lock: name.clone().into_bytes(),
            token: format!("{name}:token").into_bytes(),
            channel: format!("{name}:channel").into_bytes(),
            name: Name::new(name).unwrap(),
        };
        let mut pair = Pair {
            nodes,
            client: nodes.open(options()).await.unwrap(),
            real: nodes.node(0),
            model: NodeServer::marked(),
            keys: Arc::new(keys),
            tokens: Vec::new(),
            now: ServerTime::from_micros(1),
            dice: Dice(seed),
        };
        // The first grant gives a token and a time for the questions.
        let ask = pair.ask();
        let (real, model) = pair.grant(ask, None).await;
        assert_eq!(real, model);
        pair
    }

    /// Asks both a question. Returns their answers, without what can't be the same.
    async fn step(&mut self, step: usize) -> (String, String) {
        let (ask, granted) = (self.ask(), self.token());
        match step {
            0..40 => {
                let proposed = self.proposed();
                self.grant(ask, proposed).await
            }
            40..55 => {
                let token = FencingToken::new(self.token().get() + self.dice.below(3) as u64).unwrap();
                self.tokens.push(token);
                let real = self.real.raise(ask.clone(), granted, token, PATIENCE).await.unwrap();
                self.compare(&Answer::Raised(real), Question::Raise { ask, granted, token })
            }
            55..65 => {
                let real = self.real.renew(ask.clone(), PATIENCE).await.unwrap();
                self.compare(&Answer::Kept(real), Question::Renew { ask })
            }
            65..75 => {
                let real = self.real.refill(ask.clone(), granted, PATIENCE).await.unwrap();
                let deadline = self.now + TTL;
                self.compare(&Answer::Refilled(real), Question::Refill { ask, token: granted, deadline })
            }
            75..80 => {
                let real = self.real.look(ask.clone(), PATIENCE).await.unwrap();
                self.compare(&Answer::Shown(real), Question::Look { ask })
            }
            80..92 => {
                let real = self.real.release(ask.clone(), Tells::NoWaiter, PATIENCE).await.unwrap();
                self.compare(&Answer::Freed(real), Question::Release { ask, tells: Tells::NoWaiter })
            }
            92..97 => {
                let mut delete = redis::cmd("DEL");
                delete.arg(&self.keys.lock).exec_async(&mut self.admin().await).await.unwrap();
                self.model.end_lease(&self.keys.lock);
                Default::default()
            }
            _ => self.forget(step).await,
        }
    }

    async fn grant(&mut self, ask: Ask, proposed: Option<FencingToken>) -> (String, String) {
        let real = self.real.grant(ask.clone(), proposed, PATIENCE).await.unwrap();
        // A token that is more than one above the last is the server's time: then the model mints the same.
        self.now = match &real {
            Vote::Yes { token, .. } => ServerTime::from_micros(token.get()),
            Vote::No(held) => ServerTime::from_micros(u64::try_from(held.now).unwrap()),
            Vote::SitsOut { .. } | Vote::Disagrees { .. } => self.now,
        };
        if let Vote::Yes { token, .. } = real {
            self.tokens.push(token);
        }
        let deadline = self.now + TTL;
        self.compare(&Answer::Vote(real), Question::Grant { ask, proposed, deadline })
    }

    /// Lets both lose their data, asks them while they have no vote, and marks them.
    async fn forget(&mut self, step: usize) -> (String, String) {
        match step {
            97 => {
                let server = &self.nodes.servers()[0];
                server.restart(Data::Lost).unwrap();
                self.real = self.nodes.node(0);
                self.model.forget(Loss::Everything);
            }
            _ => {
                redis::cmd("FLUSHALL").exec_async(&mut self.admin().await).await.unwrap();
                self.model.forget(Loss::Flushed);
            }
        }
        let ask = self.ask();
        let answers = self.grant(ask, None).await;
        self.client.init().await.unwrap();
        self.model.mark();
        answers
    }

    fn compare(&mut self, real: &Answer, question: Question) -> (String, String) {
        let (model, _) = self.model.handle(self.now, question);
        (essence(real), essence(&model))
    }

    /// Makes a question by one of three owners, some of which name another one's value as that of an earlier try.
    fn ask(&mut self) -> Ask {
        let value = VALUES[self.dice.below(VALUES.len())];
        let other = VALUES[self.dice.below(VALUES.len())];
        let earlier: Vec<Arc<str>> =
            if other != value && self.dice.below(4) == 0 { vec![other.into()] } else { Vec::new() };
        Ask { keys: self.keys.clone(), value: value.into(), earlier: earlier.into(), ttl: TTL, longest: TTL }
    }

    /// Returns one of the newest tokens, as a rule.
    fn token(&mut self) -> FencingToken {
        let back = self.dice.below(3).min(self.tokens.len() - 1);
        self.tokens[self.tokens.len() - 1 - back]
    }

    /// Returns what a client may propose: nothing, a token of the past, or one that the node's clock is still below when it
    /// is asked.
    fn proposed(&mut self) -> Option<FencingToken> {
        match self.dice.below(3) {
            0 => None,
            1 => Some(self.token()),
            _ => FencingToken::new(self.real.on_arrival(lock_core::Clock::system().now())? as u64 + 50_000),
        }
    }

    async fn admin(&self) -> redis::aio::MultiplexedConnection {
        admin(&self.nodes.urls()[0]).await
    }
}

/// Describes an answer, without what depends on the time.
fn essence(answer: &Answer) -> String {
    match answer {
        Answer::Vote(Vote::Yes { token, .. }) => format!("yes, {token}"),
        Answer::Vote(Vote::No(held)) => {
            format!("no, {} has {:?}", String::from_utf8_lossy(&held.value), held.token)
        }
        Answer::Vote(Vote::SitsOut { .. }) => "sits out".to_owned(),
        Answer::Shown(Some(held)) => {
            format!("{} has {:?}", String::from_utf8_lossy(&held.value), held.token)
        }
        Answer::Kept(Kept::Yes { .. }) => "kept".to_owned(),
        Answer::Freed(Freed::Yes { .. }) => "freed".to_owned(),
        other => format!("{other:?}"),
    }
}

/// Splitmix64.
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let x = self.0;
        let x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((x ^ (x >> 31)) % most as u64) as usize
    }
}
