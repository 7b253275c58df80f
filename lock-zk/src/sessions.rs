//! The sessions of a client, and how one is opened and ended.

use std::sync::Arc;
use std::time::Duration;

use lock_core::toolkit::{self, Call, Joining, whole_millis};
use lock_core::{Effect, Result};
use tokio::sync::mpsc;

use crate::ensemble::Ensemble;
use crate::heartbeat;
use crate::link::Link;
use crate::session::{Member, Membership, Session, SessionState};

/// A client's sessions, and what they share.
#[derive(Debug)]
pub(crate) struct Sessions {
    ensemble: Arc<Ensemble>,
    /// The path that heartbeats check. The node need not exist.
    checked: String,
    open: toolkit::Sessions<Session>,
}

impl Sessions {
    pub(crate) fn new(ensemble: Arc<Ensemble>, checked: String) -> Sessions {
        let open = toolkit::Sessions::new(ensemble.site.process);
        Sessions { ensemble, checked, open }
    }

    /// Adds a claim to the session of this ttl. Opens one if there is none. An error means that nothing was done for
    /// the claim.
    pub(crate) async fn join(
        self: &Arc<Self>,
        call: &Call,
        ttl: Duration,
        member: &Member,
    ) -> Result<Membership> {
        // The servers are asked once; after that, this returns at once.
        let granted = self.ensemble.granted(call).await?;
        granted.check_ttl(ttl)?;
        let too_late = || call.out_of_time(Effect::NotApplied);
        let vacant = match self.open.join(call, ttl, member).await.ok_or_else(too_late)? {
            Joining::Joined(membership) => return Ok(membership),
            Joining::Vacant(vacant) => vacant,
        };
        let site = &self.ensemble.site;
        let timeout = Duration::from_millis(whole_millis(ttl).unsigned_abs());
        let opened = Link::open(site, 1, timeout, None, call).await;
        let link = Arc::new(opened.map_err(|why| why.into_error(call))?);
        let (watches, arriving) = mpsc::unbounded_channel();
        let session = Session::new(site.clone(), self.checked.clone(), link.clone(), granted.tick, watches);
        Ok(vacant.fill(session, |session| {
            let keeping = heartbeat::keep(session, link, arriving, Arc::downgrade(self), granted.tick);
            site.runtime.spawn(keeping).abort_handle()
        }))
    }

    /// Lets no more claims join a session if it is idle. Returns whether it is idle.
    pub(crate) fn close_if_idle(&self, session: &Arc<Session>) -> bool {
        self.open.close_if_idle(session)
    }

    /// Lets no more claims join a session, sets its state, and wakes its claims.
    pub(crate) fn end(&self, session: &Arc<Session>, state: SessionState) {
        self.open.stop_joining(session);
        session.end(state);
    }

    /// Returns whether this is a copy in a forked process, which owns nothing: nothing must be sent for it.
    pub(crate) fn is_forked(&self) -> bool {
        self.open.is_forked()
    }

    /// Lets no more claims join a session: the next claim opens another one.
    pub(crate) fn stop_joining(&self, session: &Arc<Session>) {
        self.open.stop_joining(session);
    }

    /// Tells the holders in a session now that they have lost their locks, and closes the session, with all that is in
    /// it, as soon as no holder relies on it any more.
    pub(crate) fn give_up(&self, session: &Arc<Session>) {
        session.give_up();
        self.end(session, SessionState::Retired);
        session.left.notify_one();
    }
}

impl Drop for Sessions {
    /// Lets the tasks of the sessions close them.
    fn drop(&mut self) {
        for (session, _) in self.open.take_all() {
            session.end(SessionState::Closed);
            session.left.notify_one();
        }
    }
}
