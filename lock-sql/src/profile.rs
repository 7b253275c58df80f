//! What a server guarantees, cached so that reading it takes no request.

use std::sync::{Arc, PoisonError, RwLock};

use lock_core::Info;
use lock_core::driver::Prefix;

/// The driver's [`Info`], updated with each connection.
#[derive(Debug)]
pub(crate) struct Profile {
    info: RwLock<Arc<Info>>,
    /// The table on the server, and the prefix of the names in it.
    place: String,
}

impl Profile {
    pub(crate) fn new(info: Info, table: &str, prefix: &Prefix) -> Profile {
        Profile { info: RwLock::new(Arc::new(info)), place: format!("{table} {}", prefix.as_str()) }
    }

    pub(crate) fn get(&self) -> Arc<Info> {
        self.info.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Records which server a new connection leads to, because it may be another one than before. `None` if the server
    /// doesn't tell which it is.
    pub(crate) fn learn_server(&self, server: Option<&str>) {
        let identity = server.map(|server| format!("{server} {}", self.place));
        self.change(|info| info.identity = identity);
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut Info)) {
        let mut info = self.info.write().unwrap_or_else(PoisonError::into_inner);
        change(Arc::make_mut(&mut info));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lock_core::driver::{Fencing, Lease};
    use std::time::Duration;

    #[test]
    fn each_connection_says_where_it_leads() {
        let info = Info::new("b", "h:1", Fencing::Always, Lease::Lock, Duration::ZERO..=Duration::MAX);
        let profile = Profile::new(info, "`db`.`t`", &Prefix::new("p:").unwrap());
        assert_eq!(profile.get().identity, None, "no server was asked yet");
        profile.learn_server(Some("f00d"));
        assert_eq!(profile.get().identity.as_deref(), Some("f00d `db`.`t` p:"));
        profile.learn_server(None);
        assert_eq!(profile.get().identity, None, "the server that answers now doesn't tell");
    }
}
