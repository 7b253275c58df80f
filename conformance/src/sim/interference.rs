//! What goes wrong, done: to the machines, to the server, and to what it has granted.

use std::sync::Arc;

use lock_memory::ServerTime;
use lock_memory::server::ClientId;
use lock_memory::wire::Pushed;

use super::families::{Family, Holder, NOBODY};
use super::faults::{Fault, Kind};
use super::log::{CallId, LockId, What};
use super::server::World;
use super::tally::Occurrence;
use super::timeline::Machine;
use super::{CLIENTS, MACHINES, SERVER};

impl<S: Family> World<S> {
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
    pub(super) fn is_shortened(&self, holder: Holder) {
        let mut next = Some(holder);
        while let Some(Holder { call, token }) = next {
            self.log.write(What::Shortened { call, token });
            next = self.state().deprived.remove(&call);
        }
    }

    pub(super) fn count_if(&self, happened: bool, what: Occurrence) {
        if happened {
            self.state().tally.count(what);
        }
    }
}
