//! The guarantees of this set or server, cached so that reading them costs no request.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use lock_core::Info;
use lock_core::driver::{Fencing, Lease, Lists, Takeovers, Wakes};
use lock_core::toolkit::Prefix;

use crate::link::Namespace;
use crate::statements::KEPT;

/// The kind of server that answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    ReplicaSet,
    Standalone,
    Sharded,
}

/// The driver's [`Info`]. It changes when the server turns out to be another one or of another kind.
#[derive(Debug)]
pub(crate) struct Profile {
    state: RwLock<State>,
    /// The collection, and the prefix of the names in it.
    place: String,
}

#[derive(Debug)]
struct State {
    kind: Option<Kind>,
    /// The server refuses change streams to this user.
    streams_refused: bool,
    /// The identifier of the primary's process: each start of a server has another one.
    process: Option<String>,
    info: Arc<Info>,
}

const MIN_TTL: Duration = Duration::from_millis(100);
const MAX_TTL: Duration = Duration::from_secs(365 * 24 * 3600);

const CLOCK: &str = "the wall clock of the primary (of the standalone server). Two holders are possible for the time by \
    which it is set forward, or by which a new primary's clock is ahead of the old one's. Its rate and the client's must \
    agree within 1 % (chrony: maxslewrate 5000 at most)";

impl Profile {
    pub(crate) fn new(address: String, namespace: &Namespace, prefix: &Prefix) -> Profile {
        let Namespace { database, collection } = namespace;
        let info = Arc::new(describe(address, None, false));
        Profile {
            state: RwLock::new(State { kind: None, streams_refused: false, process: None, info }),
            // Quoted, because a collection's name may contain any character.
            place: format!("{database:?}.{collection:?} {}", prefix.as_str()),
        }
    }

    pub(crate) fn get(&self) -> Arc<Info> {
        self.state.read().unwrap_or_else(PoisonError::into_inner).info.clone()
    }

    pub(crate) fn kind(&self) -> Option<Kind> {
        self.state.read().unwrap_or_else(PoisonError::into_inner).kind
    }

    /// Records which kind of server answers.
    pub(crate) fn learn(&self, kind: Kind) {
        self.change(|state| state.kind = Some(kind));
    }

    /// Records whether a change stream was opened or refused.
    pub(crate) fn learn_wakes(&self, wakes: Wakes) {
        self.change(|state| state.streams_refused = wakes == Wakes::Polled);
    }

    /// Records which process the primary is; `None` if its answer does not say.
    pub(crate) fn learn_process(&self, process: Option<String>) {
        self.change(|state| state.process = process);
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        let before = (state.kind, state.streams_refused, state.process.clone());
        change(&mut state);
        if before != (state.kind, state.streams_refused, state.process.clone()) {
            let identity = state.process.as_ref().map(|process| format!("{process} {}", self.place));
            let mut info = describe(state.info.server.clone(), state.kind, state.streams_refused);
            info.identity = identity;
            state.info = Arc::new(info);
        }
    }
}

fn describe(server: String, kind: Option<Kind>, streams_refused: bool) -> Info {
    let clock_step = Duration::from_millis(KEPT.unsigned_abs());
    let (fencing, data_loss) = match kind {
        Some(Kind::Standalone) => (
            Fencing::WhileDataIsKept {
                clock_step,
                kept: "a standalone server acknowledges what is in its journal; after a loss of its data tokens still \
                       rise unless its clock is behind the last token"
                    .to_owned(),
            },
            "a standalone server that loses its data frees every lock; the holders are told at their next renewal. An \
             attempt that arrives late is refused by its deadline alone",
        ),
        _ => (
            Fencing::WhileAMajorityKeepsItsData {
                clock_step,
                and: "the set is not reconfigured by force".to_owned(),
            },
            "a grant, a renewal and a release count when a majority of the set has them in its journals; a minority \
             may be lost. A set without a majority grants nothing",
        ),
    };
    let pushed = kind != Some(Kind::Standalone) && !streams_refused;
    let mut info = Info::new("mongodb", server, fencing, Lease::Lock, MIN_TTL..=MAX_TTL);
    info.wakes = if pushed { Wakes::Pushed } else { Wakes::Polled };
    info.lists = Lists::Held;
    info.takeovers = Takeovers::InOneRequest;
    info.clock = CLOCK;
    info.data_loss = data_loss.to_owned();
    info.requests_per_hand_over = 2;
    info
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn info_follows_what_answers() {
        let namespace = Namespace { database: "app".into(), collection: "c".into() };
        let profile = Profile::new("h:1".into(), &namespace, &Prefix::new("p:").unwrap());
        profile.learn(Kind::Standalone);
        assert_eq!(profile.get().wakes, Wakes::Polled);
        assert!(matches!(profile.get().fencing, Fencing::WhileDataIsKept { .. }));
        profile.learn(Kind::ReplicaSet);
        assert_eq!((profile.get().wakes, profile.get().server.as_str()), (Wakes::Pushed, "h:1"));
        assert!(matches!(profile.get().fencing, Fencing::WhileAMajorityKeepsItsData { .. }));
        profile.learn_wakes(Wakes::Polled);
        assert_eq!(profile.get().wakes, Wakes::Polled);
        profile.learn_process(Some("f00d".into()));
        profile.learn_wakes(Wakes::Pushed);
        assert_eq!(profile.get().wakes, Wakes::Pushed);
        assert_eq!(profile.get().identity.as_deref(), Some("f00d \"app\".\"c\" p:"));
        profile.learn_process(None);
        assert_eq!(profile.get().identity, None, "the present server does not say which one it is");
    }
}
