//! Sessions of a client: one per distinct ttl, kept alive by one task each, closed when idle.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lock_core::driver::{Call, whole_millis};
use lock_core::{Effect, Error, Instant, Owner, Result};
use tokio::sync::futures::Notified;
use tokio::sync::{Notify, mpsc, watch};
use zookeeper_client::SessionInfo;

use crate::deadlines::{Deadlines, Proves};
use crate::ensemble::Ensemble;
use crate::errors;
use crate::heartbeat;
use crate::link::{Link, NotOpened, Site};
use crate::place::Place;
use crate::watches::Watch;

/// A client's sessions, and what they share.
#[derive(Debug)]
pub(crate) struct Sessions {
    ensemble: Arc<Ensemble>,
    /// The path that heartbeats check. The node need not exist.
    checked: String,
    open: Mutex<BTreeMap<Duration, Arc<Session>>>,
    /// Locked by the call that opens a session: one at a time.
    opening: tokio::sync::Mutex<()>,
}

/// A session that the server has opened.
#[derive(Debug)]
pub(crate) struct Session {
    /// The ttl of its locks, which it was opened for.
    pub(crate) ttl: Duration,
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
    /// Notified when a claim has left, or the client was dropped.
    pub(crate) left: Notify,
    /// Whether it has to be closed, because a node in it can't be removed otherwise.
    given_up: AtomicBool,
}

/// How a session is connected.
#[derive(Clone, Debug)]
pub(crate) enum Phase {
    Linked(Arc<Link>),
    /// The last connection has ended, and there is no other yet.
    Between,
    /// The server said that the session is over.
    Over,
}

/// The state of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SessionState {
    /// It is kept alive.
    Alive,
    /// No proof came in time: it is unknown whether the server still has it, and no task keeps it alive.
    Retired,
    /// The server said that it is over.
    Over,
    /// Its client was dropped, or does not need it any more.
    Closed,
}

#[derive(Debug)]
struct Timing {
    state: SessionState,
    deadlines: Deadlines,
}

/// The claims of a session, and the nodes that the session has to remove.
#[derive(Debug, Default)]
struct Members {
    /// The claims, each with its wake-up.
    claims: BTreeMap<Owner, Arc<Notify>>,
    /// Whether a claim joined since this was last read.
    joined: bool,
    revoked: Vec<RevokedNode>,
    abandoned: Vec<Abandoned>,
}

/// The place of a claim that was dropped without a release.
#[derive(Debug)]
struct Abandoned {
    place: Place,
    /// The link on which its removal was last requested.
    asked_on: u64,
}

/// The node of a revoked holder that has been told. The session removes it at the holder's deadline.
#[derive(Clone, Debug)]
pub(crate) struct RevokedNode {
    pub(crate) path: String,
    pub(crate) at: Instant,
    /// The link on which its deletion was last requested.
    asked_on: u64,
}

/// Why a session has no link to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Absent {
    /// The server said that the session is over: nothing of it is left there.
    Over,
    /// No link was ready in time.
    Late,
}

/// A claim's membership of a session; ends when dropped.
#[derive(Debug)]
pub(crate) struct Membership {
    pub(crate) session: Arc<Session>,
    owner: Owner,
}

impl Sessions {
    pub(crate) fn new(ensemble: Arc<Ensemble>, checked: String) -> Sessions {
        Sessions { ensemble, checked, open: Mutex::default(), opening: tokio::sync::Mutex::default() }
    }

    /// Adds a claim to the session of this ttl. Opens one if there is none. An error means that nothing was done for
    /// the claim.
    pub(crate) async fn join(
        self: &Arc<Self>,
        call: &Call,
        ttl: Duration,
        owner: Owner,
        wakes: &Arc<Notify>,
    ) -> Result<Membership> {
        if let Some(membership) = self.join_open(ttl, owner, wakes) {
            return Ok(membership);
        }
        let granted = self.ensemble.granted(call).await?;
        granted.check_ttl(ttl)?;
        let too_late = || call.out_of_time(Effect::NotApplied);
        let one = call.within(self.opening.lock()).await.ok_or_else(too_late)?;
        if let Some(membership) = self.join_open(ttl, owner, wakes) {
            return Ok(membership);
        }
        let timeout = Duration::from_millis(whole_millis(ttl).unsigned_abs());
        let opened = Link::open(&self.ensemble.site, 1, timeout, None, call).await;
        let link = opened.map_err(|why| not_opened(why, call))?;
        let membership = self.begin(ttl, granted.tick, link, owner, wakes);
        drop(one);
        Ok(membership)
    }

    fn join_open(&self, ttl: Duration, owner: Owner, wakes: &Arc<Notify>) -> Option<Membership> {
        let open = self.open();
        let session = open.get(&ttl)?;
        let usable =
            session.state() == SessionState::Alive && session.ends() > self.ensemble.site.clock.now();
        usable.then(|| session.join(owner, wakes))
    }

    fn begin(
        self: &Arc<Self>,
        ttl: Duration,
        tick: Duration,
        link: Link,
        owner: Owner,
        wakes: &Arc<Notify>,
    ) -> Membership {
        let link = Arc::new(link);
        let (watches, arriving) = mpsc::unbounded_channel();
        let deadlines = Deadlines::new(link.began, link.timeout(), tick);
        let session = Arc::new(Session {
            ttl,
            site: self.ensemble.site.clone(),
            info: link.client.session().clone(),
            checked: self.checked.clone(),
            phase: watch::Sender::new(Phase::Linked(link.clone())),
            timing: Mutex::new(Timing { state: SessionState::Alive, deadlines }),
            proven: Notify::new(),
            wanted: Notify::new(),
            cuts: watch::Sender::new(0),
            watches,
            members: Mutex::default(),
            left: Notify::new(),
            given_up: AtomicBool::new(false),
        });
        let membership = session.join(owner, wakes);
        // A session that was there before has retired: its task ends by itself.
        self.open().insert(ttl, session.clone());
        let keeping = heartbeat::keep(session, link, arriving, Arc::downgrade(self), tick);
        drop(self.ensemble.site.runtime.spawn(keeping));
        membership
    }

    /// Lets no more claims join a session if it is idle. Returns whether it is idle.
    pub(crate) fn close_if_idle(&self, session: &Arc<Session>) -> bool {
        let mut open = self.open();
        // Claims join under this lock.
        if self.is_forked() || session.is_in_use() {
            return false;
        }
        remove(&mut open, session);
        true
    }

    /// Lets no more claims join a session, sets its state, and wakes its claims.
    pub(crate) fn end(&self, session: &Arc<Session>, state: SessionState) {
        remove(&mut self.open(), session);
        session.end(state);
    }

    /// Whether this is a copy in a forked process, which owns nothing: nothing must be sent for it.
    pub(crate) fn is_forked(&self) -> bool {
        self.ensemble.site.process.is_forked()
    }

    /// Lets no more claims join a session: the next claim opens another one.
    pub(crate) fn stop_joining(&self, session: &Arc<Session>) {
        remove(&mut self.open(), session);
    }

    /// Tells the holders in a session now that they have lost their locks, and closes the session, with all that is in
    /// it, as soon as no holder relies on it any more.
    pub(crate) fn give_up(&self, session: &Arc<Session>) {
        session.given_up.store(true, Ordering::SeqCst);
        self.end(session, SessionState::Retired);
        session.left.notify_one();
    }

    fn open(&self) -> MutexGuard<'_, BTreeMap<Duration, Arc<Session>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn remove(open: &mut BTreeMap<Duration, Arc<Session>>, session: &Arc<Session>) {
    if open.get(&session.ttl).is_some_and(|open| Arc::ptr_eq(open, session)) {
        open.remove(&session.ttl);
    }
}

impl Drop for Sessions {
    fn drop(&mut self) {
        // The sessions belong to the parent process, and so do the sockets on which their end would be sent.
        if self.is_forked() {
            return;
        }
        for session in std::mem::take(&mut *self.open()).into_values() {
            session.end(SessionState::Closed);
            session.left.notify_one();
        }
    }
}

/// Converts the reason why no session was opened. Nothing was sent in it.
pub(crate) fn not_opened(why: NotOpened, call: &Call) -> Error {
    match why {
        NotOpened::Failed(e) => errors::connecting(e, call.ends().since(call.began())),
        NotOpened::Expired | NotOpened::Late => call.out_of_time(Effect::NotApplied),
    }
}

impl Session {
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
        let mut phases = self.phase.subscribe();
        let later_than = later_than.max(*self.cuts.borrow());
        let found = call.within(async {
            loop {
                match &*phases.borrow_and_update() {
                    Phase::Linked(link) if link.number > later_than && link.is_alive() => {
                        return Ok(link.clone());
                    }
                    Phase::Over => return Err(Absent::Over),
                    Phase::Linked(_) | Phase::Between => {}
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

    /// Lets the session remove the node of a revoked holder at the holder's deadline.
    pub(crate) fn remove_at_deadline(&self, path: String) {
        let at = self.ends();
        let mut members = self.members();
        if members.revoked.iter().all(|revoked| revoked.path != path) {
            members.revoked.push(RevokedNode { path, at, asked_on: 0 });
        }
        drop(members);
        self.left.notify_one();
    }

    /// Lets the session remove the place of a claim that was dropped without a release.
    pub(crate) fn add_abandoned(&self, place: Place) {
        self.members().abandoned.push(Abandoned { place, asked_on: 0 });
        self.left.notify_one();
    }

    fn join(self: &Arc<Self>, owner: Owner, wakes: &Arc<Notify>) -> Membership {
        let mut members = self.members();
        members.claims.insert(owner, wakes.clone());
        members.joined = true;
        drop(members);
        Membership { session: self.clone(), owner }
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

    /// Whether the session has a claim, or had one since the last call. So a lock that is taken again and again does
    /// not open a session each time.
    fn is_in_use(&self) -> bool {
        let mut members = self.members();
        std::mem::take(&mut members.joined) || !members.is_empty()
    }

    /// Whether no claim has anything left in it.
    pub(crate) fn is_empty(&self) -> bool {
        self.members().is_empty()
    }

    /// Returns when the next revoked node has to be deleted.
    pub(crate) fn next_removal(&self, link: u64) -> Option<Instant> {
        self.members().revoked.iter().filter(|node| node.asked_on != link).map(|node| node.at).min()
    }

    /// Returns the revoked nodes that have to be deleted by `now`, each of them once on a link.
    pub(crate) fn due_removals(&self, link: u64, now: Instant) -> Vec<String> {
        let mut members = self.members();
        let due = members.revoked.iter_mut().filter(|node| node.asked_on != link && node.at <= now);
        due.map(|node| {
            node.asked_on = link;
            node.path.clone()
        })
        .collect()
    }

    pub(crate) fn forget_revoked(&self, path: &str) {
        self.members().revoked.retain(|node| node.path != path);
    }

    /// Returns the places of dropped claims that have to be removed, each of them once on a link. A node that may have
    /// been created on this link is looked for on the next one.
    pub(crate) fn due_abandoned(&self, link: u64) -> Vec<Place> {
        let mut members = self.members();
        let due = members.abandoned.iter_mut().filter(|abandoned| abandoned.asked_on != link);
        let (later, now): (Vec<_>, Vec<_>) =
            due.partition(|abandoned| abandoned.place.uncertain_up_to() >= link);
        if !later.is_empty() {
            self.cut(link);
        }
        now.into_iter()
            .map(|abandoned| {
                abandoned.asked_on = link;
                abandoned.place.clone()
            })
            .collect()
    }

    pub(crate) fn forget_abandoned(&self, place: &Place) {
        self.members().abandoned.retain(|abandoned| !abandoned.place.is_of(place));
    }

    /// Whether it has to be closed with all that is in it.
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

impl Members {
    fn is_empty(&self) -> bool {
        self.claims.is_empty() && self.revoked.is_empty() && self.abandoned.is_empty()
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        self.session.members().claims.remove(&self.owner);
        self.session.left.notify_one();
    }
}
