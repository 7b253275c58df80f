//! The state of the simulated servers and of the network between them and their clients.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lock_core::OwnerBytes;
use lock_memory::ServerTime;
use lock_memory::server::queue::SessionId;
use lock_memory::server::{Key, Server};
use lock_memory::wire::Inbox;

use super::clocks::ServersClock;
use super::cut::Cuts;
use super::dice::Dice;
use super::families::{Family, Holder};
use super::faults::{Fault, FaultProfile};
use super::ids::{CallId, LockId};
use super::log::Log;
use super::rules::WakesBy;
use super::setting::{MACHINES, NAMES};
use super::tally::Tally;
use super::timeline::{Machine, Micros, Timeline};

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
    pub(super) calls: HashMap<OwnerBytes, CallId>,
    /// By call: the session in which it last asked.
    pub(super) call_sessions: HashMap<CallId, SessionId>,
    /// By machine: the session in which it last asked.
    pub(super) sessions: Vec<Option<SessionId>>,
    /// By lock: the holder.
    pub(super) holders: Vec<Option<CallId>>,
    /// By lock: the calls that have it on any of several servers.
    pub(super) parts: Vec<Vec<CallId>>,
    /// By lock: the calls that have a place in its queue.
    pub(super) places: Vec<Vec<CallId>>,
    /// The grants of which a release has come to one of several servers, and to which.
    pub(super) releases: BTreeSet<(u64, usize)>,
    pub(super) cuts: Cuts,
    pub(super) wakes: WakesBy,
    /// By call that has revoked a lock: the holder whose remaining lease it has.
    pub(super) revoked_from: HashMap<CallId, Holder>,
    /// When the server next looks for what has expired.
    pub(super) next_expiry_look: Option<Micros>,
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

    /// Returns the time of each server.
    pub(super) fn now(&self) -> Vec<ServerTime> {
        self.clocks.iter().map(ServersClock::now).collect()
    }

    pub(super) fn locks(&self) -> impl Iterator<Item = LockId> + use<S> {
        0..self.keys.len()
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State<S>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
