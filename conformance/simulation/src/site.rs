//! The site of a history, which all its callers share.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use lock_core::{Fence, FencingToken};
use tokio::sync::Notify;

use super::faults::Fault;
use super::history::Script;
use super::ids::{CallId, LockId};
use super::log::{Log, What};
use super::setting::{MACHINES, NAMES};
use super::timeline::{Machine, Timeline};

pub(super) struct Site {
    pub(super) timeline: Timeline,
    pub(super) log: Log,
    /// The number of locks.
    pub(super) locks: usize,
    pub(super) script: Script,
    /// Schedules a fault.
    schedule_fault: Box<dyn Fn(Fault)>,
    calls: Cell<CallId>,
    /// By lock: the resource that it protects.
    fences: Vec<Arc<Fence>>,
    /// By machine and lock: notifies holders that they must look at their guards, because another call was granted the
    /// lock.
    looks: Vec<[Notify; NAMES.len()]>,
}

impl Site {
    pub(super) fn new(
        timeline: Timeline,
        log: Log,
        locks: usize,
        script: Script,
        schedule_fault: impl Fn(Fault) + 'static,
    ) -> Rc<Site> {
        Rc::new(Site {
            timeline,
            log,
            locks,
            script,
            schedule_fault: Box::new(schedule_fault),
            calls: Cell::new(0),
            fences: (0..locks).map(|_| Arc::default()).collect(),
            looks: (0..MACHINES).map(|_| [const { Notify::const_new() }; NAMES.len()]).collect(),
        })
    }

    pub(super) fn next_call(&self) -> CallId {
        self.calls.replace(self.calls.get() + 1)
    }

    pub(super) fn schedule_fault(&self, fault: Fault) {
        (self.schedule_fault)(fault);
    }

    /// Makes all holders of a lock look at their guards, because a call was granted it: no overlap stays unseen.
    pub(super) fn wake_holders(&self, lock: LockId) {
        for (machine, looks) in self.looks.iter().enumerate() {
            // A machine that stands still looks when it goes on.
            if !self.timeline.is_stopped(machine) {
                looks[lock].notify_waiters();
            }
        }
    }

    /// Resolves when a holder on this machine is to look at its guard.
    pub(super) async fn look(&self, machine: Machine, lock: LockId) {
        self.looks[machine][lock].notified().await;
    }

    /// Sends a write that arrives at the resource after `takes` microseconds.
    pub(super) fn write(&self, lock: LockId, call: CallId, token: FencingToken, takes: u64) {
        let (fence, log) = (self.fences[lock].clone(), self.log.clone());
        self.timeline.at(self.timeline.now() + takes, None, move || {
            let accepted = fence.accept(token).is_ok();
            log.write(What::Wrote { call, token: token.get(), accepted });
        });
    }
}
