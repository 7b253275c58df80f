//! The simulated servers: what arrives there, and which holders they have.

use std::collections::BTreeSet;
use std::sync::Arc;

use lock_core::OwnerBytes;
use lock_core::driver::When;
use lock_memory::server::queue::SessionId;
use lock_memory::server::{ClientId, Handled};
use lock_memory::wire::{Pushed, Reply};

use super::clocks::{ServersClock, at_most};
use super::families::{Family, Holder, Part, RequestKind};
use super::ids::{CallId, LockId};
use super::log::{Fate, What};
use super::network::Answered;
use super::setting::{LONGEST_TTL, SERVER, TTL};
use super::tally::Occurrence;
use super::timeline::{Machine, Micros, micros};
use super::world::World;

impl<S: Family> World<S> {
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
        let occurred = self.state().server.occurred();
        occurred.into_iter().for_each(|what| self.count_if(true, what));
        self.deliver(place, pushes);
        if let Some(grant) = released_grant {
            self.part_is_released(request_kind, (grant, place), &answer);
        }
        let ends = is_of_the_hold && S::has_released(&answer);
        self.after(request_kind, before, &answer, ends);
        self.judge_cuts();
        if let Some(left) = S::sits_out(&answer) {
            let until = self.timeline.now() + at_most(micros(left));
            self.log.write(What::Missed { client: from, server: place, fate: Fate::NoVote(until) });
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
            RequestKind::Takeover { lock, owner, call, .. } => {
                self.attempts(from, owner, *call, None);
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

    /// Writes down the effect of a request. Of several servers, the first that gives up a hold `ends` it.
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
                    self.log.write(What::GivenBack(call));
                }
                let before = if gives_back { of } else { before };
                self.log.write(What::ReleaseArrived { of, before, after });
            }
            RequestKind::Takeover { lock, call, predecessor, .. } => {
                let of = self.state().calls.get(predecessor).copied();
                let before = before.map(|holder| holder.call);
                let after = self.look(*lock).map(|holder| holder.call);
                // One that has changed nothing was no release.
                if after == Some(*call) && before != after {
                    self.state().tally.count(Occurrence::Succeeded);
                    self.log.write(What::ReleaseArrived { of, before, after });
                }
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
                self.record_cut(lock, Part { place: 0, call, grant: token, token, left: LONGEST_TTL });
            }
        }
    }

    // ---- the server -------------------------------------------------------------------------------------------------

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

    /// Returns what the servers have granted of a lock, and logs changes of its holders.
    pub(super) fn parts(&self, lock: LockId) -> Vec<Part> {
        self.look(lock);
        let now = self.now();
        self.state().server.parts(&now, self.keys[lock].clone())
    }

    /// Returns what the servers have granted, by lock.
    pub(super) fn all_parts(&self) -> Vec<Vec<Part>> {
        self.locks().map(|lock| self.parts(lock)).collect()
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
}

fn client_id(machine: Machine) -> ClientId {
    // Zero is `SIMULATION`: the simulation itself, which looks at the server directly.
    ClientId(machine as u64 + 1)
}

fn machine(client: ClientId) -> Machine {
    client.0 as Machine - 1
}
