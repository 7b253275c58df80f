//! Keeps the connection for wake-ups at the primary. A release is published there; a server that was cut off from it,
//! or is no longer its replica, passes nothing on.

use std::sync::{Arc, Weak};
use std::time::Duration;

use lock_core::driver::Context;
use lock_core::toolkit::{Call, SharedConnection, SourceError};
use lock_core::{Clock, Error};
use redis::RedisError;
use tokio::sync::watch;

use crate::errors;
use crate::facts::Role;
use crate::finder::Finder;
use crate::link::{Connector, Link, ServerIdentity};
use crate::pushes::Pushes;
use crate::race::LOOK_AGAIN;
use crate::sentinels::Switches;

/// The address of no server.
const NO_SERVER: &str = "";

/// Opens connections for wake-ups, and leaves them when another server is the primary.
#[derive(Debug)]
pub(crate) struct Follower {
    finder: Arc<Finder>,
    /// The connection for requests, which has asked the server for its role.
    links: Arc<SharedConnection<Connector>>,
    clock: Clock,
    patience: Duration,
}

/// The primary that a connection for wake-ups was opened to, and what tells of its successor.
pub(crate) struct Followed {
    site: ServerIdentity,
    /// The connection for requests that led there. If that is replaced, this does not keep it open.
    link: Weak<Link>,
    newest: watch::Receiver<Option<ServerIdentity>>,
    switches: Option<Switches>,
}

impl Follower {
    pub(crate) fn new(
        finder: Arc<Finder>,
        links: Arc<SharedConnection<Connector>>,
        context: &Context,
    ) -> Follower {
        Follower { finder, links, clock: context.clock.clone(), patience: context.patience }
    }

    /// Connects to the primary, or to the only server whatever its role is: then there is nothing to follow.
    pub(crate) async fn open(&self) -> Result<(Pushes, Option<Followed>), SourceError> {
        if let Some(server) = self.finder.only_server() {
            return Ok((Pushes::open(server).await.map_err(broken)?, None));
        }
        // All steps share one patience. After that the feed drops them, and what would be done about a silent primary.
        let call = &self.call().with_reserve();
        // Listened to before the primary is known, so that no failover after that is missed.
        let mut switches = self.finder.switches(&self.quarter_of(call)).await;
        let found = self.find(call, &mut switches).await;
        let link = found.map_err(|e| SourceError::Broken(e.message().to_owned()))?;
        let mut followed = Followed {
            site: link.site.clone(),
            link: Arc::downgrade(&link),
            newest: self.links.connector().newest.subscribe(),
            switches,
        };
        let left = call.left();
        let opened = self.unless_left(Some(&mut followed), call.within(Pushes::open(link.client()))).await?;
        // Requests get no answer there either, as far as can be seen from here, if there was time for one.
        if opened.as_ref().map_or(left >= self.patience / 4, Result::is_err) {
            self.links.give_up(&link);
        }
        Ok((opened.unwrap_or_else(|| Err(silent())).map_err(broken)?, Some(followed)))
    }

    /// Returns what `step` returns, unless another server may be the primary before that: one that stands still would
    /// not be left otherwise.
    pub(crate) async fn unless_left<T>(
        &self,
        followed: Option<&mut Followed>,
        step: impl Future<Output = T>,
    ) -> Result<T, SourceError> {
        let Some(followed) = followed else { return Ok(step.await) };
        tokio::select! {
            biased;
            outcome = step => Ok(outcome),
            left = self.left(followed) => Err(left),
        }
    }

    /// Returns when another server may be the primary.
    ///
    /// Cancel safe.
    async fn left(&self, followed: &mut Followed) -> SourceError {
        let Followed { site, link, newest, switches } = followed;
        let switched = async {
            match switches {
                Some(switches) => switches.next(&site.address).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            // An error means that the client was dropped, and the feed with it.
            _ = newest.wait_for(|newest| newest.as_ref() != Some(site)) => {
                left("the connection for requests leads to another server")
            }
            switched = switched => match switched {
                Ok(()) => {
                    let newest = self.links.usable().filter(|newest| newest.site == *site);
                    link.upgrade().iter().chain(&newest).for_each(|link| self.leave(link));
                    left("the sentinels tell of a failover")
                }
                Err(_) => left("the connection to a sentinel broke"),
            },
        }
    }

    /// Asks the server whether it is the primary, and the sentinel for a sign of life.
    pub(crate) async fn check(&self, followed: &mut Followed) -> Result<(), SourceError> {
        match &mut followed.switches {
            Some(switches) => {
                switches.check().await.map_err(|_| left("the connection to a sentinel broke"))?;
            }
            None if self.finder.switches(&self.quarter_of(&self.call())).await.is_some() => {
                return Err(left("a sentinel can be asked again"));
            }
            None => {}
        }
        let call = &self.call().with_reserve();
        let link = self.links.get(call).await.map_err(|e| SourceError::Broken(e.message().to_owned()))?;
        if link.site != followed.site {
            return Err(left("the connection for requests leads to another server"));
        }
        let why = match call.within(link.send(&redis::cmd("HELLO"))).await.map(Role::of) {
            None => "the server does not answer",
            Some(Some(Role::Replica)) => "the server is a replica now",
            Some(_) => return Ok(()),
        };
        self.leave(&link);
        Err(left(why))
    }

    /// Returns the connection for requests. While there is no primary, tries again and again: all who wait on the dead
    /// one are to be woken as soon as it has a successor.
    async fn find(&self, call: &Call, switches: &mut Option<Switches>) -> Result<Arc<Link>, Error> {
        loop {
            let error = match self.primary(call).await {
                Ok(link) => return Ok(link),
                Err(e) => e,
            };
            let promoted = async {
                match switches {
                    Some(switches) => switches.next(NO_SERVER).await,
                    None => std::future::pending().await,
                }
            };
            match call.clock().timeout(LOOK_AGAIN, promoted).await {
                _ if !error.is_transient() || call.is_over() => return Err(error),
                Some(Err(_)) => return Err(error),
                Some(Ok(())) | None => {}
            }
        }
    }

    /// Returns the connection for requests. If the sentinels name another server, connects anew.
    async fn primary(&self, call: &Call) -> Result<Arc<Link>, Error> {
        let link = self.links.get(call).await?;
        match self.finder.may_be_primary(&link.site.address, &self.quarter_of(call)).await {
            true => Ok(link),
            false => {
                self.links.give_up(&link);
                self.links.get(call).await
            }
        }
    }

    /// Gives up the connection for requests, and ends the calls on it: the next ones find the primary.
    fn leave(&self, link: &Arc<Link>) {
        self.links.give_up(link);
        link.leave();
    }

    fn call(&self) -> Call {
        Call::begin(&self.clock, self.patience)
    }

    /// Sentinels that do not answer must not take the time of a primary that does.
    fn quarter_of(&self, call: &Call) -> Call {
        Call::begin(&self.clock, call.left().min(self.patience / 4))
    }
}

fn silent() -> RedisError {
    RedisError::from((redis::ErrorKind::Io, "it does not answer"))
}

fn left(why: &str) -> SourceError {
    SourceError::Broken(why.to_owned())
}

pub(crate) fn broken(error: RedisError) -> SourceError {
    SourceError::Broken(errors::connecting(error).message().to_owned())
}
