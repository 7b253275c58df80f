//! The simulated servers: what arrives there, and which holders they have.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lock_core::OwnerBytes;
use lock_core::driver::When;
use lock_memory::ServerTime;
use lock_memory::server::queue::SessionId;
use lock_memory::server::{ClientId, Handled, Key, Server};
use lock_memory::wire::{Inbox, Pushed, Reply};

use super::check::at_most;
use super::clocks::ServersClock;
use super::cut::Cuts;
use super::dice::Dice;
use super::families::{Family, Holder, Part, RequestKind};
use super::faults::{Fault, FaultProfile};
use super::log::{CallId, Fate, LockId, Log, WakesBy, What};
use super::network::Answered;
use super::tally::{Occurrence, Tally, micros};
use super::timeline::{Machine, Micros, Timeline};
use super::{LONGEST_TTL, MACHINES, NAMES, SERVER, TTL};

/// The servers and their network.
pub(super) struct World<S: Server> {
    pub(super) timeline: Timeline,
    pub(super) log: Log,
    /// By server.
    pub(super) clocks: Vec<ServersClock>,
    /// By lock.
    pub(super) keys: Vec<Key>,
    state: Mutex<State<S>>,
}

pub(super) struct State<S: Server> {
    pub(super) server: S,
    pub(super) dice: Dice,
    /// By machine.
    pub(super) inboxes: Vec<Option<Arc<Inbox<S::Push>>>>,
    /// The faults that last now.
    pub(super) faults: Vec<Fault>,
    /// When the last scheduled fault will be over.
    pub(super) troubled_until: Micros,
    /// Machines that were cut off by a `LastWord` fault after their last message.
    pub(super) silenced: Vec<Machine>,
    pub(super) tally: Tally,
    /// By owner: the call that it belongs to, as learned from attempts that have arrived.
    calls: HashMap<OwnerBytes, CallId>,
    /// By call: the session in which it last asked.
    pub(super) call_sessions: HashMap<CallId, SessionId>,
    /// By machine: the session in which it last asked.
    pub(super) sessions: Vec<Option<SessionId>>,
    /// By lock: the holder.
    holders: Vec<Option<CallId>>,
    /// By lock: the calls that have it on any of several servers.
    parts: Vec<Vec<CallId>>,
    /// By lock: the calls that have a place in its queue.
    places: Vec<Vec<CallId>>,
    /// The grants of which a release has come to one of several servers, and to which.
    releases: BTreeSet<(u64, usize)>,
    pub(super) cuts: Cuts,
    pub(super) wakes: WakesBy,
    /// By call that has revoked a lock: the holder whose remaining lease it has.
    pub(super) revoked_from: HashMap<CallId, Holder>,
    /// When the server next looks for what has expired.
    next_expiry_look: Option<Micros>,
}

impl<S: Family> World<S> {
    pub(super) fn new(
        timeline: Timeline,
        log: Log,
        (servers, locks): (usize, usize),
        profile: FaultProfile,
        wakes: WakesBy,
        mut dice: Dice,
    ) -> Arc<World<S>> {
        let clocks = ServersClock::of_all(&timeline, servers, profile, &mut dice);
        let now: Vec<ServerTime> = clocks.iter().map(ServersClock::now).collect();
        let state = State {
            server: S::begin(&now),
            dice,
            inboxes: (0..MACHINES).map(|_| None).collect(),
            faults: Vec::new(),
            troubled_until: 0,
            silenced: Vec::new(),
            tally: Tally::default(),
            calls: HashMap::new(),
            call_sessions: HashMap::new(),
            sessions: vec![None; MACHINES],
            holders: vec![None; locks],
            parts: vec![Vec::new(); locks],
            places: vec![Vec::new(); locks],
            releases: BTreeSet::new(),
            cuts: Cuts::default(),
            wakes,
            revoked_from: HashMap::new(),
            next_expiry_look: None,
        };
        let keys = NAMES[..locks].iter().map(|name| Key::from(*name)).collect();
        Arc::new(World { timeline, log, clocks, keys, state: Mutex::new(state) })
    }

    /// Returns how often each occurrence has happened.
    pub(super) fn tally(&self) -> Tally {
        self.state().tally
    }

    pub(super) fn wakes(&self) -> WakesBy {
        self.state().wakes
    }

    // ---- requests ---------------------------------------------------------------------------------------------------

    pub(super) fn arrive(
        self: &Arc<Self>,
        from: Machine,
        request: S::Request,
        request_kind: &RequestKind,
        answered: Option<Answered<S>>,
    ) {
        let place = S::place(&request);
        let now = self.clocks[place].now();
        self.expire();
        let before = self.before(from, request_kind);
        let is_of_the_hold = self.state().server.is_of_the_hold(&self.now(), &request);
        let released_grant = S::released_grant(&request);
        let Handled { answer, pushes } = self.state().server.handle(now, client_id(from), request);
        self.deliver(place, pushes);
        if let Some(grant) = released_grant {
            self.part_is_released(request_kind, (grant, place), &answer);
        }
        let ends = is_of_the_hold && S::has_released(&answer);
        self.after(request_kind, before, &answer, ends);
        self.judge_cuts();
        if let Some(left) = S::sits_out(&answer) {
            let until = self.timeline.now() + at_most(micros(left));
            self.log.write(What::Missed { client: from, server: place, fate: Fate::NoVote { until } });
        }
        if let Some(answered) = answered {
            self.answer((place, from), &Reply { now, answer }, request_kind, &answered);
        }
        self.schedule_expiry_look();
    }

    /// Returns who held the lock right before this request. Looks at the server, because a lease may have ended without
    /// an entry in the log.
    fn before(&self, from: Machine, request_kind: &RequestKind) -> Option<Holder> {
        match request_kind {
            RequestKind::Attempt { lock, owner, call, session } => {
                self.attempts(from, owner, *call, *session);
                self.look(*lock)
            }
            RequestKind::Release { lock, .. } | RequestKind::Revoke { lock, .. } => self.look(*lock),
            RequestKind::Proof | RequestKind::Look { .. } | RequestKind::Close | RequestKind::Nothing => None,
        }
    }

    fn attempts(&self, from: Machine, owner: &OwnerBytes, call: CallId, session: Option<SessionId>) {
        let mut state = self.state();
        state.calls.insert(owner.clone(), call);
        let Some(session) = session else { return };
        state.sessions[from] = Some(session);
        if state.call_sessions.insert(call, session).is_some_and(|earlier| earlier != session) {
            state.tally.count(Occurrence::SessionMoved);
        }
    }

    /// What has been done is written down. Of several servers, the first that gives up a hold `ends` it.
    fn after(&self, request_kind: &RequestKind, before: Option<Holder>, answer: &S::Answer, ends: bool) {
        match request_kind {
            RequestKind::Attempt { lock, .. } | RequestKind::Look { lock } => _ = self.look(*lock),
            RequestKind::Release { lock, owner } => {
                let of = self.state().calls.get(owner).copied();
                let after = self.look(*lock).map(|holder| holder.call);
                let after = after.filter(|after| !(of == Some(*after) && ends));
                let before = before.map(|holder| holder.call);
                let gives_back = before != after && before != of && self.first_of(before) == of;
                if let Some(call) = of.filter(|_| gives_back) {
                    self.state().tally.count(Occurrence::GivenBack);
                    self.log.write(What::GivenBack { call });
                }
                let before = if gives_back { of } else { before };
                self.log.write(What::ReleaseArrived { of, before, after });
            }
            RequestKind::Revoke { lock, when } => {
                let successor = self.look(*lock);
                if let Some(before) = before.filter(|_| S::has_revoked(answer)) {
                    self.is_revoked(*lock, before, successor, *when);
                }
            }
            RequestKind::Close => self.locks().for_each(|lock| _ = self.look(lock)),
            RequestKind::Proof | RequestKind::Nothing => {}
        }
    }

    /// A release has come to one of several servers. Of those for one grant, only the first is written down.
    fn part_is_released(
        &self,
        request_kind: &RequestKind,
        (grant, server): (u64, usize),
        answer: &S::Answer,
    ) {
        let RequestKind::Release { owner, .. } = request_kind else { return };
        let mut state = self.state();
        let call = state.calls.get(owner).copied();
        let is_first = state.releases.insert((grant, server));
        if let Some(call) = call.filter(|_| is_first && S::has_released(answer)) {
            self.log.write(What::PartReleased { call, grant, server });
        }
    }

    /// Returns the first holder in the chain of revokes that led to this call: each call of the chain has revoked the
    /// lock from the one before it. A call that has revoked nothing is its own.
    fn first_of(&self, call: Option<CallId>) -> Option<CallId> {
        let revoked_from = &self.state().revoked_from;
        let next = |call: &CallId| revoked_from.get(call).map(|before| before.call);
        std::iter::successors(call, next).last()
    }

    fn is_revoked(&self, lock: LockId, before: Holder, successor: Option<Holder>, when: When) {
        match when {
            When::HoldersDeadline => {
                let mut state = self.state();
                state.tally.count(Occurrence::RevokedAtDeadline);
                successor
                    .into_iter()
                    .for_each(|successor| _ = state.revoked_from.insert(successor.call, before));
            }
            When::Now => {
                self.count_if(true, Occurrence::RevokedNow);
                let Holder { call, token } = before;
                self.is_cut(lock, Part { place: 0, call, grant: token, token, left: LONGEST_TTL });
            }
        }
    }

    // ---- the server -------------------------------------------------------------------------------------------------

    /// Returns the time of each server.
    pub(super) fn now(&self) -> Vec<ServerTime> {
        self.clocks.iter().map(ServersClock::now).collect()
    }

    /// Looks at the servers directly, without the network. Logs which holder, parts and places they have if that has
    /// changed, and returns the holder.
    pub(super) fn look(&self, lock: LockId) -> Option<Holder> {
        let now = self.now();
        let mut state = self.state();
        if self.clocks.len() > 1 {
            let parts = state.server.parts(&now, self.keys[lock].clone());
            let calls: BTreeSet<CallId> = parts.into_iter().map(|part| part.call).collect();
            let calls: Vec<CallId> = calls.into_iter().collect();
            if state.parts[lock] != calls {
                self.log.write(What::Parts { lock, calls: calls.clone() });
                state.parts[lock] = calls;
            }
        }
        let holder = state.server.holder(&now, self.keys[lock].clone());
        let call = holder.map(|holder| holder.call);
        if S::KEEPS_PLACES {
            let waiting = state.server.waiting(&now, self.keys[lock].clone());
            let places: Vec<CallId> = call.into_iter().chain(waiting).collect();
            if state.places[lock] != places {
                self.log.write(What::Places { lock, calls: places.clone() });
                state.places[lock] = places;
            }
        }
        if state.holders[lock] != call {
            state.holders[lock] = call;
            self.log.write(What::Holder { lock, call });
        }
        holder
    }

    /// Returns the calls that have leases or places.
    pub(super) fn remains(&self, lock: LockId) -> Vec<CallId> {
        let parts: BTreeSet<CallId> = self.parts(lock).into_iter().map(|part| part.call).collect();
        let waiting = self.state().server.waiting(&self.now(), self.keys[lock].clone());
        parts.into_iter().chain(waiting).collect()
    }

    /// Returns when the last fault is over. A scheduled fault occurs even after all callers are done.
    pub(super) fn troubled_until(&self) -> Micros {
        self.state().troubled_until.max(self.timeline.now())
    }

    /// Returns when everything is over that was under way: all messages have arrived, second copies included, and the
    /// leases that they took have ended.
    pub(super) fn last_deadline(&self) -> Micros {
        let set_back: u64 = self.clocks.iter().map(ServersClock::set_back).sum();
        let lasts = micros(TTL) + at_most(micros(LONGEST_TTL) + set_back);
        (0..self.clocks.len()).map(|place| self.timeline.goes_on(SERVER + place)).max().unwrap_or(0) + lasts
    }

    pub(super) fn locks(&self) -> impl Iterator<Item = LockId> + use<S> {
        0..self.keys.len()
    }

    pub(super) fn expire(self: &Arc<Self>) {
        let pushes = self.state().server.expire(self.clocks[0].now());
        if !pushes.is_empty() {
            self.locks().for_each(|lock| _ = self.look(lock));
            self.deliver(0, pushes);
        }
    }

    pub(super) fn deliver(self: &Arc<Self>, from: usize, pushes: Vec<(ClientId, S::Push)>) {
        for (to, push) in pushes {
            self.push(from, machine(to), Pushed::Push(push));
        }
    }

    /// Schedules the server's next look for leases and sessions that have expired.
    pub(super) fn schedule_expiry_look(self: &Arc<Self>) {
        let mut state = self.state();
        let Some(next) = state.server.next_expiry() else { return };
        let at = self.clocks[0].when(next);
        if state.next_expiry_look.is_some_and(|look| look <= at) {
            return;
        }
        state.next_expiry_look = Some(at);
        drop(state);
        let world = self.clone();
        self.timeline.at(at, Some(SERVER), move || {
            world.state().next_expiry_look = None;
            world.expire();
            world.schedule_expiry_look();
        });
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State<S>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn client_id(machine: Machine) -> ClientId {
    // Zero is `SIMULATION`: the simulation itself, which looks at the server directly.
    ClientId(machine as u64 + 1)
}

fn machine(client: ClientId) -> Machine {
    client.0 as Machine - 1
}
