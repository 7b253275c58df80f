//! A server in this process, and the wires to it: a mutex takes the place of a network.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use lock_core::toolkit::Prefix;
use lock_core::{Clock, Owner, Random};
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use crate::server::{ClientId, Handled, Server};
use crate::time::{ServerClock, ServerTime};
use crate::wire::{Inbox, Pushed, Reply, Wire};

/// A server with its clock and its clients.
#[derive(Debug)]
pub(crate) struct Host<S: Server> {
    /// Identifies this server among all servers.
    id: Owner,
    clock: ServerClock,
    state: Mutex<State<S>>,
    /// Notified when the server's next expiry is sooner than it was.
    sooner: Notify,
    /// Cuts every wire.
    pub(crate) cut: Cut,
}

#[derive(Debug)]
struct State<S: Server> {
    server: S,
    requests: u64,
    last_client: u64,
    clients: HashMap<ClientId, Client<S>>,
}

struct Client<S: Server> {
    inbox: Arc<dyn Fn(Pushed<S::Push>) + Send + Sync>,
    cut: Cut,
}

/// A cut that loses messages. Cheap to clone; all clones are one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cut(Arc<AtomicBool>);

/// Counters of the requests, of the changes that they made, and of what is left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Requests that arrived.
    pub requests: u64,
    /// The number of requests that changed who holds, waits, or is refused.
    pub writes: u64,
    /// The number of things that locks have left on the server, without tokens: holders, waiters, clients
    /// that listen.
    pub kept: u64,
    /// The number of names that the server remembers for their tokens.
    pub tokens: u64,
}

impl<S: Server> Host<S> {
    /// Returns which server this is, and the prefix of names on it.
    pub(crate) fn identity(&self, prefix: &Prefix) -> String {
        format!("{} {}", self.id, prefix.as_str())
    }

    pub(crate) fn new(server: S, clock: ServerClock) -> Host<S> {
        let state = State { server, requests: 0, last_client: 0, clients: HashMap::new() };
        Host {
            id: Owner::mint(&Random::system()),
            clock,
            state: Mutex::new(state),
            sooner: Notify::new(),
            cut: Cut::default(),
        }
    }

    /// Creates a wire for a new client, which `cut` cuts. Its task runs on the current runtime.
    pub(crate) fn connect(self: &Arc<Self>, cut: &Cut) -> LocalWire<S> {
        let mut state = self.state();
        state.last_client += 1;
        let client = ClientId(state.last_client);
        let expiry_task = tokio::spawn(expire_when_due(self.clone())).abort_handle();
        LocalWire { host: self.clone(), client, cut: cut.clone(), expiry_task }
    }

    /// Does what a client could ask for, without the network and the counters.
    pub(crate) fn order(&self, request: S::Request) -> S::Answer {
        // No client has this number: real clients are counted from one.
        self.handle(ClientId(0), request, 0).answer
    }

    /// Returns the clock of the server's clients, unless their options have another.
    pub(crate) fn rate(&self) -> &Clock {
        self.clock.rate()
    }

    /// Returns the server's time.
    pub(crate) fn now(&self) -> ServerTime {
        self.clock.now()
    }

    pub(crate) fn counters(&self) -> Counters {
        let state = self.state();
        let (requests, server) = (state.requests, &state.server);
        let kept = server.kept(self.clock.now());
        Counters { requests, writes: server.writes(), kept, tokens: server.tokens() }
    }

    /// Replaces the server by the one that `begin` makes of the time, as a restart without its data does.
    pub(crate) fn restart(&self, begin: impl FnOnce(ServerTime) -> S) {
        self.state().server = begin(self.clock.now());
        self.tell_gap(|cut| !cut.is_cut() && !self.cut.is_cut());
    }

    /// Notifies the clients behind `cut` that messages may have been lost.
    pub(crate) fn tell_gap(&self, behind: impl Fn(&Cut) -> bool) {
        let inboxes: Vec<_> =
            self.state().clients.values().filter(|c| behind(&c.cut)).map(|c| c.inbox.clone()).collect();
        inboxes.iter().for_each(|inbox| inbox(Pushed::Gap));
    }

    fn handle(&self, from: ClientId, request: S::Request, counted: u64) -> Reply<S::Answer> {
        let mut state = self.state();
        let now = self.clock.now();
        let before = state.server.next_expiry();
        state.requests += counted;
        let Handled { answer, pushes } = state.server.handle(now, from, request);
        let after = state.server.next_expiry();
        self.deliver(state, pushes);
        if after.is_some_and(|after| before.is_none_or(|before| after < before)) {
            self.sooner.notify_waiters();
        }
        Reply { now, answer }
    }

    fn expire(&self) {
        let mut state = self.state();
        let pushes = state.server.expire(self.clock.now());
        self.deliver(state, pushes);
    }

    /// Delivers the messages that can be delivered, without the server's lock: an inbox may send a request itself.
    fn deliver(&self, state: MutexGuard<'_, State<S>>, pushes: Vec<(ClientId, S::Push)>) {
        if pushes.is_empty() || self.cut.is_cut() {
            return;
        }
        let mut deliveries = Vec::new();
        for (to, push) in pushes {
            if let Some(client) = state.clients.get(&to).filter(|client| !client.cut.is_cut()) {
                deliveries.push((client.inbox.clone(), push));
            }
        }
        drop(state);
        deliveries.into_iter().for_each(|(inbox, push)| inbox(Pushed::Push(push)));
    }

    fn state(&self) -> MutexGuard<'_, State<S>> {
        // No server panics, so a poisoned one is complete.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Wakes the server when something expires. Every wire has such a task, because any of their runtimes may end first.
async fn expire_when_due<S: Server>(host: Arc<Host<S>>) {
    loop {
        // From here on no change is missed: `Notified` counts from its creation.
        let sooner = host.sooner.notified();
        let next = host.state().server.next_expiry();
        let due = async {
            match next {
                Some(at) => host.clock.sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = sooner => {}
            () = due => host.expire(),
        }
    }
}

impl Cut {
    pub(crate) fn cut(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    pub(crate) fn mend(&self) {
        self.0.store(false, Ordering::SeqCst);
    }

    pub(crate) fn is_cut(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }

    pub(crate) fn is(&self, other: &Cut) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// A wire within the process. No message is late, and every message is lost while it is cut.
pub(crate) struct LocalWire<S: Server> {
    host: Arc<Host<S>>,
    client: ClientId,
    cut: Cut,
    expiry_task: AbortHandle,
}

impl<S: Server> LocalWire<S> {
    fn is_cut(&self) -> bool {
        self.cut.is_cut() || self.host.cut.is_cut()
    }
}

#[async_trait]
impl<S: Server> Wire<S> for LocalWire<S> {
    async fn ask(&self, request: S::Request) -> Reply<S::Answer> {
        if self.is_cut() {
            // The request is lost and will never be answered.
            std::future::pending::<()>().await;
        }
        self.host.handle(self.client, request, 1)
    }

    fn tell(&self, request: S::Request) {
        if !self.is_cut() {
            self.host.handle(self.client, request, 1);
        }
    }

    fn receive(&self, inbox: Inbox<S::Push>) {
        let client = Client { inbox: inbox.into(), cut: self.cut.clone() };
        self.host.state().clients.insert(self.client, client);
    }
}

impl<S: Server> Drop for LocalWire<S> {
    fn drop(&mut self) {
        self.expiry_task.abort();
        let mut state = self.host.state();
        let _: Option<Client<S>> = state.clients.remove(&self.client);
        state.server.hang_up(self.client);
    }
}

impl<S: Server> fmt::Debug for LocalWire<S> {
    /// Leaves out the server: what it keeps is not this client's.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalWire")
            .field("client", &self.client)
            .field("cut", &self.cut)
            .finish_non_exhaustive()
    }
}

impl<S: Server> fmt::Debug for Client<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("cut", &self.cut).finish_non_exhaustive()
    }
}
