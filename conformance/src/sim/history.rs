//! One history: a seed, four clients, forty sections, some faults.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use lock_core::{Client, Clock, Event, Fence, Options, Random};
use lock_memory::server::lease::LeaseServer;
use lock_memory::server::queue::QueueServer;
use tokio::runtime::Builder;
use tokio::sync::Notify;
use tokio::task::{JoinSet, LocalSet};

use super::callers::{Caller, Site};
use super::check::{Invariant, Verdict, Violation, check};
use super::clocks::ClientClock;
use super::dice::{Dice, Seeded};
use super::families::Family;
use super::faults::{Fault, Steps};
use super::log::{Entry, Log, What};
use super::network::{Mishaps, World};
use super::timeline::{Machine, Timeline};

/// Processes.
const CLIENTS: usize = 4;
/// Callers in each process: they meet at its gate.
const CALLERS: usize = 2;
/// How often each caller wants the lock.
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
    /// What the network did.
    pub mishaps: Mishaps,
    /// What the checker says.
    pub verdict: Verdict,
}

/// Plays the history of this seed, and checks it.
pub fn play(family: FamilyName, seed: u64) -> History {
    match family {
        FamilyName::Lease => play_on::<LeaseServer>(family, seed),
        FamilyName::Queue => play_on::<QueueServer>(family, seed),
    }
}

fn play_on<S: Family>(family: FamilyName, seed: u64) -> History {
    let stage = Stage::<S>::new(seed);
    let timeline = stage.timeline.clone();
    let runtime = Builder::new_current_thread().on_thread_park(move || timeline.go_on()).build();
    let runtime = runtime.expect("a runtime without I/O needs nothing of the system");
    let end = LocalSet::new().block_on(&runtime, stage.play());
    drop(runtime);
    let log = stage.log.take();
    let mut verdict = check(&log);
    if end == End::Stuck {
        let index = log.len();
        let message = "some call has not ended".to_owned();
        verdict.violations.push(Violation { invariant: Invariant::Ends, calls: Vec::new(), message, index });
    }
    History { seed, family, log, mishaps: stage.world.mishaps(), verdict }
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
    dice: RefCell<Dice>,
}

impl<S: Family> Stage<S> {
    fn new(seed: u64) -> Stage<S> {
        let mut dice = Dice::new(seed);
        let timeline = Timeline::new(CLIENTS);
        let log = Log::new(timeline.clone());
        let steps = if S::STEPS && dice.chance(250) { Steps::Some } else { Steps::None };
        let faults = (0..dice.within(3, 6)).map(|_| Fault::throw(&mut dice, CLIENTS, steps)).collect();
        let world = World::new(timeline.clone(), log.clone(), faults, dice.fork());
        Stage { timeline, log, world, dice: RefCell::new(dice) }
    }

    async fn play(&self) -> End {
        let mut clients = Vec::new();
        for machine in 0..CLIENTS {
            clients.push(self.client(machine).await);
        }
        let mut callers = self.callers(&clients);
        let working = Cell::new(true);
        let all = async {
            // A panic of a caller is one of the test's.
            while let Some(ended) = callers.join_next().await {
                ended.expect("callers don't panic");
            }
            working.set(false);
            for (machine, client) in clients.iter().enumerate() {
                let left = client.shutdown(SHUTDOWN).await;
                self.log.write(What::ShutDown { client: machine, left });
            }
        };
        tokio::select! {
            biased;
            () = all => End::Done,
            () = self.timeline.over() => End::Stuck,
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
            Event::Granted { .. } => log.write(What::ClaimBegins { client: machine }),
            Event::Ended { .. } => log.write(What::ClaimEnds { client: machine }),
            _ => {}
        });
        let wire = self.world.end(machine);
        let connect = |context: lock_core::Context| async move { S::driver(wire, context.clock) };
        options.open("memory", "simulated", connect).await.expect("connecting asks nobody")
    }

    fn callers(&self, clients: &[Client]) -> JoinSet<()> {
        let site = Rc::new(Site {
            timeline: self.timeline.clone(),
            log: self.log.clone(),
            fence: Arc::new(Fence::new()),
            calls: Cell::new(0),
            looks: clients.iter().map(|_| Notify::new()).collect(),
        });
        let mut callers = JoinSet::new();
        for (machine, client) in clients.iter().enumerate() {
            for _ in 0..CALLERS {
                let dice = RefCell::new(self.dice.borrow_mut().fork());
                let caller = Caller { site: site.clone(), client: client.clone(), machine, dice };
                callers.spawn_local(caller.work(SECTIONS));
            }
        }
        callers
    }
}
