//! A claim that waits: it watches the node ahead of its own.

use lock_core::toolkit::Call;
use lock_core::{Effect, Error};
use zookeeper_client::{Error as ZkError, OneshotWatcher};

use super::{CallError, ZkClaim};
use crate::errors;
use crate::kind::Kind;
use crate::link::{Failure, Link};
use crate::session::Session;
use crate::watches;

/// The state of the node ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ahead {
    /// The node ahead is watched.
    Watched,
    /// The node ahead is a ticket that this user may not read, so it can't be watched.
    Hidden,
    /// The node ahead has gone, or is no ticket.
    Gone,
}

impl ZkClaim {
    /// Watches the node ahead, if it is a ticket.
    pub(super) async fn watch(
        &mut self,
        link: &Link,
        session: &Session,
        call: &Call,
        ahead: &str,
    ) -> Result<Ahead, Failure> {
        let path = self.place.directory.node(ahead);
        if self.watching.as_ref().is_some_and(|watching| watching.is_quiet(&path, link.number)) {
            return Ok(Ahead::Watched);
        }
        // Not a watch on its existence, which would also be set on a node that has gone.
        match link.ask(call, link.client.get_and_watch_data(&path)).await {
            Ok((_, stat, watcher)) => match Kind::of(ahead, &stat) {
                Kind::Ticket => Ok(self.register_watch(path, link, session, watcher)),
                Kind::Other => {
                    self.place.pass_over(ahead);
                    Ok(Ahead::Gone)
                }
                Kind::Persistent => Err(Failure::Persistent(path)),
            },
            Err(Failure::Refused(ZkError::NoNode)) => Ok(Ahead::Gone),
            Err(Failure::Refused(ZkError::NoAuth)) => Ok(Ahead::Hidden),
            Err(failure) => Err(failure),
        }
    }

    /// Watches the nodes of the directory, for a claim without a place.
    async fn watch_all(&mut self, link: &Link, session: &Session, call: &Call) -> Result<Ahead, Failure> {
        let path = self.place.directory.path().to_owned();
        match link.ask(call, link.client.list_and_watch_children(&path)).await {
            Ok((_, watcher)) => Ok(self.register_watch(path, link, session, watcher)),
            Err(Failure::Refused(ZkError::NoNode)) => Ok(Ahead::Gone),
            Err(failure) => Err(failure),
        }
    }

    /// Lets the session's task wait for the watch.
    fn register_watch(
        &mut self,
        path: String,
        link: &Link,
        session: &Session,
        watcher: OneshotWatcher,
    ) -> Ahead {
        let (watch, watching) = watches::watch(path, link.number, watcher, self.wakes.clone());
        session.watch(watch);
        self.watching = Some(watching);
        Ahead::Watched
    }

    pub(super) async fn begin_to_listen(&mut self, call: &Call) -> Result<(), CallError> {
        let session = self.join_session(call).await?;
        loop {
            let link = self.link(&session, call).await?;
            let outcome = match self.place.ahead().map(str::to_owned) {
                Some(ahead) => self.watch(&link, &session, call, &ahead).await,
                None => self.watch_all(&link, &session, call).await,
            };
            match outcome {
                Ok(Ahead::Hidden) => {
                    return Err(Error::unsupported("this user may not read the node ahead").into());
                }
                Ok(ahead) => {
                    if ahead == Ahead::Gone {
                        self.wakes.notify_one();
                    }
                    return Ok(());
                }
                Err(Failure::Broken) => session.cut(link.number),
                Err(Failure::Refused(e)) => return Err(errors::refused(e).into()),
                Err(Failure::Persistent(path)) => return Err(errors::persistent_node(&path).into()),
                Err(Failure::Late) => {
                    self.handle_late(&link, &session, call).await;
                    return Err(call.out_of_time(Effect::NotApplied).into());
                }
            }
        }
    }
}
