//! Records what servers end early, and logs whose holds that shortens.

use super::cut::{Change, Claimed};
use super::families::{Family, Holder, Part};
use super::ids::LockId;
use super::log::What;
use super::timeline::Micros;
use super::world::World;

impl<S: Family> World<S> {
    /// Records that a server ended this early, or may end it early.
    pub(super) fn record_cut(&self, lock: LockId, part: Part) {
        let claimed = Claimed::new(lock, part, self.timeline.now());
        self.state().cuts.add_cut(claimed);
        self.judge_cuts();
    }

    /// Records that a server has forgotten this.
    pub(super) fn record_forgotten(&self, lock: LockId, part: Part) {
        let claimed = Claimed::new(lock, part, self.timeline.now());
        self.state().cuts.add_forgotten(claimed);
    }

    /// Logs which calls' holds may end early from now on, and which no longer may.
    pub(super) fn judge_cuts(&self) {
        if self.state().cuts.is_empty() {
            return;
        }
        let parts: Vec<Vec<Part>> = self.locks().map(|lock| self.parts(lock)).collect();
        let (now, servers) = (self.timeline.now(), self.clocks.len());
        let changes = self.state().cuts.changes(now, &parts, servers);
        for change in changes {
            match change {
                Change::Shortened(Claimed { call, token, until, .. }) => {
                    self.log_shortened(Holder { call, token }, until);
                }
                Change::Restored(call) => self.log.write(What::Restored { call }),
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
