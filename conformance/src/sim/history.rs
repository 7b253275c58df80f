//! One history: a seed, four clients, forty sections, some faults.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use lock_core::{Client, Clock, Event, Options, Random};
use lock_memory::server::lease::LeaseServer;
use lock_memory::server::queue::QueueServer;
use tokio::runtime::Builder;
use tokio::task::{JoinSet, LocalSet};

use super::callers::Caller;
use super::check::{Invariant, Verdict, Violation, check};
use super::clocks::ClientClock;
use super::dice::{Dice, Seeded};
use super::families::Family;
use super::faults::{Climate, Fault};
use super::log::{Entry, LockId, Log, What};
use super::server::World;
use super::site::Site;
use super::tally::Tally;
use super::timeline::{Machine, Timeline};
use super::{CLIENTS, MACHINES, NAMES};

/// Callers in each process: they meet at its gates.
const CALLERS: usize = 2;
/// How often each caller wants a lock.
const SECTIONS: usize = 5;
/// How long a client that is shut down may take to clean up, on a network that works.
const SHUTDOWN: Duration = Duration::from_secs(30);

/// Which kind of server is simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FamilyName {
    /// Compare-and-set with a lease per lock.
    Lease,
    /// A queue per lock, kept by sessions.
    Queue,
}

/// What happened in a history, and what is to be said of it.
#[derive(Clone, Debug, PartialEq)]
pub struct History {
    /// What decided everything.
    pub seed: u64,
    /// On which server it took place.
    pub family: FamilyName,
    /// Everything that happened.
    pub log: Vec<Entry>,
    /// What happened how often, of what is worth a test.
    pub tally: Tally,
    /// What the checker says.
    pub verdict: Verdict,
}

/// Plays the history of this seed, and checks it.
pub fn play(family: FamilyName, seed: u64) -> History {
    let _playing = Playing { family, seed };
    match family {
        FamilyName::Lease => play_on::<LeaseServer>(family, seed),
        FamilyName::Queue => play_on::<QueueServer>(family, seed),
    }
}

/// Says which history it was if there is a panic in it.
struct Playing {
    family: FamilyName,
    seed: u64,
}

impl Drop for Playing {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let Playing { family, seed } = self;
            eprintln!("a panic; again: sim --histories 1 --seed {seed} --family {family} --trace");
        }
    }
}

fn play_on<S: Family>(family: FamilyName, seed: u64) -> History {
    let stage = Rc::new(Stage::<S>::new(seed));
    let timeline = stage.timeline.clone();
    let runtime = Builder::new_current_thread().on_thread_park(move || timeline.go_on()).build();
    let runtime = runtime.expect("a runtime without I/O needs nothing of the system");
    let end = LocalSet::new().block_on(&runtime, stage.clone().play());
    drop(runtime);
    let log = stage.log.take();
    let mut verdict = check(&log);
    if end == End::Stuck {
        let index = log.len();
        let message = "some call has not ended".to_owned();
        verdict.violations.push(Violation { invariant: Invariant::Ends, calls: Vec::new(), message, index });
    }
    let mut tally = stage.world.tally();
    tally.read(&log);
    History { seed, family, log, tally, verdict }
}

/// How a history came to its end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Done,
    /// Somebody waits for what will never happen.
    Stuck,
}

/// All that takes part in a history.
struct Stage<S: Family> {
    timeline: Timeline,
    log: Log,
    world: Arc<World<S>>,
    site: Rc<Site>,
    dice: RefCell<Dice>,
}

/// How many sections each caller of a process has left.
type Left = [Rc<Cell<usize>>; CALLERS];

impl<S: Family> Stage<S> {
    fn new(seed: u64) -> Stage<S> {
        let mut dice = Dice::new(seed);
        let timeline = Timeline::new(MACHINES);
        let log = Log::new(timeline.clone());
        let locks = 1 + dice.below(NAMES.len());
        let climate = match dice.within(0, 100) {
            0..20 if S::STEPS => Climate::Steps,
            20..35 => Climate::Wipes,
            _ => Climate::Mild,
        };
        let world = World::<S>::new(timeline.clone(), log.clone(), locks, dice.fork());
        for _ in 0..dice.within(4, 8) {
            world.plan(Fault::throw(&mut dice, locks, climate));
        }
        let befalls = world.clone();
        let site = Site::new(timeline.clone(), log.clone(), locks, move |fault| befalls.plan(fault));
        Stage { timeline, log, world, site, dice: RefCell::new(dice) }
    }

    async fn play(self: Rc<Self>) -> End {
        let mut processes = JoinSet::new();
        for machine in 0..CLIENTS {
            let all = std::array::from_fn(|_| Rc::new(Cell::new(SECTIONS)));
            processes.spawn_local(self.clone().process(machine, all));
        }
        let work = async {
            while let Some(ended) = processes.join_next().await {
                // A panic of a caller is one of the test's.
                if let Some((machine, left)) = ended.expect("callers don't panic") {
                    processes.spawn_local(self.clone().process(machine + CLIENTS, left));
                }
            }
        };
        tokio::select! {
            biased;
            () = work => End::Done,
            () = self.timeline.over() => End::Stuck,
        }
    }

    /// Does what is left to do; or answers what is left when it is killed.
    async fn process(self: Rc<Self>, machine: Machine, left: Left) -> Option<(Machine, Left)> {
        let client = self.client(machine).await;
        let mut callers = JoinSet::new();
        for left in &left {
            let dice = RefCell::new(self.dice.borrow_mut().fork());
            let caller = Caller { site: self.site.clone(), client: client.clone(), machine, dice };
            callers.spawn_local(caller.work(left.clone()));
        }
        let work = async {
            while let Some(ended) = callers.join_next().await {
                ended.expect("callers don't panic");
            }
            let left = client.shutdown(SHUTDOWN).await;
            self.log.write(What::ShutDown { client: machine, left });
        };
        tokio::select! {
            biased;
            () = self.timeline.killed(machine) => Some((machine, left)),
            () = work => None,
        }
    }

    async fn client(&self, machine: Machine) -> Client {
        let (clock, random) = {
            let mut dice = self.dice.borrow_mut();
            let clock = Clock::new(ClientClock::new(self.timeline.clone(), machine, &mut dice));
            (clock, Random::new(Seeded::new(dice.fork())))
        };
        let log = self.log.clone();
        let options = Options::default().clock(clock).random(random).label("simulated");
        let options = options.observer(move |event| match event {
            Event::Granted { name, .. } => {
                log.write(What::ClaimBegins { client: machine, lock: lock(name.as_str()) });
            }
            Event::Lost { name, .. } => {
                log.write(What::ClaimLost { client: machine, lock: lock(name.as_str()) });
            }
            Event::Ended { name, .. } => {
                log.write(What::ClaimEnds { client: machine, lock: lock(name.as_str()) });
            }
            _ => {}
        });
        let wire = self.world.end(machine);
        let connect = |context: lock_core::Context| async move { S::driver(wire, context.clock) };
        options.open("memory", "simulated", connect).await.expect("connecting asks nobody")
    }
}

fn lock(name: &str) -> LockId {
    NAMES.iter().position(|known| *known == name).expect("callers ask for no other lock")
}
