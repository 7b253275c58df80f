//! The task that keeps a session: it sends heartbeats while the session is used, opens another connection when one
//! breaks, and waits for the session's watches.

mod reconnecting;
mod requests;

use std::pin::{Pin, pin};
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use lock_core::{Clock, Instant};
use tokio::sync::mpsc;

use self::requests::{Answered, beat, remove_abandoned, remove_revoked};
use crate::link::Link;
use crate::session::{Phase, Session, SessionState};
use crate::sessions::Sessions;
use crate::watches::Watch;

type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Keeps a session until it is idle or over, or until no proof came in time and no claim has anything left in it.
pub(crate) async fn keep(
    session: Arc<Session>,
    mut link: Arc<Link>,
    arriving: mpsc::UnboundedReceiver<Watch>,
    sessions: Weak<Sessions>,
    tick: Duration,
) {
    let clock = session.site.clock.clone();
    let mut keeper = Keeper { session, sessions, arriving, clock, tick };
    loop {
        let number = link.number;
        match keeper.serve(&link).await {
            Ended::Idle if keeper.is_awaited() => {
                keeper.session.enter(Phase::Between);
                keeper.close(link).await;
            }
            Ended::Idle => {
                // Dropping the last handle of the link closes the session.
                keeper.session.end(SessionState::Closed);
                keeper.session.enter(Phase::Between);
                return;
            }
            Ended::Broken => {
                keeper.session.enter(Phase::Between);
                link.end().await;
            }
        }
        match keeper.resume(number).await {
            Some(next) => link = next,
            None => return,
        }
    }
}

struct Keeper {
    session: Arc<Session>,
    sessions: Weak<Sessions>,
    arriving: mpsc::UnboundedReceiver<Watch>,
    clock: Clock,
    tick: Duration,
}

/// Why the task stopped serving a connection.
enum Ended {
    /// The session is to be closed.
    Idle,
    /// The connection broke, or was cut.
    Broken,
}

impl Keeper {
    /// Serves a connection until it breaks or the session is to be closed. All futures that wait on it have been
    /// dropped when this returns.
    async fn serve(&mut self, link: &Arc<Link>) -> Ended {
        let (session, clock) = (self.session.clone(), self.clock.clone());
        let mut cuts = session.cuts.subscribe();
        let mut broken = pin!(link.broken());
        let mut pending: FuturesUnordered<Boxed<()>> = FuturesUnordered::new();
        let mut heartbeat: Option<Boxed<Answered>> = None;
        let (mut wanted, mut unanswered) = (false, 0);
        loop {
            session.site.pends_if_forked().await;
            let (deadlines, state) = (session.deadlines(), session.state());
            if is_over(&session) {
                return Ended::Idle;
            }
            for place in session.due_abandoned(link.number) {
                pending.push(Box::pin(remove_abandoned(session.clone(), link.clone(), place)));
            }
            let next = if wanted { deadlines.earliest() } else { deadlines.due() };
            let removal = session.next_removal(link.number);
            tokio::select! {
                biased;
                () = &mut broken => return Ended::Broken,
                () = async { drop(cuts.wait_for(|cut| *cut >= link.number).await) } => return Ended::Broken,
                Some(watch) = self.arriving.recv() => take_over(watch, link, &pending),
                Some(()) = pending.next(), if !pending.is_empty() => {}
                answered = answer(&mut heartbeat), if heartbeat.is_some() => {
                    heartbeat = None;
                    // The server reports events of nodes before it answers. Claims are told in the same order.
                    while let Ok(watch) = self.arriving.try_recv() {
                        take_over(watch, link, &pending);
                    }
                    while pending.next().now_or_never().flatten().is_some() {}
                    unanswered = match answered {
                        Answered::Yes => {
                            session.heartbeat_answered(clock.now());
                            0
                        }
                        Answered::No => unanswered + 1,
                    };
                    if unanswered > 1 {
                        return Ended::Broken;
                    }
                    wanted |= unanswered > 0;
                }
                () = session.wanted.notified(), if !wanted => wanted = true,
                () = session.left.notified() => {}
                () = sleep_until(&clock, removal), if removal.is_some() => {
                    for path in session.due_removals(link.number, clock.now()) {
                        pending.push(Box::pin(remove_revoked(session.clone(), link.clone(), path)));
                    }
                }
                () = clock.sleep_until(deadlines.ends()), if state == SessionState::Alive => {
                    self.retire();
                }
                // The holders know that their locks are lost, so from now on other clients may take them.
                () = clock.sleep_until(deadlines.ends()), if session.is_given_up() => {}
                () = clock.sleep_until(next), if state == SessionState::Alive && heartbeat.is_none() => {
                    if !wanted && self.close_if_idle() {
                        return Ended::Idle;
                    }
                    wanted = false;
                    session.begin_heartbeat(clock.now());
                    heartbeat = Some(Box::pin(beat(session.clone(), link.clone())));
                }
            }
        }
    }

    /// Returns whether claims are left in a session that is to be closed. Their calls end only when the
    /// server says that the session is over: until then their nodes may exist.
    fn is_awaited(&self) -> bool {
        self.session.state() == SessionState::Retired && !self.session.is_empty()
    }

    /// Closes the session. The next attempt to resume it shows whether the server has closed it.
    async fn close(&mut self, link: Arc<Link>) {
        // Each watch keeps the connection open.
        while self.arriving.try_recv().is_ok() {}
        link.close(self.session.timeout()).await;
    }

    fn retire(&self) {
        match self.sessions.upgrade() {
            Some(sessions) => sessions.end(&self.session, SessionState::Retired),
            None => self.session.end(SessionState::Retired),
        }
    }

    /// Lets no more claims join the session if it is idle, or if its client was dropped. Returns whether that is so.
    fn close_if_idle(&self) -> bool {
        self.sessions.upgrade().is_none_or(|sessions| sessions.close_if_idle(&self.session))
    }
}

/// Lets the task wait for a watch, if it belongs to this connection.
fn take_over(watch: Watch, link: &Link, pending: &FuturesUnordered<Boxed<()>>) {
    if watch.link == link.number {
        pending.push(Box::pin(watch.fire()));
    }
}

/// Returns whether a session is to be closed: it is not needed, or it was given up and its holders know that
/// their locks are lost.
fn is_over(session: &Session) -> bool {
    is_unneeded(session) || session.is_given_up() && !session.is_certain()
}

/// Returns whether the session is not needed any more: its client was dropped, or it was retired and no claim
/// has anything left in it.
fn is_unneeded(session: &Session) -> bool {
    match session.state() {
        SessionState::Closed => true,
        SessionState::Retired => session.is_empty(),
        SessionState::Alive | SessionState::Over => false,
    }
}

async fn answer(heartbeat: &mut Option<Boxed<Answered>>) -> Answered {
    match heartbeat {
        Some(heartbeat) => heartbeat.await,
        None => std::future::pending().await,
    }
}

async fn sleep_until(clock: &Clock, at: Option<Instant>) {
    match at {
        Some(at) => clock.sleep_until(at).await,
        None => std::future::pending().await,
    }
}
