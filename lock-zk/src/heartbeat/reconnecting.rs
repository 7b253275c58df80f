//! A session reconnects, or goes on without a connection.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use lock_core::toolkit::Call;

use super::{Keeper, is_unneeded};
use crate::link::{Link, NotOpened};
use crate::session::SessionState;

/// The shortest pause between two attempts to resume a session.
const SHORTEST_PAUSE: Duration = Duration::from_millis(10);

impl Keeper {
    /// Reconnects the session. Repeats that until it succeeds, or until the session is over or not needed (`None`).
    pub(super) async fn resume(&self, last: u64) -> Option<Arc<Link>> {
        let session = &self.session;
        let mut failures = 0;
        for number in last + 1.. {
            session.site.pends_if_forked().await;
            if is_unneeded(session) {
                return None;
            }
            let outcome = {
                let mut connecting = pin!(self.connect(number));
                tokio::select! {
                    biased;
                    outcome = &mut connecting => outcome,
                    () = self.over() => {
                        self.retire();
                        connecting.await
                    }
                }
            };
            match outcome {
                Ok(link) => {
                    let link = Arc::new(link);
                    session.resume(link.clone());
                    return Some(link);
                }
                Err(NotOpened::Expired) => {
                    match self.sessions.upgrade() {
                        Some(sessions) => sessions.end(session, SessionState::Over),
                        None => session.end(SessionState::Over),
                    }
                    return None;
                }
                Err(NotOpened::Late | NotOpened::Failed(_)) => {}
            }
            failures += 1;
            self.pause(failures).await;
        }
        None
    }

    async fn connect(&self, number: u64) -> Result<Link, NotOpened> {
        let session = &self.session;
        let call = Call::begin(&self.clock, session.timeout() / 3);
        let link =
            Link::open(&session.site, number, session.timeout(), Some(session.info.clone()), &call).await?;
        // After this, reads return what was written before the session was resumed, or newer data.
        match link.ask(&call, link.client.sync("/")).await {
            Ok(()) => Ok(link),
            Err(_) => {
                // Dropping the link without this would close the session.
                link.end().await;
                Err(NotOpened::Late)
            }
        }
    }

    /// Waits between two attempts to resume the session.
    ///
    /// Each attempt makes the server keep the session for one more timeout, even if its answer doesn't arrive. A
    /// session that is not certain any more must be able to end, so that other clients can take its locks.
    async fn pause(&self, failures: u32) {
        let session = &self.session;
        if session.state() == SessionState::Alive {
            let pause = (SHORTEST_PAUSE * (1 << failures.min(4))).min(session.timeout() / 16);
            let random = session.site.random.up_to(pause / 2);
            tokio::select! {
                biased;
                () = self.clock.sleep(pause / 2 + random) => {}
                () = self.over() => self.retire(),
            }
        }
        if session.state() == SessionState::Retired && !session.is_empty() {
            let until = self.clock.now() + session.timeout() + self.tick * 2;
            loop {
                tokio::select! {
                    biased;
                    () = self.clock.sleep_until(until) => return,
                    () = session.left.notified() => {
                        if is_unneeded(session) {
                            return;
                        }
                    }
                }
            }
        }
    }

    /// Resolves when the session is not certain any more. Never resolves if the session is not alive already.
    async fn over(&self) {
        if self.session.state() != SessionState::Alive {
            std::future::pending::<()>().await;
        }
        self.clock.sleep_until(self.session.ends()).await;
    }
}
