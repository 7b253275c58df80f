//! The server, as the simulation has it: what arrives there, whom it has, and what befalls it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lock_core::OwnerBytes;
use lock_core::driver::When;
use lock_memory::ServerTime;
use lock_memory::server::queue::SessionId;
use lock_memory::server::{ClientId, Handled, Key, Server};
use lock_memory::wire::{Inbox, Pushed, Reply};

use super::clocks::ServersClock;
use super::dice::Dice;
use super::families::{Deed, Family, Holder, NOBODY};
use super::faults::{Fault, Kind};
use super::log::{CallId, LockId, Log, What};
use super::network::Answered;
use super::tally::{Occurrence, Tally};
use super::timeline::{Machine, Micros, Timeline};
use super::{CLIENTS, MACHINES, NAMES, SERVER};

/// A server and its network.
pub(super) struct World<S: Server> {
    pub(super) timeline: Timeline,
    log: Log,
    clock: ServersClock,
    /// By lock.
    keys: Vec<Key>,
    state: Mutex<State<S>>,
}

pub(super) struct State<S: Server> {
    server: S,
    pub(super) dice: Dice,
    /// By machine.
    pub(super) inboxes: Vec<Option<Arc<Inbox<S::Push>>>>,
    /// What goes wrong now.
    pub(super) faults: Vec<Fault>,
    /// Machines that have had their last word.
    pub(super) silenced: Vec<Machine>,
    pub(super) tally: Tally,
    /// Which call an owner belongs to, from what has arrived.
    calls: HashMap<OwnerBytes, CallId>,
    /// In which session a call last asked.
    seats: HashMap<CallId, SessionId>,
    /// By machine: the session in which it last asked.
    sessions: Vec<Option<SessionId>>,
    /// By lock.
    holders: Vec<Option<CallId>>,
    /// From whom those who revoked a lock have what is left of its lease.
    deprived: HashMap<CallId, Holder>,
    /// When the server looks next for what has run out.
    bell: Option<Micros>,
}

impl<S: Family> World<S> {
    pub(super) fn new(timeline: Timeline, log: Log, locks: usize, mut dice: Dice) -> Arc<World<S>> {
        let clock = ServersClock::new(timeline.clone(), &mut dice);
        let state = State {
            server: S::begin(clock.now()),
            dice,
            inboxes: (0..MACHINES).map(|_| None).collect(),
            faults: Vec::new(),
            silenced: Vec::new(),
            tally: Tally::default(),
            calls: HashMap::new(),
            seats: HashMap::new(),
            sessions: vec![None; MACHINES],
            holders: vec![None; locks],
            deprived: HashMap::new(),
            bell: None,
        };
        let keys = NAMES[..locks].iter().map(|name| Key::from(*name)).collect();
        Arc::new(World { timeline, log, clock, keys, state: Mutex::new(state) })
    }

    /// What has happened so often.
    pub(super) fn tally(&self) -> Tally {
        self.state().tally
    }

    // ---- faults -----------------------------------------------------------------------------------------------------

    /// Lets something go wrong when its time has come.
    pub(super) fn plan(self: &Arc<Self>, fault: Fault) {
        let world = self.clone();
        self.timeline.at(fault.begins, None, move || world.begin(fault));
    }

    fn begin(self: &Arc<Self>, fault: Fault) {
        // Who took a killed process's place is left alone.
        if matches!(fault.kind, Kind::Death(machine) if machine >= CLIENTS || self.timeline.is_killed(machine))
        {
            return;
        }
        self.log.write(What::Begins(fault));
        self.state().faults.push(fault);
        match fault.kind {
            Kind::Pause(machine) => self.timeline.stop(machine, fault.ends),
            Kind::Death(machine) => self.timeline.kill(machine),
            Kind::ServerPause => self.timeline.stop(SERVER, fault.ends),
            Kind::Step(by) => self.step(by),
            Kind::LeaseEnd(lock) => self.end_lease(lock),
            Kind::SessionEnd(machine) => self.end_session(machine),
            Kind::Wipe => self.wipe(),
            Kind::Loss | Kind::Delay | Kind::Doubling | Kind::Partition(_) => {}
            Kind::ProofsLost(_) | Kind::ProofsLate(_) | Kind::LastWord(_) => {}
        }
        let world = self.clone();
        self.timeline.at(fault.ends, None, move || world.end_fault(fault));
    }

    fn end_fault(self: &Arc<Self>, fault: Fault) {
        self.log.write(What::Over(fault));
        self.state().faults.retain(|on| *on != fault);
        if let Kind::Partition(machine) | Kind::LastWord(machine) = fault.kind {
            self.state().silenced.retain(|silenced| *silenced != machine);
            // What a connection notices when it is made again.
            self.push(machine, Pushed::Gap);
        }
    }

    /// A clock that is set forward ends leases early, or may.
    fn step(self: &Arc<Self>, by: i64) {
        let now = self.clock.now();
        let holders: Vec<Holder> = self.locks().filter_map(|lock| self.look(lock, now)).collect();
        self.clock.step(by);
        if by > 0 {
            holders.into_iter().for_each(|holder| self.is_shortened(holder));
        }
    }

    fn end_lease(self: &Arc<Self>, lock: LockId) {
        let request = S::end_lease(self.keys[lock].clone());
        let ended = self.interfere(|server, now| server.handle(now, NOBODY, request).pushes);
        self.count_if(ended > 0, Occurrence::LeaseEnded);
    }

    fn end_session(self: &Arc<Self>, machine: Machine) {
        let now = self.clock.now();
        let Some(session) = self.state().sessions[machine] else { return };
        let Some(request) = S::end_session(session) else { return };
        let waited = {
            let mut state = self.state();
            let waiting: Vec<CallId> =
                self.keys.iter().flat_map(|key| state.server.waiting(now, key.clone())).collect();
            waiting.iter().any(|call| state.seats.get(call) == Some(&session))
        };
        let ended = self.interfere(|server, now| server.handle(now, NOBODY, request).pushes);
        self.count_if(waited, Occurrence::SessionEndedWaiting);
        self.count_if(ended > 0, Occurrence::SessionEndedHolding);
    }

    /// As a restart without its data does.
    fn wipe(self: &Arc<Self>) {
        let ended = self.interfere(|server, now| {
            *server = S::begin(now);
            Vec::new()
        });
        self.count_if(ended > 0, Occurrence::Wiped);
        (0..MACHINES).for_each(|machine| self.push(machine, Pushed::Gap));
    }

    /// Does something to the server past the network, and answers how many locks lost their holders by that.
    fn interfere(
        self: &Arc<Self>,
        deed: impl FnOnce(&mut S, ServerTime) -> Vec<(ClientId, S::Push)>,
    ) -> usize {
        let now = self.clock.now();
        self.expire();
        let before: Vec<_> = self.locks().map(|lock| self.look(lock, now)).collect();
        let pushes = deed(&mut self.state().server, now);
        self.deliver(pushes);
        let mut ended = 0;
        for (lock, before) in before.into_iter().enumerate() {
            if let Some(before) = before.filter(|before| self.look(lock, now) != Some(*before)) {
                self.is_shortened(before);
                ended += 1;
            }
        }
        self.set_bell();
        ended
    }

    /// What this call was granted may end early; and so may what it was granted who was deprived of it.
    fn is_shortened(&self, holder: Holder) {
        let mut next = Some(holder);
        while let Some(Holder { call, token }) = next {
            self.log.write(What::Shortened { call, token });
            next = self.state().deprived.remove(&call);
        }
    }

    fn count_if(&self, happened: bool, what: Occurrence) {
        if happened {
            self.state().tally.count(what);
        }
    }

    // ---- requests ---------------------------------------------------------------------------------------------------

    pub(super) fn arrive(
        self: &Arc<Self>,
        from: Machine,
        request: S::Request,
        deed: &Deed,
        answered: Option<Answered<S>>,
    ) {
        let now = self.clock.now();
        self.expire();
        let before = self.before(from, deed, now);
        let Handled { answer, pushes } = self.state().server.handle(now, client_id(from), request);
        self.deliver(pushes);
        self.after(deed, before, &answer, now);
        if let Some(answered) = answered {
            self.answer(from, &Reply { now, answer }, deed, &answered);
        }
        self.set_bell();
    }

    /// Who holds the lock before this is done. Somebody's lease may have ended unnoticed.
    fn before(&self, from: Machine, deed: &Deed, now: ServerTime) -> Option<Holder> {
        match deed {
            Deed::Attempt { lock, owner, call, session } => {
                self.attempts(from, owner, *call, *session);
                self.look(*lock, now)
            }
            Deed::Release { lock, .. } | Deed::Revoke { lock, .. } => self.look(*lock, now),
            Deed::Proof | Deed::Close | Deed::Nothing => None,
        }
    }

    fn attempts(&self, from: Machine, owner: &OwnerBytes, call: CallId, session: Option<SessionId>) {
        let mut state = self.state();
        state.calls.insert(owner.clone(), call);
        let Some(session) = session else { return };
        state.sessions[from] = Some(session);
        if state.seats.insert(call, session).is_some_and(|seat| seat != session) {
            state.tally.count(Occurrence::SessionMoved);
        }
    }

    fn after(&self, deed: &Deed, before: Option<Holder>, answer: &S::Answer, now: ServerTime) {
        match deed {
            Deed::Attempt { lock, .. } => _ = self.look(*lock, now),
            Deed::Release { lock, owner } => {
                let after = self.look(*lock, now).map(|holder| holder.call);
                let of = self.state().calls.get(owner).copied();
                let before = before.map(|holder| holder.call);
                self.log.write(What::ReleaseArrived { of, before, after });
            }
            Deed::Revoke { lock, when } => {
                let heir = self.look(*lock, now);
                if let Some(before) = before.filter(|_| S::has_revoked(answer)) {
                    self.is_revoked(before, heir, *when);
                }
            }
            Deed::Close => self.locks().for_each(|lock| _ = self.look(lock, now)),
            Deed::Proof | Deed::Nothing => {}
        }
    }

    fn is_revoked(&self, before: Holder, heir: Option<Holder>, when: When) {
        match (when, heir) {
            (When::HoldersDeadline, Some(heir)) => {
                let mut state = self.state();
                state.tally.count(Occurrence::RevokedAtDeadline);
                state.deprived.insert(heir.call, before);
            }
            _ => {
                self.count_if(true, Occurrence::RevokedNow);
                self.is_shortened(before);
            }
        }
    }

    // ---- the server -------------------------------------------------------------------------------------------------

    /// Looks at the server, past the network, and writes down whom it has.
    fn look(&self, lock: LockId, now: ServerTime) -> Option<Holder> {
        let mut state = self.state();
        let holder = state.server.holder(now, self.keys[lock].clone());
        let call = holder.map(|holder| holder.call);
        if state.holders[lock] != call {
            state.holders[lock] = call;
            self.log.write(What::Holder { lock, call });
        }
        holder
    }

    fn locks(&self) -> impl Iterator<Item = LockId> + use<S> {
        0..self.keys.len()
    }

    fn expire(self: &Arc<Self>) {
        let now = self.clock.now();
        let pushes = self.state().server.expire(now);
        if !pushes.is_empty() {
            self.locks().for_each(|lock| _ = self.look(lock, now));
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
        self.timeline.at(at, Some(SERVER), move || {
            world.state().bell = None;
            world.expire();
            world.set_bell();
        });
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State<S>> {
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
