//! Random steps on a fair lock, against a model of it: who holds, and who waits in which order.

use std::time::Duration;

use lock_conformance::claims::{self, Terms};
use lock_core::Random;
use lock_core::driver::{Attempt, Claim, Queueing, Release};
use lock_core::{Client, FencingToken};

use crate::server::{Raw, Server, run};

const SEEDS: u64 = 20;
/// With `LOCK_TEST_FULL=1`.
const MANY_SEEDS: u64 = 1000;
const STEPS: usize = 150;
const SLOTS: usize = 6;
/// No lease and no place ends by itself.
const LONG: Duration = Duration::from_secs(60);
const FAIR: &str = "?fair=true&grace=60s";

pub(crate) fn random_steps_have_the_models_answers() {
    run(async {
        let server = Server::start(&[]);
        let clients = [server.client(FAIR).await, server.client(FAIR).await, server.client(FAIR).await];
        let mut random = [0; 8];
        Random::system().fill(&mut random);
        let first = u64::from_le_bytes(random) % 1_000_000;
        let seeds = if lock_conformance::is_full_run() { MANY_SEEDS } else { SEEDS };
        println!("seeds {first} to {}; {MANY_SEEDS} with LOCK_TEST_FULL=1", first + seeds - 1);
        let mut stage = Stage { clients, raw: server.raw().await, last: None };
        for seed in first..first + seeds {
            stage.play(seed).await;
        }
    });
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holder {
    Slot(usize),
    /// A client that uses `SET NX`.
    Foreign,
}

/// The state that the server should have.
#[derive(Debug, Default)]
struct Model {
    holder: Option<Holder>,
    /// The waiters, the first one first.
    order: Vec<Waiter>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Waiter {
    slot: usize,
    life: Life,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    Alive,
    Dead,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Said {
    Granted,
    Queued,
    Busy,
    Released { others: bool },
    NotHeld,
}

impl Model {
    fn attempt(&mut self, slot: usize, waits: Queueing) -> Said {
        if self.holder == Some(Holder::Slot(slot)) {
            return Said::Granted;
        }
        if self.holder.is_some() && waits == Queueing::No {
            return Said::Busy;
        }
        if let Some(waiter) = self.order.iter_mut().find(|waiter| waiter.slot == slot) {
            waiter.life = Life::Alive;
        }
        self.purge();
        if self.holder.is_none() && self.order.first().is_none_or(|first| first.slot == slot) {
            self.order.retain(|waiter| waiter.slot != slot);
            self.holder = Some(Holder::Slot(slot));
            return Said::Granted;
        }
        if waits == Queueing::No {
            return Said::Busy;
        }
        if !self.order.iter().any(|waiter| waiter.slot == slot) {
            self.order.push(Waiter { slot, life: Life::Alive });
        }
        Said::Queued
    }

    fn release(&mut self, slot: usize) -> Said {
        let held = self.holder.take_if(|holder| *holder == Holder::Slot(slot)).is_some();
        let rank = self.order.iter().position(|waiter| waiter.slot == slot);
        if let Some(rank) = rank {
            self.order.remove(rank);
        }
        if held || rank == Some(0) {
            self.purge();
        }
        match held || rank.is_some() {
            true => Said::Released { others: !self.order.is_empty() },
            false => Said::NotHeld,
        }
    }

    fn purge(&mut self) {
        self.order.retain(|waiter| waiter.life == Life::Alive);
    }
}

struct Stage {
    clients: [Client; 3],
    raw: Raw,
    /// The last token that was granted on the present name.
    last: Option<FencingToken>,
}

impl Stage {
    async fn play(&mut self, seed: u64) {
        let name = format!("n{seed}");
        let (mut dice, mut model, mut log) = (seed, Model::default(), Vec::new());
        self.last = None;
        let mut slots: Vec<_> = (0..SLOTS).map(|slot| self.claim(&name, slot, Queueing::Queued)).collect();
        for _ in 0..STEPS {
            let (slot, step) = ((roll(&mut dice) % SLOTS as u64) as usize, roll(&mut dice) % 100);
            let (what, said, expected) = match step {
                0..50 => {
                    let held = model.holder == Some(Holder::Slot(slot));
                    let said = self.attempt(&mut slots[slot], held).await;
                    ("attempt", said, model.attempt(slot, Queueing::Queued))
                }
                50..60 => {
                    let mut tries = self.claim(&name, slot, Queueing::No);
                    let (said, expected) =
                        (self.attempt(&mut tries, false).await, model.attempt(SLOTS, Queueing::No));
                    if said == Said::Granted {
                        assert_eq!(release(&mut tries).await, model.release(SLOTS), "seed {seed}: {log:?}");
                    }
                    ("try", said, expected)
                }
                60..85 => ("release", release(&mut slots[slot]).await, model.release(slot)),
                85..92 => {
                    self.foreign(&name, &mut model).await;
                    continue;
                }
                _ => {
                    self.kill(&name, &mut model, &mut slots, slot).await;
                    continue;
                }
            };
            log.push((what, slot, said));
            assert_eq!(said, expected, "seed {seed}, at the last of {log:?}");
            let order = self.beside(&name, 'o').await;
            let waiters: u32 = self.raw.ask(&["ZCARD", &order]).await;
            assert_eq!(waiters as usize, model.order.len(), "seed {seed}: {log:?}");
        }
        for slot in &mut slots {
            slot.release().await.unwrap();
        }
        let _: u32 = self.raw.ask(&["DEL", &name]).await;
    }

    fn claim(&self, name: &str, slot: usize, waits: Queueing) -> Box<dyn Claim> {
        let terms = Terms { ttl: LONG, patience: Duration::from_secs(5), waits, label: "a test" };
        claims::claim(&self.clients[slot % self.clients.len()], name, terms)
    }

    /// A grant that is new has a higher token than every one before it.
    async fn attempt(&mut self, claim: &mut Box<dyn Claim>, held: bool) -> Said {
        match claim.attempt().await.unwrap() {
            Attempt::Granted(grant) => {
                let token = Some(grant.token);
                assert!(
                    if held { token == self.last } else { token > self.last },
                    "{token:?}, {:?}",
                    self.last
                );
                self.last = token;
                Said::Granted
            }
            Attempt::Busy(busy) if busy.queued => Said::Queued,
            Attempt::Busy(_) => Said::Busy,
        }
    }

    /// Another program takes or gives up the key.
    async fn foreign(&mut self, name: &str, model: &mut Model) {
        let _: Option<String> = match model.holder {
            None => {
                model.holder = Some(Holder::Foreign);
                self.raw.ask(&["SET", name, "theirs", "NX", "PX", "60000"]).await
            }
            Some(Holder::Foreign) => {
                model.holder = None;
                let _: u32 = self.raw.ask(&["DEL", name]).await;
                None
            }
            Some(Holder::Slot(_)) => None,
        };
    }

    /// A waiter dies: it has been silent for long, and another claim takes its slot.
    async fn kill(&mut self, name: &str, model: &mut Model, slots: &mut [Box<dyn Claim>], slot: usize) {
        let Some(rank) = model.order.iter().position(|waiter| waiter.slot == slot) else { return };
        let (order, alive) = (self.beside(name, 'o').await, self.beside(name, 'a').await);
        let rank_text = rank.to_string();
        let places: Vec<String> = self.raw.ask(&["ZRANGE", &order, &rank_text, &rank_text]).await;
        let _: u32 = self.raw.ask(&["ZADD", &alive, "1", &places[0]]).await;
        // No slot has this number.
        model.order[rank] = Waiter { slot: usize::MAX, life: Life::Dead };
        slots[slot] = self.claim(name, slot, Queueing::Queued);
    }

    async fn beside(&mut self, name: &str, letter: char) -> String {
        let keys: Vec<String> = self.raw.ask(&["KEYS", &format!("{name}???:lock~{letter}")]).await;
        keys.into_iter().next().unwrap_or_else(|| "none".to_owned())
    }
}

async fn release(claim: &mut Box<dyn Claim>) -> Said {
    match claim.release().await.unwrap() {
        Release::Released { others } => Said::Released { others: others.unwrap() },
        Release::NotHeld => Said::NotHeld,
    }
}

/// The next number of a sequence (splitmix64).
fn roll(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut x = *state;
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}
