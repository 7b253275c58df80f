//! Applies faults to the machines, to the servers, and to what the servers have granted.

use std::sync::Arc;

use lock_memory::ServerTime;
use lock_memory::server::ClientId;
use lock_memory::wire::Pushed;

use super::families::{Family, Part, SIMULATION};
use super::faults::{Fault, Kind, Loss};
use super::ids::{CallId, LockId};
use super::log::What;
use super::setting::{CLIENTS, SERVER};
use super::tally::Occurrence;
use super::timeline::Machine;
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
        let parts: Vec<_> =
            self.locks().flat_map(|lock| self.parts(lock).into_iter().map(move |p| (lock, p))).collect();
        self.clocks[server].step(by);
        for (lock, part) in parts.into_iter().filter(|(_, part)| by > 0 && part.place == server) {
            self.record_cut(lock, part);
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
                let parts: Vec<_> = self.locks().map(|lock| self.parts(lock)).collect();
                let now = self.now();
                self.state().server.forget(server, loss, &now);
                self.for_each_lost(parts, |lock, part| self.record_forgotten(lock, part));
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
        let before: Vec<_> = self.locks().map(|lock| self.parts(lock)).collect();
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
            let same = |was: &Part, part: &Part| {
                (part.place, part.call, part.grant) == (was.place, was.call, was.grant)
            };
            let has = |was: &Part| after.iter().any(|part| same(was, part));
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
}
