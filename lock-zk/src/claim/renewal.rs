//! A claim that holds: what a renewal asks for, and what it relies on.
//!
//! Heartbeats prove the session. A watch on the node proves that the node exists: the server reports an event of a node
//! before it answers any later request of this session, heartbeats included (ZooKeeper's programmer's guide, *What
//! ZooKeeper Guarantees about Watches*). So a node is read once on each connection, at the first renewal there, and one
//! heartbeat renews all locks of the session.

use lock_core::Effect;
use lock_core::driver::{LossReason, Renewal};
use lock_core::toolkit::Call;
use zookeeper_client::Error as ZkError;

use super::{CallError, Held, ZkClaim};
use crate::deadlines::Deadlines;
use crate::errors;
use crate::layout;
use crate::link::{Failure, Link};
use crate::session::{Session, SessionState};
use crate::watches::{self, Watching};

impl ZkClaim {
    /// Reads the node if it isn't watched, and relies on the session's heartbeats.
    pub(super) async fn renew_within(
        &mut self,
        session: &Session,
        call: &Call,
    ) -> Result<Renewal, CallError> {
        loop {
            if let Some(cause) = self.loss_reason(session, call).await? {
                if cause == LossReason::Revoked {
                    self.held = Some(Held::Revoked);
                    // The session removes the node at the deadline, in case the holder's work has not ended by then.
                    self.place.path().into_iter().for_each(|path| session.remove_at_deadline(path));
                }
                return Ok(Renewal::Lost(cause));
            }
            let certain = self.certain(session, call).await;
            if session.state() != SessionState::Alive {
                return Ok(Renewal::Lost(LossReason::Session));
            }
            // Something has happened to the node before the proof came.
            if self.own.as_ref().is_some_and(Watching::has_fired) {
                continue;
            }
            self.told = Some(certain.ends());
            let (valid_for, age) = certain.left_at(call.began());
            return Ok(Renewal::Held { valid_for, age });
        }
    }

    /// Returns why the lock is lost, if it is, as far as this connection's server has reported.
    async fn loss_reason(&mut self, session: &Session, call: &Call) -> Result<Option<LossReason>, CallError> {
        loop {
            let link = self.link(session, call).await?;
            let path = self.place.path();
            if path.is_some_and(|path| self.own.as_ref().is_some_and(|own| own.is_quiet(&path, link.number)))
            {
                return Ok(None);
            }
            match self.ask_for_the_node(&link, session, call).await {
                Ok(cause) => return Ok(cause),
                Err(Failure::Broken) => session.cut(link.number),
                Err(Failure::Refused(e)) => return Err(errors::refused(e).into()),
                Err(Failure::Persistent(path)) => return Err(errors::persistent_node(&path).into()),
                Err(Failure::Late) => {
                    self.handle_late(&link, session, call).await;
                    return Err(call.out_of_time(Effect::NotApplied).into());
                }
            }
        }
    }

    /// Reads the node, and watches it from now on. Returns why the lock is lost, if it is.
    async fn ask_for_the_node(
        &mut self,
        link: &Link,
        session: &Session,
        call: &Call,
    ) -> Result<Option<LossReason>, Failure> {
        if let Some(path) = self.place.path() {
            match link.ask(call, link.client.get_and_watch_data(&path)).await {
                Ok((data, _, watcher)) => {
                    let (watch, own) = watches::watch(path, link.number, watcher, self.wakes.clone());
                    session.watch(watch);
                    self.own = Some(own);
                    return Ok(layout::is_revoked(&data).then_some(LossReason::Revoked));
                }
                Err(Failure::Refused(ZkError::NoNode)) => {}
                Err(failure) => return Err(failure),
            }
        }
        // The node was removed. The node that is first now shows why, as far as that is known.
        let directory = &self.place.directory;
        let queue = directory.queue(link, call).await?;
        let Some(first) = queue.first() else { return Ok(Some(LossReason::Gone)) };
        match link.ask(call, link.client.get_data(&directory.node(&first.name))).await {
            Ok((data, _)) if layout::is_revoked(&data) => Ok(Some(LossReason::Revoked)),
            Ok(_) | Err(Failure::Refused(_)) => Ok(Some(LossReason::Taken)),
            Err(failure) => Err(failure),
        }
    }

    /// Returns until when the session is certain. If less than half of the timeout is left, and the holder knows that
    /// deadline already, it waits for a later one. A later one is returned even if it adds little: when the next proof
    /// comes, the session may be over.
    async fn certain(&self, session: &Session, call: &Call) -> Deadlines {
        loop {
            // Before the deadlines are read, so that no later proof is missed.
            let (proven, deadlines) = (session.proven(), session.deadlines());
            let ends = deadlines.ends();
            let is_enough = Some(ends) > self.told || ends.since(call.clock().now()) > session.timeout() / 2;
            if is_enough || session.state() != SessionState::Alive {
                return deadlines;
            }
            session.wanted.notify_one();
            if call.within(proven).await.is_none() {
                return deadlines;
            }
        }
    }
}
