//! The ensemble, as far as it is known: which timeouts its servers grant, and what follows for ttls.

use std::sync::Arc;
use std::time::Duration;

use lock_core::toolkit::{Call, CurrentInfo, FirstUse};
use lock_core::{Info, Result};

use crate::info::Granted;
use crate::link::{Link, Site};
use crate::query_link::{LONGEST_TIMEOUT, QueryLink};

/// The knowledge of a client's claims and queries about its servers.
#[derive(Debug)]
pub(crate) struct Ensemble {
    pub(crate) site: Site,
    pub(crate) query_link: QueryLink,
    /// The time that a ping may take, as the URL says.
    tick: Duration,
    granted: FirstUse<Granted>,
    info: CurrentInfo,
}

impl Ensemble {
    /// Asks nothing yet.
    pub(crate) fn new(site: Site, address: String, tick: Duration) -> Ensemble {
        let query_link = QueryLink::new(site.clone());
        let info = CurrentInfo::new(Granted::before_it_is_known(tick).describe(address), String::new());
        Ensemble { site, query_link, tick, granted: FirstUse::new(), info }
    }

    pub(crate) fn info(&self) -> Arc<Info> {
        self.info.get()
    }

    /// Returns which timeouts the servers grant. The first call asks them. If this fails, no lock was touched.
    pub(crate) async fn granted(&self, call: &Call) -> Result<Granted> {
        self.granted.ensure(call, || self.ask(call)).await.copied()
    }

    /// A server shows which timeouts it grants only by granting them: asks for the shortest and for the longest.
    async fn ask(&self, call: &Call) -> Result<Granted> {
        let shortest = self.tick.saturating_mul(2).min(LONGEST_TIMEOUT);
        let (short, long) =
            tokio::join!(Link::open(&self.site, 1, shortest, None, call), self.query_link.link(call));
        let (short, long) = (short.map_err(|why| why.into_error(call))?, long?);
        let granted = Granted::new(self.tick, short.timeout(), long.timeout());
        self.info.learn(None, |info| granted.describe(info.server.clone()));
        Ok(granted)
    }
}
