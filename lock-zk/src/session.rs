//! Sessions of a client: one per distinct ttl, kept alive by one task each, closed when idle.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lock_core::driver::Call;
use lock_core::{Done, Error, Instant, Owner, Result};
use tokio::sync::futures::Notified;
use tokio::sync::{Notify, mpsc, watch};
use zookeeper_client::SessionInfo;

use crate::deadlines::{Deadlines, Worth};
use crate::errors;
use crate::heartbeat;
use crate::link::{Link, NotOpened, Site};
use crate::place::Place;
use crate::watches::Watch;

/// A client's sessions, and what they share.
#[derive(Debug)]
pub(crate) struct Sessions {
    pub(crate) site: Site,
    tick: Duration,
    /// What heartbeats check: a node that needs not be there.
    checked: String,
    open: Mutex<BTreeMap<Duration, Arc<Session>>>,
    /// One opens at a time.
    opening: tokio::sync::Mutex<()>,
}

/// A session that the server has opened.
#[derive(Debug)]
pub(crate) struct Session {
    /// What it was asked for.
    pub(crate) ttl: Duration,
    pub(crate) site: Site,
    pub(crate) info: SessionInfo,
    pub(crate) checked: String,
    phase: watch::Sender<Phase>,
    pulse: Mutex<Pulse>,
    /// More is certain than before.
    proven: Notify,
    /// Somebody needs a proof now.
    pub(crate) wanted: Notify,
    /// Links up to this one are to be ended.
    pub(crate) cuts: watch::Sender<u64>,
    watches: mpsc::UnboundedSender<Watch>,
    members: Mutex<Members>,
    /// A member has left, or the client goes.
    pub(crate) left: Notify,
    /// Something of it can't be removed but with all of it.
    given_up: AtomicBool,
}

/// How a session is connected.
#[derive(Clone, Debug)]
pub(crate) enum Phase {
    Linked(Arc<Link>),
    Between,
    /// The server said that the session is over.
    Over,
}

/// How it stands with a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// It is kept alive.
    Alive,
    /// No proof came in time: nobody knows whether the server still has it, and nobody keeps it alive.
    Retired,
    /// The server said that it is over.
    Over,
    /// Its client has gone, or needs it no more.
    Closed,
}

#[derive(Debug)]
struct Pulse {
    state: State,
    deadlines: Deadlines,
}

/// Who has to do with a session.
#[derive(Debug, Default)]
struct Members {
    /// Each with what wakes it.
    claims: BTreeMap<Owner, Arc<Notify>>,
    /// Whether a claim joined since this was last asked.
    joined: bool,
    condemned: Vec<Condemned>,
    remains: Vec<Remains>,
}

/// What a claim has left that was cut short.
#[derive(Debug)]
struct Remains {
    place: Place,
    /// On which link its removal was last asked for.
    asked_on: u64,
}

/// The node of a holder that was revoked, and has been told. It goes when the lock would have been lost.
#[derive(Clone, Debug)]
pub(crate) struct Condemned {
    pub(crate) path: String,
    pub(crate) at: Instant,
    /// On which link its deletion was last asked for.
    asked_on: u64,
}

/// Why a session's link can't be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Absent {
    /// The session is over, by the server's word: nothing of it is left there.
    Over,
    /// There was none in time.
    Late,
}

/// A claim's membership of a session; ends when dropped.
#[derive(Debug)]
pub(crate) struct Seat {
    pub(crate) session: Arc<Session>,
    owner: Owner,
}

impl Sessions {
    pub(crate) fn new(site: Site, tick: Duration, checked: String) -> Sessions {
        Sessions { site, tick, checked, open: Mutex::default(), opening: tokio::sync::Mutex::default() }
    }

    /// A seat in the session of this ttl, which is opened if there is none. An error means that nothing was done for the
    /// claim.
    pub(crate) async fn join(
        self: &Arc<Self>,
        call: &Call,
        ttl: Duration,
        owner: Owner,
        wakes: &Arc<Notify>,
    ) -> Result<Seat> {
        if let Some(seat) = self.join_open(ttl, owner, wakes) {
            return Ok(seat);
        }
        let too_late = || call.out_of_time(Done::No);
        let one = call.within(self.opening.lock()).await.ok_or_else(too_late)?;
        if let Some(seat) = self.join_open(ttl, owner, wakes) {
            return Ok(seat);
        }
        let opened = Link::open(&self.site, 1, in_millis(ttl), None, call).await;
        let link = opened.map_err(|why| not_opened(why, call))?;
        let seat = self.begin(ttl, link, owner, wakes);
        drop(one);
        Ok(seat)
    }

    fn join_open(&self, ttl: Duration, owner: Owner, wakes: &Arc<Notify>) -> Option<Seat> {
        let open = self.open();
        let session = open.get(&ttl)?;
        let usable = session.state() == State::Alive && session.ends() > self.site.clock.now();
        usable.then(|| session.seat(owner, wakes))
    }

    fn begin(self: &Arc<Self>, ttl: Duration, link: Link, owner: Owner, wakes: &Arc<Notify>) -> Seat {
        let link = Arc::new(link);
        let (watches, arriving) = mpsc::unbounded_channel();
        let deadlines = Deadlines::new(link.began, link.timeout(), self.tick);
        let session = Arc::new(Session {
            ttl,
            site: self.site.clone(),
            info: link.client.session().clone(),
            checked: self.checked.clone(),
            phase: watch::Sender::new(Phase::Linked(link.clone())),
            pulse: Mutex::new(Pulse { state: State::Alive, deadlines }),
            proven: Notify::new(),
            wanted: Notify::new(),
            cuts: watch::Sender::new(0),
            watches,
            members: Mutex::default(),
            left: Notify::new(),
            given_up: AtomicBool::new(false),
        });
        let seat = session.seat(owner, wakes);
        // One that was there before has retired: its task ends by itself.
        self.open().insert(ttl, session.clone());
        let keeping = heartbeat::keep(session, link, arriving, Arc::downgrade(self), self.tick);
        drop(self.site.runtime.spawn(keeping));
        seat
    }

    /// Gives no more seats in a session if nobody sits in it. Whether nobody does.
    pub(crate) fn close_if_idle(&self, session: &Arc<Session>) -> bool {
        let mut open = self.open();
        // Seats are given away under this lock.
        if self.are_copied() || session.is_in_use() {
            return false;
        }
        remove(&mut open, session);
        true
    }

    /// Gives no more seats in a session, and wakes those who have one.
    pub(crate) fn end(&self, session: &Arc<Session>, state: State) {
        remove(&mut self.open(), session);
        session.end(state);
    }

    /// Whether this is a copy in a fork, which owns nothing: nothing is to be sent for it.
    pub(crate) fn are_copied(&self) -> bool {
        self.site.process.is_parent()
    }

    /// Gives no more seats in a session: the next claim opens another.
    pub(crate) fn fills_up(&self, session: &Arc<Session>) {
        remove(&mut self.open(), session);
    }

    /// Has a session closed, with all that is in it, as soon as no holder counts on it any more. Those are told now.
    pub(crate) fn give_up(&self, session: &Arc<Session>) {
        session.given_up.store(true, Ordering::SeqCst);
        self.end(session, State::Retired);
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
        // Its sessions are the parent's, and so are the sockets on which their end would be told.
        if self.are_copied() {
            return;
        }
        for session in std::mem::take(&mut *self.open()).into_values() {
            session.end(State::Closed);
            session.left.notify_one();
        }
    }
}

/// Never less than was asked for, by a server that counts in milliseconds.
fn in_millis(ttl: Duration) -> Duration {
    Duration::from_millis(u64::try_from(ttl.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX))
}

/// Why there is no session: nothing was asked in it.
pub(crate) fn not_opened(why: NotOpened, call: &Call) -> Error {
    match why {
        NotOpened::Failed(e) => errors::connecting(e, call.ends().since(call.began())),
        NotOpened::Expired | NotOpened::Late => call.out_of_time(Done::No),
    }
}

impl Session {
    // ---- for claims -------------------------------------------------------------------------------------------------

    pub(crate) fn state(&self) -> State {
        self.pulse().state
    }

    /// Until when the session is certain.
    pub(crate) fn ends(&self) -> Instant {
        self.pulse().deadlines.ends()
    }

    pub(crate) fn timeout(&self) -> Duration {
        self.pulse().deadlines.timeout()
    }

    /// A link that works, as far as anybody knows, and is a later one than that of this number and those that were cut:
    /// who has cut one waits for the next, whether or not the session's task has come to it yet.
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
                // The sender is ours.
                phases.changed().await.ok();
            }
        });
        found.await.unwrap_or(Err(Absent::Late))
    }

    /// Has this link ended, and the session connected anew: nothing that was sent on it arrives after that.
    pub(crate) fn cut(&self, number: u64) {
        self.cuts.send_if_modified(|cut| std::mem::replace(cut, number.max(*cut)) < number);
    }

    /// Has a watch waited for.
    pub(crate) fn watch(&self, watch: Watch) {
        // Without a task there is no session, and whoever waits has been woken.
        self.watches.send(watch).ok();
    }

    /// Resolves when more is certain than at the time of this call.
    pub(crate) fn proven(&self) -> Notified<'_> {
        self.proven.notified()
    }

    /// Leaves the node of a revoked holder to the session: it goes when the lock would have been lost.
    pub(crate) fn condemn(&self, path: String) {
        let at = self.ends();
        let mut members = self.members();
        if members.condemned.iter().all(|condemned| condemned.path != path) {
            members.condemned.push(Condemned { path, at, asked_on: 0 });
        }
        drop(members);
        self.left.notify_one();
    }

    /// Leaves to the session what a claim had that was cut short.
    pub(crate) fn leave_behind(&self, place: Place) {
        self.members().remains.push(Remains { place, asked_on: 0 });
        self.left.notify_one();
    }

    fn seat(self: &Arc<Self>, owner: Owner, wakes: &Arc<Notify>) -> Seat {
        let mut members = self.members();
        members.claims.insert(owner, wakes.clone());
        members.joined = true;
        drop(members);
        Seat { session: self.clone(), owner }
    }

    // ---- for the task that keeps it ---------------------------------------------------------------------------------

    pub(crate) fn deadlines(&self) -> Deadlines {
        self.pulse().deadlines
    }

    pub(crate) fn begin_heartbeat(&self, now: Instant) {
        self.pulse().deadlines.begin(now);
    }

    pub(crate) fn is_answered(&self, now: Instant) {
        if self.pulse().deadlines.answered(now) == Worth::Proof {
            self.proven.notify_waiters();
        }
    }

    pub(crate) fn enter(&self, phase: Phase) {
        self.phase.send_replace(phase);
    }

    /// There is another link: what was watched on the old one has to be looked at again.
    pub(crate) fn resume(&self, link: Arc<Link>) {
        self.pulse().deadlines.resumed(link.began, link.timeout());
        self.enter(Phase::Linked(link));
        self.wake_all();
    }

    pub(crate) fn end(&self, state: State) {
        self.pulse().state = state;
        if state == State::Over {
            self.enter(Phase::Over);
        }
        self.proven.notify_waiters();
        self.wake_all();
    }

    /// Whether a claim is here, or was since this was last asked: one that comes and goes needs no session each time.
    fn is_in_use(&self) -> bool {
        let mut members = self.members();
        std::mem::take(&mut members.joined) || !members.are_gone()
    }

    /// Whether nothing of anybody is left in it.
    pub(crate) fn is_left(&self) -> bool {
        self.members().are_gone()
    }

    /// When the next condemned node is to go.
    pub(crate) fn next_execution(&self, link: u64) -> Option<Instant> {
        self.members().condemned.iter().filter(|node| node.asked_on != link).map(|node| node.at).min()
    }

    /// The condemned nodes whose time has come, each of them once on a link.
    pub(crate) fn due_executions(&self, link: u64, now: Instant) -> Vec<String> {
        let mut members = self.members();
        let due = members.condemned.iter_mut().filter(|node| node.asked_on != link && node.at <= now);
        due.map(|node| {
            node.asked_on = link;
            node.path.clone()
        })
        .collect()
    }

    pub(crate) fn is_executed(&self, path: &str) {
        self.members().condemned.retain(|node| node.path != path);
    }

    /// What has to be removed, each once on a link. What may have been made on this one is looked for on the next.
    pub(crate) fn due_remains(&self, link: u64) -> Vec<Place> {
        let mut members = self.members();
        let due = members.remains.iter_mut().filter(|remains| remains.asked_on != link);
        let (later, now): (Vec<_>, Vec<_>) = due.partition(|remains| remains.place.uncertain_up_to() >= link);
        if !later.is_empty() {
            self.cut(link);
        }
        now.into_iter()
            .map(|remains| {
                remains.asked_on = link;
                remains.place.clone()
            })
            .collect()
    }

    pub(crate) fn is_cleared(&self, place: &Place) {
        self.members().remains.retain(|remains| !remains.place.is_of(place));
    }

    /// Whether it is to be closed, whatever is in it.
    pub(crate) fn is_given_up(&self) -> bool {
        self.given_up.load(Ordering::SeqCst)
    }

    pub(crate) fn is_certain(&self) -> bool {
        self.site.clock.now() < self.ends()
    }

    fn wake_all(&self) {
        self.members().claims.values().for_each(|wakes| wakes.notify_one());
    }

    fn pulse(&self) -> MutexGuard<'_, Pulse> {
        self.pulse.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn members(&self) -> MutexGuard<'_, Members> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Members {
    fn are_gone(&self) -> bool {
        self.claims.is_empty() && self.condemned.is_empty() && self.remains.is_empty()
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.session.members().claims.remove(&self.owner);
        self.session.left.notify_one();
    }
}
