//! A session that the server has opened: how it is connected, until when it is certain, and which claims are in it.

mod leftovers;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lock_core::toolkit::{self, Call, Keepable};
use lock_core::{Instant, Owner};
use tokio::sync::futures::Notified;
use tokio::sync::{Notify, mpsc, watch};
use zookeeper_client::SessionInfo;

use self::leftovers::Leftovers;
use crate::deadlines::{Deadlines, Proves};
use crate::link::{Link, Site};
use crate::watches::Watch;

/// A session that the server has opened.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) site: Site,
    pub(crate) info: SessionInfo,
    pub(crate) checked: String,
    phase: watch::Sender<Phase>,
    timing: Mutex<Timing>,
    /// Notified when the session is certain for longer than before.
    proven: Notify,
    /// Notified when a claim needs a proof now.
    pub(crate) wanted: Notify,
    /// Links up to this one are to be ended.
    pub(crate) cuts: watch::Sender<u64>,
    watches: mpsc::UnboundedSender<Watch>,
    members: Mutex<Members>,
    /// Notified when a claim has left a session that is to be closed, when one has left something behind, and when the
    /// client was dropped.
    pub(crate) left: Notify,
    /// It has to be closed, because a node in it can't be removed otherwise.
    given_up: AtomicBool,
}

/// The phase of a session's connection.
#[derive(Clone, Debug)]
pub(crate) enum Phase {
    Linked(Arc<Link>),
    /// The last connection has ended, and there is no other yet.
    Between,
    /// The server said that the session is over.
    Over,
}

impl Phase {
    /// Returns its link if that works and is later than the link of this number; `None` if another phase has to be
    /// waited for.
    fn later_than(&self, number: u64) -> Option<Result<Arc<Link>, Absent>> {
        match self {
            Phase::Linked(link) if link.number > number && link.is_alive() => Some(Ok(link.clone())),
            Phase::Over => Some(Err(Absent::Over)),
            Phase::Linked(_) | Phase::Between => None,
        }
    }
}

/// The state of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SessionState {
    /// The session is kept alive.
    Alive,
    /// No proof came in time: it is unknown whether the server still has it, and no task keeps it alive.
    Retired,
    /// The server said that it is over.
    Over,
    /// The session's client was dropped, or does not need it any more.
    Closed,
}

#[derive(Debug)]
struct Timing {
    state: SessionState,
    deadlines: Deadlines,
}

/// The claims of a session, and what others have left in it.
#[derive(Debug, Default)]
struct Members {
    /// The claims, each with its wake-up.
    claims: BTreeMap<Owner, Arc<Notify>>,
    leftovers: Leftovers,
}

/// A claim in a session.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) owner: Owner,
    pub(crate) wakes: Arc<Notify>,
}

/// A claim's membership of a session; ends when dropped.
pub(crate) type Membership = toolkit::Membership<Session>;

/// Why a session has no link to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Absent {
    /// The server said that the session is over: nothing of it is left there.
    Over,
    /// No link was ready in time.
    Late,
}

impl Session {
    /// Begins with the first link of the session. The watches of its claims go to the task that keeps it.
    pub(crate) fn new(
        site: Site,
        checked: String,
        link: Arc<Link>,
        tick: Duration,
        watches: mpsc::UnboundedSender<Watch>,
    ) -> Session {
        let deadlines = Deadlines::new(link.began, link.timeout(), tick);
        Session {
            site,
            info: link.client.session().clone(),
            checked,
            phase: watch::Sender::new(Phase::Linked(link)),
            timing: Mutex::new(Timing { state: SessionState::Alive, deadlines }),
            proven: Notify::new(),
            wanted: Notify::new(),
            cuts: watch::Sender::new(0),
            watches,
            members: Mutex::default(),
            left: Notify::new(),
            given_up: AtomicBool::new(false),
        }
    }

    // ---- for claims -------------------------------------------------------------------------------------------------

    pub(crate) fn state(&self) -> SessionState {
        self.timing().state
    }

    /// Returns until when the session is certain.
    pub(crate) fn ends(&self) -> Instant {
        self.timing().deadlines.ends()
    }

    pub(crate) fn timeout(&self) -> Duration {
        self.timing().deadlines.timeout()
    }

    /// Returns a link that works, as far as is known, and that is later than the link of this number and all links that
    /// were cut. A caller that has cut a link waits for the next one, whether or not the session's task has ended the
    /// old one yet.
    pub(crate) async fn link(&self, call: &Call, later_than: u64) -> Result<Arc<Link>, Absent> {
        let later_than = later_than.max(*self.cuts.borrow());
        if let Some(found) = self.phase.borrow().later_than(later_than) {
            return found;
        }
        let mut phases = self.phase.subscribe();
        let found = call.within(async {
            loop {
                if let Some(found) = phases.borrow_and_update().later_than(later_than) {
                    return found;
                }
                // This can't fail, because the session has the sender.
                phases.changed().await.ok();
            }
        });
        found.await.unwrap_or(Err(Absent::Late))
    }

    /// Lets the session's task end this link and reconnect the session. Nothing that was sent on the link arrives after
    /// that.
    pub(crate) fn cut(&self, number: u64) {
        self.cuts.send_if_modified(|cut| std::mem::replace(cut, number.max(*cut)) < number);
    }

    /// Lets the session's task wait for a watch.
    pub(crate) fn watch(&self, watch: Watch) {
        // If the task has ended, so has the session, and its claims have been woken.
        self.watches.send(watch).ok();
    }

    /// Resolves when the session is certain for longer than at the time of this call.
    pub(crate) fn proven(&self) -> Notified<'_> {
        self.proven.notified()
    }

    /// Lets the session's task close it as soon as no holder relies on it.
    pub(crate) fn give_up(&self) {
        self.given_up.store(true, Ordering::SeqCst);
    }

    // ---- for the task that keeps it ---------------------------------------------------------------------------------

    pub(crate) fn deadlines(&self) -> Deadlines {
        self.timing().deadlines
    }

    pub(crate) fn begin_heartbeat(&self, now: Instant) {
        self.timing().deadlines.begin(now);
    }

    pub(crate) fn heartbeat_answered(&self, now: Instant) {
        if self.timing().deadlines.answered(now) == Proves::MoreTime {
            self.proven.notify_waiters();
        }
    }

    pub(crate) fn enter(&self, phase: Phase) {
        self.phase.send_replace(phase);
    }

    /// Goes on with another link. Wakes all claims: what was watched on the old link has to be looked at again.
    pub(crate) fn resume(&self, link: Arc<Link>) {
        self.timing().deadlines.resumed(link.began, link.timeout());
        self.enter(Phase::Linked(link));
        self.wake_all();
    }

    pub(crate) fn end(&self, state: SessionState) {
        self.timing().state = state;
        if state == SessionState::Over {
            self.enter(Phase::Over);
        }
        self.proven.notify_waiters();
        self.wake_all();
    }

    /// Returns whether no claim has anything left in it.
    pub(crate) fn is_empty(&self) -> bool {
        let members = self.members();
        members.claims.is_empty() && members.leftovers.is_empty()
    }

    /// Returns whether it has to be closed with all that is in it.
    pub(crate) fn is_given_up(&self) -> bool {
        self.given_up.load(Ordering::SeqCst)
    }

    pub(crate) fn is_certain(&self) -> bool {
        self.site.clock.now() < self.ends()
    }

    fn wake_all(&self) {
        self.members().claims.values().for_each(|wakes| wakes.notify_one());
    }

    fn timing(&self) -> MutexGuard<'_, Timing> {
        self.timing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn members(&self) -> MutexGuard<'_, Members> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Keepable for Session {
    type Member = Member;

    fn is_usable(&self, now: Instant) -> bool {
        self.state() == SessionState::Alive && now < self.ends()
    }

    fn is_in_use(&self) -> bool {
        !self.is_empty()
    }

    fn add_member(&self, member: &Member) {
        self.members().claims.insert(member.owner, member.wakes.clone());
    }

    fn remove_member(&self, member: &Member) {
        self.members().claims.remove(&member.owner);
        // The task that keeps it waits for that only if it is to be closed: else it would be woken for each release.
        if self.state() != SessionState::Alive {
            self.left.notify_one();
        }
    }
}
