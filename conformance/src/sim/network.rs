//! The server, and the network between it and its clients: messages are lost, late, doubled, and overtake each other.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use lock_core::OwnerBytes;
use lock_memory::ServerTime;
use lock_memory::server::{ClientId, Handled, Server};
use lock_memory::wire::{Inbox, Pushed, Reply, Wire};
use tokio::sync::oneshot;

use super::TTL;
use super::clocks::ServersClock;
use super::dice::Dice;
use super::families::{Deed, Family, Holder};
use super::faults::{Fault, Kind};
use super::log::{CallId, Log, What};
use super::timeline::{Machine, Micros, Timeline};

/// The messages that were not delivered once and in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mishaps {
    /// Lost.
    pub lost: u64,
    /// Delivered twice.
    pub doubled: u64,
    /// Delivered late enough to be overtaken.
    pub late: u64,
}

/// A server and its network.
pub(super) struct World<S: Server> {
    timeline: Timeline,
    log: Log,
    clock: ServersClock,
    faults: Vec<Fault>,
    state: Mutex<State<S>>,
}

struct State<S: Server> {
    server: S,
    dice: Dice,
    inboxes: HashMap<Machine, Arc<Inbox<S::Push>>>,
    /// Which call an owner belongs to, from what has arrived.
    calls: HashMap<OwnerBytes, CallId>,
    holder: Option<CallId>,
    /// When the server looks next for what has run out.
    bell: Option<Micros>,
    mishaps: Mishaps,
}

/// Who waits for an answer. Shared by both copies of a doubled request: the first answer counts.
type Answered<S> = Arc<Mutex<Option<oneshot::Sender<Reply<<S as Server>::Answer>>>>>;

impl<S: Family> World<S> {
    pub(super) fn new(timeline: Timeline, log: Log, faults: Vec<Fault>, mut dice: Dice) -> Arc<World<S>> {
        let clock = ServersClock::new(timeline.clone(), &mut dice);
        let state = State {
            server: S::begin(clock.now()),
            dice,
            inboxes: HashMap::new(),
            calls: HashMap::new(),
            holder: None,
            bell: None,
            mishaps: Mishaps::default(),
        };
        let world = World { timeline, log, clock, faults, state: Mutex::new(state) };
        let world = Arc::new(world);
        world.faults.iter().for_each(|fault| world.plan(*fault));
        world
    }

    /// One client's end of the network.
    pub(super) fn end(self: &Arc<Self>, machine: Machine) -> Arc<dyn Wire<S>> {
        Arc::new(End { world: self.clone(), machine })
    }

    pub(super) fn mishaps(&self) -> Mishaps {
        self.state().mishaps
    }

    fn plan(self: &Arc<Self>, fault: Fault) {
        let world = self.clone();
        self.timeline.at(fault.begins, None, move || {
            world.log.write(What::Begins(fault));
            match fault.kind {
                Kind::Pause(machine) => world.timeline.stop(machine, fault.ends),
                Kind::Step(by) => world.clock.step(by),
                Kind::Loss | Kind::Delay | Kind::Doubling | Kind::Partition(_) => {}
            }
        });
        let world = self.clone();
        self.timeline.at(fault.ends, None, move || {
            world.log.write(What::Over(fault));
            if let Kind::Partition(machine) = fault.kind {
                // What a connection notices when it is made again.
                world.push(machine, Pushed::Gap);
            }
        });
    }

    // ---- the network ------------------------------------------------------------------------------------------------

    /// When each copy of a message arrives that is sent now, between the server and this machine.
    fn travel(&self, machine: Machine) -> impl Iterator<Item = Micros> + use<S> {
        let now = self.timeline.now();
        let on = |kind: Kind| self.faults.iter().any(|fault| fault.kind == kind && fault.is_on(now));
        let mut state = self.state();
        let lost = on(Kind::Partition(machine)) || state.dice.chance(if on(Kind::Loss) { 500 } else { 3 });
        if lost {
            state.mishaps.lost += 1;
            return [None, None].into_iter().flatten();
        }
        let ttl = TTL.as_micros() as Micros;
        let late = on(Kind::Delay) || state.dice.chance(10);
        state.mishaps.late += u64::from(late);
        let delay = state.dice.within(50, if late { ttl / 2 } else { 1_500 });
        let again = state.dice.chance(if on(Kind::Doubling) { 500 } else { 3 });
        state.mishaps.doubled += u64::from(again);
        let again = again.then(|| now + state.dice.within(50, ttl));
        [Some(now + delay), again].into_iter().flatten()
    }

    fn send(self: &Arc<Self>, from: Machine, request: S::Request, answered: Option<Answered<S>>) {
        for at in self.travel(from) {
            let (world, request, answered) = (self.clone(), request.clone(), answered.clone());
            self.timeline.at(at, None, move || world.arrive(from, request, answered));
        }
    }

    fn answer(self: &Arc<Self>, to: Machine, reply: &Reply<S::Answer>, answered: &Answered<S>) {
        for at in self.travel(to) {
            let (reply, answered) = (reply.clone(), answered.clone());
            self.timeline.at(at, Some(to), move || {
                let waits = answered.lock().unwrap_or_else(PoisonError::into_inner).take();
                // Nobody may be waiting any more.
                let _: Option<Result<(), _>> = waits.map(|waits| waits.send(reply));
            });
        }
    }

    fn push(self: &Arc<Self>, to: Machine, pushed: Pushed<S::Push>) {
        for at in self.travel(to) {
            let (world, pushed) = (self.clone(), pushed.clone());
            self.timeline.at(at, Some(to), move || {
                let inbox = world.state().inboxes.get(&to).cloned();
                inbox.iter().for_each(|inbox| inbox(pushed.clone()));
            });
        }
    }

    // ---- the server -------------------------------------------------------------------------------------------------

    fn arrive(self: &Arc<Self>, from: Machine, request: S::Request, answered: Option<Answered<S>>) {
        let now = self.clock.now();
        self.expire();
        let deed = S::deed(&request);
        let before = deed.as_ref().and_then(|deed| self.before(deed, now));
        let Handled { answer, pushes } = self.state().server.handle(now, client_id(from), request);
        self.deliver(pushes);
        if let Some(deed) = deed {
            self.after(&deed, before, now);
        }
        if let Some(answered) = answered {
            self.answer(from, &Reply { now, answer }, &answered);
        }
        self.set_bell();
    }

    /// Who holds the lock before this is done. Somebody's lease may have ended unnoticed.
    fn before(&self, deed: &Deed, now: ServerTime) -> Option<Holder> {
        if let Deed::Attempt(owner, call) = deed {
            self.state().calls.insert(owner.clone(), *call);
        }
        self.look(now)
    }

    fn after(&self, deed: &Deed, before: Option<Holder>, now: ServerTime) {
        let after = self.look(now);
        if let Deed::Release(owner) = deed {
            let of = self.state().calls.get(owner).copied();
            let (before, after) = (before.map(|holder| holder.call), after.map(|holder| holder.call));
            self.log.write(What::ReleaseArrived { of, before, after });
        }
    }

    /// Looks at the server, past the network, and writes down whom it has.
    fn look(&self, now: ServerTime) -> Option<Holder> {
        let mut state = self.state();
        let holder = S::holder(&mut state.server, now);
        let call = holder.as_ref().map(|holder| holder.call);
        if state.holder != call {
            state.holder = call;
            self.log.write(What::Holder { call });
        }
        holder
    }

    fn expire(self: &Arc<Self>) {
        let pushes = self.state().server.expire(self.clock.now());
        if !pushes.is_empty() {
            self.look(self.clock.now());
            self.deliver(pushes);
        }
    }

    fn deliver(self: &Arc<Self>, pushes: Vec<(ClientId, S::Push)>) {
        for (to, push) in pushes {
            self.push(machine(to), Pushed::Push(push));
        }
    }

    /// Sees to it that the server looks when something runs out.
    fn set_bell(self: &Arc<Self>) {
        let mut state = self.state();
        let Some(next) = state.server.next_expiry() else { return };
        let at = self.clock.when(next);
        if state.bell.is_some_and(|bell| bell <= at) {
            return;
        }
        state.bell = Some(at);
        drop(state);
        let world = self.clone();
        self.timeline.at(at, None, move || {
            world.state().bell = None;
            world.expire();
            world.set_bell();
        });
    }

    fn state(&self) -> MutexGuard<'_, State<S>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn client_id(machine: Machine) -> ClientId {
    // Zero is who looks at the server past the network.
    ClientId(machine as u64 + 1)
}

fn machine(client: ClientId) -> Machine {
    client.0 as Machine - 1
}

/// One client's end.
struct End<S: Server> {
    world: Arc<World<S>>,
    machine: Machine,
}

#[async_trait]
impl<S: Family> Wire<S> for End<S> {
    async fn ask(&self, request: S::Request) -> Reply<S::Answer> {
        let (tell, answer) = oneshot::channel();
        self.world.send(self.machine, request, Some(Arc::new(Mutex::new(Some(tell)))));
        match answer.await {
            Ok(reply) => reply,
            // Every copy was lost.
            Err(_) => std::future::pending().await,
        }
    }

    fn tell(&self, request: S::Request) {
        self.world.send(self.machine, request, None);
    }

    fn receive(&self, inbox: Inbox<S::Push>) {
        self.world.state().inboxes.insert(self.machine, Arc::new(inbox));
    }
}

impl<S: Server> fmt::Debug for End<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "End({})", self.machine)
    }
}

impl<S: Server> fmt::Debug for World<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("World").field("timeline", &self.timeline).finish_non_exhaustive()
    }
}
