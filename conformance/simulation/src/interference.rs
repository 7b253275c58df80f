//! Applies faults to the machines, to the servers, and to what the servers have granted; logs whose holds end early by
//! that.

use std::sync::Arc;

use lock_memory::ServerTime;
use lock_memory::server::ClientId;
use lock_memory::wire::Pushed;

use super::cut::{Change, Claimed};
use super::families::{Family, Holder, Part, SIMULATION};
use super::faults::{Fault, Kind, Loss};
use super::ids::{CallId, LockId};
use super::log::What;
use super::setting::{CLIENTS, SERVER};
use super::tally::Occurrence;
use super::timeline::{Machine, Micros};
use super::world::World;

impl<S: Family> World<S> {
    /// Schedules a fault.
    pub(super) fn plan(self: &Arc<Self>, fault: Fault) {
        let world = self.clone();
        let mut state = self.state();
        state.troubled_until = state.troubled_until.max(fault.ends);
        drop(state);
        self.timeline.at(fault.begins, None, move || world.begin(fault));
    }

    fn begin(self: &Arc<Self>, fault: Fault) {
        // A process that took a killed one's place is not killed, and no process is killed twice.
        if matches!(fault.kind, Kind::Death(machine) if machine >= CLIENTS || self.timeline.is_killed(machine))
        {
            return;
        }
        self.log.write(What::Begins(fault));
        self.state().faults.push(fault);
        match fault.kind {
            Kind::Pause(machine) => self.timeline.stop(machine, fault.ends),
            Kind::Death(machine) => self.timeline.kill(machine),
            Kind::ServerPause(server) => self.timeline.stop(SERVER + server, fault.ends),
            Kind::Step(server, by) => self.step(server, by),
            Kind::LeaseEnd(lock) => self.end_lease(lock),
            Kind::SessionEnd(machine) => self.end_session(machine),
            Kind::Wipe(server, loss) => self.wipe(server, loss),
            Kind::Loss | Kind::Delay | Kind::Doubling => {}
            Kind::Partition(_) | Kind::ServerCut(_) => {}
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
            // A client notices the gap when it connects again.
            (0..self.clocks.len()).for_each(|server| self.push(server, machine, Pushed::Gap));
        }
        if let Kind::ServerCut(server) = fault.kind {
            (0..SERVER).for_each(|machine| self.push(server, machine, Pushed::Gap));
        }
    }

    /// Sets a server's clock. A clock that is set forward ends leases early, or may.
    fn step(self: &Arc<Self>, server: usize, by: i64) {
        let parts = self.all_parts();
        self.clocks[server].step(by);
        for (lock, parts) in parts.into_iter().enumerate() {
            let cut = parts.into_iter().filter(|part| by > 0 && part.place == server);
            cut.for_each(|part| self.record_cut(lock, part));
        }
    }

    fn end_lease(self: &Arc<Self>, lock: LockId) {
        let key = self.keys[lock].clone();
        let ended = self.interfere(|server, now| server.end_lease(now[0], key));
        self.count_if(ended > 0, Occurrence::LeaseEnded);
    }

    fn end_session(self: &Arc<Self>, machine: Machine) {
        let now = self.now();
        let Some(session) = self.state().sessions[machine] else { return };
        let Some(request) = S::end_session(session) else { return };
        let waited = {
            let mut state = self.state();
            let waiting: Vec<CallId> =
                self.keys.iter().flat_map(|key| state.server.waiting(&now, key.clone())).collect();
            waiting.iter().any(|call| state.call_sessions.get(call) == Some(&session))
        };
        let ended = self.interfere(|server, now| server.handle(now[0], SIMULATION, request).pushes);
        self.count_if(waited, Occurrence::SessionEndedWaiting);
        self.count_if(ended > 0, Occurrence::SessionEndedHolding);
    }

    /// Makes a server lose its data. Its connections end, too.
    fn wipe(self: &Arc<Self>, server: usize, loss: Loss) {
        let affected = match S::FORGETTING_ENDS_LEASES {
            true => self.interfere(|all, now| {
                all.forget(server, loss, now);
                Vec::new()
            }),
            false => {
                let held = self.locks().filter(|lock| self.look(*lock).is_some()).count();
                let parts = self.all_parts();
                self.state().server.forget(server, loss, &self.now());
                let now = self.timeline.now();
                self.for_each_lost(parts, |lock, part| {
                    self.state().cuts.add_forgotten(Claimed::new(lock, part, now));
                });
                self.judge_cuts();
                held
            }
        };
        self.count_if(affected > 0, Occurrence::Wiped);
        (0..SERVER).for_each(|machine| self.push(server, machine, Pushed::Gap));
    }

    /// Changes the servers directly, without the network, and returns how many grants were lost by that.
    fn interfere(
        self: &Arc<Self>,
        change: impl FnOnce(&mut S, &[ServerTime]) -> Vec<(ClientId, S::Push)>,
    ) -> usize {
        let now = self.now();
        self.expire();
        let before = self.all_parts();
        let pushes = change(&mut self.state().server, &now);
        self.deliver(0, pushes);
        let ended = self.for_each_lost(before, |lock, part| self.record_cut(lock, part));
        self.schedule_expiry_look();
        ended
    }

    /// Calls `then` with each part that the servers no longer have, and returns how many those are.
    fn for_each_lost(&self, before: Vec<Vec<Part>>, then: impl Fn(LockId, Part)) -> usize {
        let mut lost = 0;
        for (lock, before) in before.into_iter().enumerate() {
            let after = self.parts(lock);
            let has = |was: &Part| after.iter().any(|part| part.id() == was.id());
            for part in before.into_iter().filter(|was| !has(was)) {
                then(lock, part);
                lost += 1;
            }
        }
        lost
    }

    pub(super) fn count_if(&self, happened: bool, what: Occurrence) {
        if happened {
            self.state().tally.count(what);
        }
    }

    // ---- what servers end early --------------------------------------------------------------------------------------

    /// Records that a server ended this early, or may end it early.
    pub(super) fn record_cut(&self, lock: LockId, part: Part) {
        self.state().cuts.add_cut(Claimed::new(lock, part, self.timeline.now()));
        self.judge_cuts();
    }

    /// Logs which calls' holds may end early from now on, and which no longer may.
    pub(super) fn judge_cuts(&self) {
        if self.state().cuts.is_empty() {
            return;
        }
        let (now, parts, servers) = (self.timeline.now(), self.all_parts(), self.clocks.len());
        let changes = self.state().cuts.changes(now, &parts, servers);
        for change in changes {
            match change {
                Change::Shortened(Claimed { part, until, .. }) => {
                    self.log_shortened(Holder { call: part.call, token: part.token }, until);
                }
                Change::Restored(call) => self.log.write(What::Restored(call)),
            }
        }
    }

    /// Logs that this call's grant may end early. If the call had revoked the lock from a holder, that holder's grant
    /// may end early, too, and so on.
    fn log_shortened(&self, holder: Holder, until: Micros) {
        let mut next = Some(holder);
        while let Some(Holder { call, token }) = next {
            self.log.write(What::Shortened { call, token, until });
            next = self.state().revoked_from.get(&call).copied();
        }
    }
}
