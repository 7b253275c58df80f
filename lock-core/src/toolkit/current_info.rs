//! A driver's `Info`, which changes when a connection shows something else.

use std::sync::{Arc, PoisonError, RwLock, RwLockWriteGuard};

use crate::driver::Info;

/// The [`Info`] of a driver, as the last connection showed it. Reading it takes no request.
///
/// Each change replaces it as a whole: a reader keeps the one that it has.
#[derive(Debug)]
pub struct CurrentInfo {
    info: RwLock<Arc<Info>>,
    /// The part before names on the server: a database or a table, and the prefix.
    place: String,
}

impl CurrentInfo {
    /// Starts with what is known before the first connection. `place` is what tells this client's names from others on
    /// the same server: the database or the table, and the prefix.
    pub fn new(info: Info, place: String) -> CurrentInfo {
        CurrentInfo { info: RwLock::new(Arc::new(info)), place }
    }

    /// Returns the present `Info`.
    pub fn get(&self) -> Arc<Info> {
        self.info.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces the present `Info` by a copy that `change` has changed.
    pub fn change(&self, change: impl FnOnce(&mut Info)) {
        let mut present = self.write();
        let info = Arc::make_mut(&mut present);
        change(info);
        info.clean_texts();
    }

    /// Records which server a new connection leads to, because it may be another one than before; `None` if the server
    /// does not say. The [identity](Info::identity) is made of that and of the place.
    pub fn learn_server(&self, server: Option<&str>) {
        let identity = self.identity(server);
        if self.get().identity != identity {
            self.change(|info| info.identity = identity);
        }
    }

    /// Notes the server as [`learn_server`](Self::learn_server), and replaces everything else by what
    /// `describe` makes of the present `Info`.
    pub fn learn(&self, server: Option<&str>, describe: impl FnOnce(&Info) -> Info) {
        let mut info = self.write();
        let mut learnt = Info { identity: self.identity(server), ..describe(&info) };
        learnt.clean_texts();
        *info = Arc::new(learnt);
    }

    fn identity(&self, server: Option<&str>) -> Option<String> {
        server.map(|server| format!("{server} {}", self.place))
    }

    fn write(&self) -> RwLockWriteGuard<'_, Arc<Info>> {
        // Code of the driver runs under this lock. If it panics, the present one is whole all the same.
        self.info.write().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::driver::{Fair, Fencing, Lease, Lists, Takeovers, Wakes};

    fn info() -> Info {
        Info {
            backend: "b",
            server: "h:1".into(),
            identity: None,
            fencing: Fencing::Always,
            lease: Lease::Lock,
            fair: Fair::No,
            wakes: Wakes::Polled,
            lists: Lists::Nothing,
            takeovers: Takeovers::ByRelease,
            min_ttl: Duration::ZERO,
            max_ttl: Duration::MAX,
            clock: "",
            data_loss: String::new(),
            requests_per_hand_over: 1,
        }
    }

    #[test]
    fn each_connection_says_where_it_leads() {
        let current = CurrentInfo::new(info(), "`db`.`t` p:".to_owned());
        assert_eq!(current.get().identity, None, "no server was asked yet");
        current.learn_server(Some("f00d"));
        assert_eq!(current.get().identity.as_deref(), Some("f00d `db`.`t` p:"));
        let before = current.get();
        current.learn_server(Some("f00d"));
        assert!(Arc::ptr_eq(&before, &current.get()), "the same server changes nothing");
        current.learn_server(None);
        assert_eq!(current.get().identity, None, "the server that answers now doesn't tell");
    }

    #[test]
    fn what_a_connection_shows_replaces_all_that_was_known() {
        let current = CurrentInfo::new(info(), "0 p:".to_owned());
        current.learn(Some("f00d"), |before| Info { clock: "a wall clock", ..before.clone() });
        let info = current.get();
        assert_eq!((info.identity.as_deref(), info.clock), (Some("f00d 0 p:"), "a wall clock"));
        current.learn(None, Info::clone);
        assert_eq!((current.get().identity.as_deref(), current.get().clock), (None, "a wall clock"));
    }

    #[test]
    fn a_reader_keeps_its_info_and_updates_merge() {
        let current = CurrentInfo::new(info(), String::new());
        current.learn_server(Some("f00d"));
        let before = current.get();
        current.change(|info| info.wakes = Wakes::Pushed);
        assert_eq!((before.wakes, current.get().wakes), (Wakes::Polled, Wakes::Pushed));
        assert_eq!(current.get().identity, before.identity);
    }
}
