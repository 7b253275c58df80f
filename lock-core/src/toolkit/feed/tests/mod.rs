//! A feed on a server that the tests control, in virtual time.

mod gaps;
mod listening;
mod moving;
mod server;
mod upkeep;

use std::sync::Arc;
use std::time::Duration;

use self::server::{Server, Topic};
use super::Feed;
use crate::clock::Clock;
use crate::driver::Context;
use crate::error::Result;
use crate::name::Name;
use crate::owner::Owner;
use crate::random::Random;
use crate::toolkit::Subscription;
use crate::toolkit::call::Call;

const PATIENCE: Duration = Duration::from_secs(5);
const MS: Duration = Duration::from_millis(1);

/// A client with its feed, and its server.
struct Scene {
    server: Server,
    clock: Clock,
    feed: Arc<Feed<Server>>,
}

impl Scene {
    fn new() -> Scene {
        let clock = Clock::tokio();
        let server = Server::new(clock.clone());
        let context = Context::new(clock.clone(), Random::system(), PATIENCE);
        Scene { feed: Arc::new(Feed::new(server.clone(), context)), server, clock }
    }

    fn call(&self) -> Call {
        Call::begin(&self.clock, PATIENCE)
    }

    /// Listens as a claim that waits for the lock.
    fn listen(&self, lock: &str) -> impl Future<Output = Result<Subscription>> + Send + use<> {
        let (feed, call, name) = (self.feed.clone(), self.call(), name(lock));
        async move { feed.listen(&name, Topic::Releases(name.clone()), &call).await }
    }

    /// Watches as the claim of an owner that holds a lock.
    fn watch(&self, owner: Owner) -> impl Future<Output = Result<Subscription>> + Send + use<> {
        let (feed, call) = (self.feed.clone(), self.call());
        async move { feed.watch(owner, Topic::Revokes, &call).await }
    }

    /// Returns whether the claim was woken since the last look.
    async fn is_woken(&self, listening: &Subscription) -> bool {
        self.clock.timeout(MS, listening.woken()).await.is_some()
    }

    /// Lets the feed's task do what it can do now.
    async fn settle(&self) {
        self.clock.sleep(MS).await;
    }
}

fn name(name: &str) -> Name {
    Name::new(name).unwrap()
}

fn owner() -> Owner {
    Owner::mint(&Random::system())
}
