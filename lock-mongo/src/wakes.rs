//! Wake-ups, as claims use them: one change stream per client, open while a claim listens.

use std::sync::Arc;

use lock_core::driver::Context;
use lock_core::toolkit::{Call, Feed, Prefix, Subscription};
use lock_core::{Error, Name, Owner, Result};

use crate::feed::{AllLocks, Streams};
use crate::profile::{Kind, Profile};
use crate::server::Current;

/// The wake-ups to which the claims of a client listen.
#[derive(Debug)]
pub(crate) struct Wakes {
    feed: Feed<Streams>,
    profile: Arc<Profile>,
}

impl Wakes {
    pub(crate) fn new(current: Current, profile: Arc<Profile>, prefix: Prefix, context: Context) -> Wakes {
        let streams = Streams::new(current, profile.clone(), prefix, &context);
        Wakes { feed: Feed::new(streams, context), profile }
    }

    /// Listens for releases of `name`. Returns when the stream is open.
    ///
    /// `Unsupported` on a standalone server, and if this user may not open a change stream.
    pub(crate) async fn listen(&self, name: &Name, call: &Call) -> Result<Subscription> {
        self.must_have_streams()?;
        self.feed.listen(name, AllLocks, call).await
    }

    /// Listens for releases of `name`, if the stream is open.
    pub(crate) fn listen_already(&self, name: &Name) -> Option<Subscription> {
        self.feed.listen_already(name, &AllLocks)
    }

    /// Listens for revokes of the lock that this owner holds, as `listen` does.
    pub(crate) async fn watch(&self, owner: &Owner, call: &Call) -> Result<Subscription> {
        self.must_have_streams()?;
        self.feed.watch(*owner, AllLocks, call).await
    }

    fn must_have_streams(&self) -> Result<()> {
        match self.profile.kind() {
            Some(Kind::Standalone) => Err(Error::unsupported(STANDALONE)),
            _ => Ok(()),
        }
    }
}

const STANDALONE: &str = "a standalone server has no change streams; waiters ask again and again instead";
