//! A claim that waits: it watches who stands ahead of it.

use lock_core::Done;
use lock_core::driver::Call;
use zookeeper_client::{Error as ZkError, OneshotWatcher};

use super::{Trouble, ZkClaim};
use crate::errors;
use crate::link::{Failure, Link};
use crate::session::Session;
use crate::watches;

impl ZkClaim {
    /// Watches who stands ahead; whether somebody does.
    pub(super) async fn watch(
        &mut self,
        link: &Link,
        session: &Session,
        call: &Call,
        ahead: &str,
    ) -> Result<bool, Failure> {
        let path = self.place.directory.node(ahead);
        if self.watching.as_ref().is_some_and(|watching| watching.is_quiet(&path, link.number)) {
            return Ok(true);
        }
        // Not of its existence: that would be a watch on a node that is gone, too.
        match link.ask(call, link.client.get_and_watch_data(&path)).await {
            Ok((_, _, watcher)) => Ok(self.is_watched(path, link, session, watcher)),
            Err(Failure::Refused(ZkError::NoNode)) => Ok(false),
            Err(failure) => Err(failure),
        }
    }

    /// Watches who comes and goes, without a place among them.
    async fn watch_all(&mut self, link: &Link, session: &Session, call: &Call) -> Result<bool, Failure> {
        let path = self.place.directory.path().to_owned();
        match link.ask(call, link.client.list_and_watch_children(&path)).await {
            Ok((_, watcher)) => Ok(self.is_watched(path, link, session, watcher)),
            Err(Failure::Refused(ZkError::NoNode)) => Ok(false),
            Err(failure) => Err(failure),
        }
    }

    /// Leaves the watch to the session. That there is something to watch.
    fn is_watched(&mut self, path: String, link: &Link, session: &Session, watcher: OneshotWatcher) -> bool {
        let (watch, watching) = watches::watch(path, link.number, watcher, self.wakes.clone());
        session.watch(watch);
        self.watching = Some(watching);
        true
    }

    pub(super) async fn begin_to_listen(&mut self, call: &Call) -> Result<(), Trouble> {
        let session = self.sit_down(call).await?;
        loop {
            let link = self.link(&session, call).await?;
            let outcome = match self.place.ahead().map(str::to_owned) {
                Some(ahead) => self.watch(&link, &session, call, &ahead).await,
                None => self.watch_all(&link, &session, call).await,
            };
            match outcome {
                Ok(is_there) => {
                    self.listening = true;
                    if !is_there {
                        self.wakes.notify_one();
                    }
                    return Ok(());
                }
                Err(Failure::Broken) => session.cut(link.number),
                Err(Failure::Refused(e)) => return Err(errors::refused(e).into()),
                Err(Failure::Late) => {
                    self.is_late(&link, &session, call).await;
                    return Err(call.out_of_time(Done::No).into());
                }
            }
        }
    }
}
