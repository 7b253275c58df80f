//! A server, clients, and a network between them that does with messages what a test says.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use lock_core::Instant;
use lock_memory::server::{ClientId, Handled, Server};
use lock_memory::wire::{Inbox, Pushed, Reply, Wire};
use lock_memory::{ServerClock, ServerTime};
use tokio::sync::Notify;

use crate::virtual_time::clock;

/// A server, a network that can be told what to do with messages, and its clients.
pub(crate) struct World<S: Server> {
    pub(crate) server: Mutex<S>,
    pub(crate) clock: ServerClock,
    pub(crate) network: Mutex<Network<S>>,
}

/// Selects a request, and says what happens to it.
pub(crate) type Plan<S> = (fn(&<S as Server>::Request) -> bool, Fate);

pub(crate) struct Network<S: Server> {
    /// Each plan applies to the next request that it selects.
    pub(crate) plans: Vec<Plan<S>>,
    /// Requests that wait for their delivery, or that were delivered and can be delivered once more.
    pub(crate) caught: Vec<(ClientId, S::Request)>,
    /// When each request whose answer is late was delivered.
    pub(crate) late: Vec<Instant>,
    /// Lets a slow answer arrive.
    pub(crate) arrive: Arc<Notify>,
    inboxes: Vec<(ClientId, Arc<Inbox<S::Push>>)>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Fate {
    /// The request is delivered only when the test says so.
    Held,
    /// The request is delivered, and its answer is lost.
    Unanswered,
    /// The request is delivered and answered, and can be delivered once more.
    Doubled,
    /// The caught request is delivered before it.
    Overtaken,
    /// The request is delivered, and its answer arrives when the test says so.
    Slow,
    /// The request is delivered, and its answer arrives [`LATE`] after that.
    Late,
}

/// The delay of a late answer: a heartbeat waits longer than this.
pub(crate) const LATE: Duration = Duration::from_millis(150);

impl<S: Server> World<S> {
    pub(crate) fn new(begin: impl FnOnce(ServerTime) -> S) -> Arc<World<S>> {
        let clock = ServerClock::new(clock(), ServerTime::from_micros(1_700_000_000_000_000));
        let network = Network {
            plans: Vec::new(),
            caught: Vec::new(),
            late: Vec::new(),
            arrive: Arc::default(),
            inboxes: Vec::new(),
        };
        Arc::new(World { server: Mutex::new(begin(clock.now())), clock, network: Mutex::new(network) })
    }

    pub(crate) fn next(&self, which: fn(&S::Request) -> bool, fate: Fate) {
        self.network.lock().unwrap().plans.push((which, fate));
    }

    /// Delivers the caught request, and returns the server's answer.
    pub(crate) fn deliver_late(&self) -> S::Answer {
        let (from, request) = self.network.lock().unwrap().caught.pop().expect("something was caught");
        self.deliver(from, request).answer
    }

    fn deliver(&self, from: ClientId, request: S::Request) -> Reply<S::Answer> {
        let now = self.clock.now();
        let Handled { answer, pushes } = self.server.lock().unwrap().handle(now, from, request);
        for (to, push) in pushes {
            self.push(to, Pushed::Push(push));
        }
        Reply { now, answer }
    }

    /// Called without any lock, because an inbox may send a request itself.
    pub(crate) fn push(&self, to: ClientId, pushed: Pushed<S::Push>) {
        let inboxes = self.network.lock().unwrap().inboxes.clone();
        inboxes.iter().filter(|(client, _)| *client == to).for_each(|(_, inbox)| inbox(pushed.clone()));
    }

    pub(crate) async fn keeps(&self, kept: u64) {
        while self.kept() != kept {
            clock().sleep(Duration::from_millis(1)).await;
        }
    }

    pub(crate) fn kept(&self) -> u64 {
        self.server.lock().unwrap().kept(self.clock.now())
    }
}

/// One client's end of the network.
pub(crate) struct End<S: Server>(pub(crate) Arc<World<S>>, pub(crate) ClientId);

#[async_trait]
impl<S: Server> Wire<S> for End<S> {
    async fn ask(&self, request: S::Request) -> Reply<S::Answer> {
        let End(world, from) = self;
        let fate = {
            let mut network = world.network.lock().unwrap();
            let planned = network.plans.iter().position(|(which, _)| which(&request));
            let fate = planned.map(|at| network.plans.remove(at).1);
            if matches!(fate, Some(Fate::Held | Fate::Doubled | Fate::Slow)) {
                network.caught.push((*from, request.clone()));
            }
            fate
        };
        if fate == Some(Fate::Overtaken) {
            world.deliver_late();
        }
        let reply = (fate != Some(Fate::Held)).then(|| world.deliver(*from, request));
        if fate == Some(Fate::Slow) {
            let arrive = world.network.lock().unwrap().arrive.clone();
            arrive.notified().await;
        }
        if fate == Some(Fate::Late) {
            let clock = clock();
            world.network.lock().unwrap().late.push(clock.now());
            clock.sleep(LATE).await;
        }
        match reply {
            Some(reply) if fate != Some(Fate::Unanswered) => reply,
            _ => std::future::pending().await,
        }
    }

    fn tell(&self, request: S::Request) {
        self.0.deliver(self.1, request);
    }

    fn receive(&self, inbox: Inbox<S::Push>) {
        self.0.network.lock().unwrap().inboxes.push((self.1, Arc::new(inbox)));
    }
}

impl<S: Server> fmt::Debug for End<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "End({:?})", self.1)
    }
}
