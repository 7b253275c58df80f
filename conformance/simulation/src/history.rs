//! One history: a seed, four clients, forty sections, and some faults.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use lock_core::{Client, Clock, Event, Name, Options, Random};
use lock_memory::server::lease::LeaseServer;
use lock_memory::server::queue::QueueServer;
use lock_memory::server::register::RegisterServer;
use tokio::runtime::{Builder, Runtime};
use tokio::task::{JoinSet, LocalSet};

use super::callers::Caller;
use super::check::{Invariant, Verdict, Violation, check};
use super::clocks::ClientClock;
use super::dice::{Dice, Seeded};
use super::families::{Family, lock};
use super::faults::{Fault, FaultProfile};
use super::log::{Claim, Entry, Log, What};
use super::majority::Majority;
use super::rules::{FamilyName, Rules, WakesBy};
use super::setting::{CLIENTS, MACHINES, NAMES};
use super::site::Site;
use super::stories::Story;
use super::tally::Tally;
use super::timeline::{Machine, Timeline};
use super::wakes::LeaseHiding;
use super::world::World;

/// The number of callers of each process. Those that want the same lock queue at the process's local queue.
const CALLERS: usize = 2;
/// The number of sections that each caller runs.
const SECTIONS: usize = 5;
/// The time limit of a client's shutdown, on a network that works.
const SHUTDOWN: Duration = Duration::from_secs(30);

/// One history: what happened in it, and the checker's verdict.
#[derive(Clone, Debug, PartialEq)]
pub struct History {
    /// The seed, which determines everything else.
    pub seed: u64,
    /// The kind of servers.
    pub family: FamilyName,
    /// Everything that happened, in order.
    pub log: Vec<Entry>,
    /// Counts of the events that a run of histories has to contain.
    pub tally: Tally,
    /// The checker's verdict.
    pub verdict: Verdict,
}

impl History {
    /// Returns the simulated time at which the last client was shut down.
    pub(super) fn lasted(&self) -> Duration {
        let last = self.log.iter().rfind(|entry| !matches!(entry.what, What::Remains { .. }));
        Duration::from_micros(last.map_or(0, |entry| entry.at))
    }
}

/// Plays the history of this seed, and checks it.
pub fn play(family: FamilyName, seed: u64) -> History {
    play_by(family, seed, Script::Chance)
}

/// The script of a history, which decides which faults the history has, and how its callers behave.
#[derive(Clone, Copy)]
pub(super) enum Script {
    /// The seed decides which faults there are, and when. Callers do everything that the library allows, and faults hit
    /// them right after a grant.
    Chance,
    /// The story says which faults there are, and no others occur; the seed decides when. Callers acquire, write for a
    /// while without looking at their guards, and release.
    Told(&'static Story),
}

pub(super) fn play_by(family: FamilyName, seed: u64, script: Script) -> History {
    let _replay_hint = ReplayHint { family, seed };
    match family {
        FamilyName::Lease => play_on::<LeaseServer>(family, seed, script),
        FamilyName::Queue => play_on::<QueueServer>(family, seed, script),
        FamilyName::Redlock => play_on::<Majority>(family, seed, script),
        FamilyName::Register => play_on::<RegisterServer>(family, seed, script),
    }
}

/// Prints how to play this history again if it panics.
struct ReplayHint {
    family: FamilyName,
    seed: u64,
}

impl Drop for ReplayHint {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let ReplayHint { family, seed } = self;
            eprintln!("panicked; replay: sim --histories 1 --seed {seed} --family {family} --trace");
        }
    }
}

fn play_on<S: Family>(family: FamilyName, seed: u64, script: Script) -> History {
    let stage = Rc::new(Stage::<S>::new(family, seed, script));
    let timeline = stage.timeline.clone();
    let runtime = Builder::new_current_thread().on_thread_park(move || timeline.go_on()).build();
    let runtime = runtime.expect("a runtime without I/O needs nothing of the system");
    let end = LocalSet::new().block_on(&runtime, stage.clone().play());
    let mut log = stage.log.take();
    log.extend(ends_with_its_runtime(&stage, runtime));
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

/// Ends the runtime, and with it the claims of processes that were killed. Returns what they told. A runtime ends its
/// tasks in an order that depends on how many tasks this process has had before, and one seed has to make one history.
fn ends_with_its_runtime<S: Family>(stage: &Stage<S>, runtime: Runtime) -> Vec<Entry> {
    drop(runtime);
    stage.timeline.forget();
    let mut told = stage.log.take();
    told.sort_by_key(|entry| match entry.what {
        What::ClaimLost(claim) | What::ClaimEnds(claim) => Some(claim),
        _ => None,
    });
    told
}

/// The end of a history.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Done,
    /// A task waits for an event that will never happen.
    Stuck,
}

/// The number of histories in a thousand that rely on pushes alone to wake waiters.
const BY_PUSHES: u64 = 150;

/// Draws what wakes waiters. It uses dice of its own, so that the seed's other draws stay the same.
fn wakes(seed: u64, script: Script) -> WakesBy {
    match script {
        Script::Chance if Dice::new(!seed).chance(BY_PUSHES) => WakesBy::PushesAlone,
        _ => WakesBy::PushesAndLooks,
    }
}

/// Draws which kinds of faults there are.
fn profile<S: Family>(script: Script, servers: usize, wakes: WakesBy, dice: &mut Dice) -> FaultProfile {
    let drawn = match (script, dice.within(0, 100)) {
        (Script::Told(story), _) => story.profile,
        (Script::Chance, 0..20) if S::STEPS => FaultProfile::Steps,
        (Script::Chance, 20..35) => FaultProfile::Wipes,
        (Script::Chance, 35..60) if servers > 1 => FaultProfile::Storm,
        _ => FaultProfile::Mild,
    };
    match (drawn, wakes) {
        (FaultProfile::Storm, WakesBy::PushesAlone) => FaultProfile::Mild,
        _ => drawn,
    }
}

/// Everything that takes part in a history.
struct Stage<S: Family> {
    timeline: Timeline,
    log: Log,
    world: Arc<World<S>>,
    site: Rc<Site>,
    dice: RefCell<Dice>,
}

/// The number of sections that each caller of a process has left.
type Left = [Rc<Cell<usize>>; CALLERS];

impl<S: Family> Stage<S> {
    fn new(family: FamilyName, seed: u64, script: Script) -> Stage<S> {
        let mut dice = Dice::new(seed);
        let timeline = Timeline::new(MACHINES);
        let log = Log::new(timeline.clone());
        let servers = match script {
            Script::Told(story) => story.servers,
            Script::Chance => S::servers(&mut dice),
        };
        let locks = 1 + dice.below(NAMES.len());
        let wakes = wakes(seed, script);
        let profile = profile::<S>(script, servers, wakes, &mut dice);
        let world =
            World::<S>::new(timeline.clone(), log.clone(), (servers, locks), profile, wakes, dice.fork());
        log.write(What::Opens(Rules { family, servers, wakes }));
        let faults = match script {
            Script::Told(story) => {
                world.state().server.forgets_by(story.guard);
                (story.faults)(&mut dice)
            }
            Script::Chance => Fault::by_chance(&mut dice, (servers, locks), profile, wakes),
        };
        faults.into_iter().for_each(|fault| world.plan(fault));
        let planner = world.clone();
        let site = Site::new(timeline.clone(), log.clone(), locks, script, move |fault: Fault| {
            if fault.kind.may_hit(wakes) {
                planner.plan(fault);
            }
        });
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
                // A panic in a caller is a panic of the test.
                if let Some((machine, left)) = ended.expect("callers don't panic") {
                    processes.spawn_local(self.clone().process(machine + CLIENTS, left));
                }
            }
            self.timeline.comes(self.world.troubled_until()).await;
            self.timeline.comes(self.world.last_deadline()).await;
            for lock in self.world.locks() {
                self.log.write(What::Remains { lock, calls: self.world.remains(lock) });
            }
        };
        tokio::select! {
            biased;
            () = work => End::Done,
            () = self.timeline.over() => End::Stuck,
        }
    }

    /// Runs the sections that are left to a process. If the process is killed first, returns the machine and what is
    /// left then.
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
            // The log shows the end of a lease only when the server is looked at. The server also notifies its waiters.
            self.world.expire();
            self.world.locks().for_each(|lock| _ = self.world.look(lock));
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
        let claim = move |name: &Name| {
            let lock = lock(name.as_str()).expect("callers ask for no other lock");
            Claim { client: machine, lock }
        };
        let options = options.observer(move |event| match event {
            Event::Granted { name, .. } => log.write(What::ClaimBegins(claim(name))),
            Event::Lost { name, .. } => log.write(What::ClaimLost(claim(name))),
            Event::Ended { name, .. } => log.write(What::ClaimEnds(claim(name))),
            _ => {}
        });
        let connect = |context: lock_core::driver::Context| {
            let (wire, servers) = (self.world.end(machine), self.world.clocks.len());
            let wakes = self.world.wakes();
            async move { Ok(LeaseHiding::<S, _>::new(S::driver(wire, servers, context)?, wakes)) }
        };
        options.open("memory", "simulated", connect).await.expect("connecting sends no request")
    }
}
