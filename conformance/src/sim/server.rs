//! The server, as the simulation has it: what arrives there, and whom it has.

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
use super::families::{Deed, Family, Holder};
use super::faults::Fault;
use super::log::{CallId, LockId, Log, What};
use super::network::Answered;
use super::tally::{Occurrence, Tally};
use super::timeline::{Machine, Micros, Timeline};
use super::{MACHINES, NAMES, SERVER};

/// A server and its network.
pub(super) struct World<S: Server> {
    pub(super) timeline: Timeline,
    pub(super) log: Log,
    pub(super) clock: ServersClock,
    /// By lock.
    pub(super) keys: Vec<Key>,
    state: Mutex<State<S>>,
}

pub(super) struct State<S: Server> {
    pub(super) server: S,
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
    pub(super) seats: HashMap<CallId, SessionId>,
    /// By machine: the session in which it last asked.
    pub(super) sessions: Vec<Option<SessionId>>,
    /// By lock.
    holders: Vec<Option<CallId>>,
    /// From whom those who revoked a lock have what is left of its lease.
    pub(super) deprived: HashMap<CallId, Holder>,
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
        match when {
            When::HoldersDeadline => {
                let mut state = self.state();
                state.tally.count(Occurrence::RevokedAtDeadline);
                heir.into_iter().for_each(|heir| _ = state.deprived.insert(heir.call, before));
            }
            When::Now => {
                self.count_if(true, Occurrence::RevokedNow);
                self.is_shortened(before);
            }
        }
    }

    // ---- the server -------------------------------------------------------------------------------------------------

    /// Looks at the server, past the network, and writes down whom it has.
    pub(super) fn look(&self, lock: LockId, now: ServerTime) -> Option<Holder> {
        let mut state = self.state();
        let holder = state.server.holder(now, self.keys[lock].clone());
        let call = holder.map(|holder| holder.call);
        if state.holders[lock] != call {
            state.holders[lock] = call;
            self.log.write(What::Holder { lock, call });
        }
        holder
    }

    pub(super) fn locks(&self) -> impl Iterator<Item = LockId> + use<S> {
        0..self.keys.len()
    }

    pub(super) fn expire(self: &Arc<Self>) {
        let now = self.clock.now();
        let pushes = self.state().server.expire(now);
        if !pushes.is_empty() {
            self.locks().for_each(|lock| _ = self.look(lock, now));
            self.deliver(pushes);
        }
    }

    pub(super) fn deliver(self: &Arc<Self>, pushes: Vec<(ClientId, S::Push)>) {
        for (to, push) in pushes {
            self.push(machine(to), Pushed::Push(push));
        }
    }

    /// Sees to it that the server looks when something runs out.
    pub(super) fn set_bell(self: &Arc<Self>) {
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
