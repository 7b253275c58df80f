//! The driver of a [`LeaseServer`]: compare-and-set, one request per call, wake-ups that the server pushes.
//!
//! It shows everything that a backend of this family has to do.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;
use lock_core::driver::{
    Attempt, Busy, Claim, Driver, Fencing, Finding, Grant, Inspection, Lease, Level, Lists, Predecessor,
    Release, Renewal, Request, Revocation, Revoked, UnixTime, Wakes, Watched,
};
use lock_core::driver::{Takeover, Takeovers};
use lock_core::toolkit::{Call, Hub, Prefix, Subscription, Watchers};
use lock_core::{Clock, Effect, Error, Info, Name, Result};

use crate::server::Key;
use crate::server::lease::{Answer, LeaseServer, Notification, Request as Ask, TOKEN_MEMORY};
use crate::time::ServerTime;
use crate::wire::{Connection, Pushed, Wire, unexpected};
use crate::{LONGEST_TTL, SHORTEST_TTL};

/// Claims locks on a [`LeaseServer`].
#[derive(Debug)]
pub struct LeaseDriver {
    server: Arc<Link>,
    info: Arc<Info>,
}

/// State that a client and its claims share.
#[derive(Debug)]
struct Link {
    connection: Connection<LeaseServer>,
    prefix: Prefix,
    /// Waiters that listen, by the name of the lock.
    hub: Hub,
    /// Holders that are notified of a revoke, by their owner.
    holders: Watchers,
    /// The server was asked to announce revokes. After a gap it may have forgotten that, so it is asked again.
    asked_to_watch: AtomicBool,
    /// The server has confirmed that it announces revokes.
    watches: AtomicBool,
    /// The serial of the last `Listen`.
    serial: AtomicU64,
}

impl LeaseDriver {
    /// Creates a driver of the server at the other end of `wire`, called `server`.
    pub fn new(wire: Arc<dyn Wire<LeaseServer>>, server: &str, prefix: Prefix, clock: Clock) -> LeaseDriver {
        let link = Arc::new(Link {
            connection: Connection::new(wire, clock),
            prefix,
            hub: Hub::default(),
            holders: Watchers::default(),
            asked_to_watch: AtomicBool::new(false),
            watches: AtomicBool::new(false),
            serial: AtomicU64::new(0),
        });
        let inbox = Arc::downgrade(&link);
        link.connection.receive(Box::new(move |pushed| take(&inbox, pushed)));
        LeaseDriver { server: link, info: Arc::new(info(server)) }
    }

    /// Sets the identity of the server, which is the same for all drivers of that server.
    #[must_use]
    pub(crate) fn of(mut self, identity: String) -> LeaseDriver {
        Arc::make_mut(&mut self.info).identity = Some(identity);
        self
    }
}

fn take(link: &Weak<Link>, pushed: Pushed<Notification>) {
    let Some(link) = link.upgrade() else { return };
    match pushed {
        Pushed::Push(Notification::Released(key)) => link.wake(&key),
        Pushed::Push(Notification::Revoked(owner)) => link.holders.wake(owner),
        Pushed::Gap => link.listen_again(),
    }
}

fn info(server: &str) -> Info {
    let mut info = Info::new(
        "memory",
        server,
        Fencing::WhileDataIsKept { clock_step: TOKEN_MEMORY, kept: "as long as this process".to_owned() },
        Lease::Lock,
        SHORTEST_TTL..=LONGEST_TTL,
    );
    info.wakes = Wakes::Pushed;
    info.lists = Lists::Held;
    info.takeovers = Takeovers::InOneRequest;
    info.clock = "the process's own, which is not set from outside";
    info.data_loss =
        "everything is lost with the process, holders included; a new process's tokens are higher than the \
         old one's unless the machine's clock was set back in between"
            .to_owned();
    info.requests_per_hand_over = 2;
    info
}

#[async_trait]
impl Driver for LeaseDriver {
    fn info(&self) -> Arc<Info> {
        self.info.clone()
    }

    fn claim(&self, request: Request) -> Box<dyn Claim> {
        let key = self.server.key(&request.name);
        Box::new(LeaseClaim { server: self.server.clone(), key, request, listener: None, watching: None })
    }

    async fn inspect(&self, name: &Name, patience: Duration) -> Result<Inspection> {
        let call = &self.server.connection.call(patience);
        let holder = match self.server.ask(call, Ask::Inspect { key: self.server.key(name) }).await? {
            Answer::Holder(holder) => holder,
            other => return Err(unexpected(&other)),
        };
        Ok(Inspection::new(holder, None))
    }

    async fn revoke(&self, name: &Name, revocation: Revocation) -> Result<Revoked> {
        let Revocation { holder, by, label, when, patience, .. } = revocation;
        let call = &self.server.connection.call(patience);
        let request = Ask::Revoke { key: self.server.key(name), holder, by, label, when };
        match self.server.ask(call, request).await? {
            Answer::Revoked(revoked) => Ok(revoked),
            other => Err(unexpected(&other)),
        }
    }

    async fn names(&self, beginning: &str, patience: Duration) -> Result<Vec<Name>> {
        let prefix = &self.server.prefix;
        let beginning = format!("{}{beginning}", prefix.as_str()).into();
        match self.server.ask(&self.server.connection.call(patience), Ask::List { beginning }).await? {
            Answer::Listed(keys) => Ok(keys.iter().filter_map(|key| prefix.name(key.as_bytes())).collect()),
            other => Err(unexpected(&other)),
        }
    }

    async fn check(&self, patience: Duration) -> Result<Vec<Finding>> {
        self.server.ask(&self.server.connection.call(patience), Ask::Time).await?;
        let message = "in this process".to_owned();
        Ok(vec![Finding::new("reachable", Level::Good, message)])
    }
}

impl Link {
    async fn ask(&self, call: &Call, request: Ask) -> Result<Answer> {
        self.connection.ask(call, request).await
    }

    fn key(&self, name: &Name) -> Key {
        self.prefix.key(name).into()
    }

    /// Returns the end of the call in the server's time. Asks for that time if no answer has told it yet.
    async fn deadline(&self, call: &Call) -> Result<ServerTime> {
        loop {
            match self.connection.deadline(call) {
                Some(deadline) => return Ok(deadline),
                None => _ = self.ask(call, Ask::Time).await.map_err(not_sent)?,
            }
        }
    }

    fn wake(&self, key: &Key) {
        // The server knows our keys from us, so they begin with our prefix.
        let Some(name) = self.prefix.strip(key) else { return };
        self.hub.wake(name);
        // Does nothing, unless the message that no claim listens any more was lost.
        self.stop_listening(key);
    }

    /// Listens again: the server may have forgotten the listeners, and the message of a release may be lost.
    fn listen_again(&self) {
        for name in self.hub.listened() {
            let serial = self.next_serial();
            self.connection.tell(Ask::Listen { key: self.key(&name), serial });
        }
        self.hub.wake_all();
        if self.asked_to_watch.load(Ordering::SeqCst) {
            self.connection.tell(Ask::Watch);
            self.holders.wake_all();
        }
    }

    fn next_serial(&self) -> u64 {
        self.serial.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// Tells the server that no claim of this client listens to `key`, if that is so.
    fn stop_listening(&self, key: &Key) {
        // Read before the look: a claim that begins to listen after the look has a higher serial.
        let serial = self.serial.load(Ordering::SeqCst);
        if !self.prefix.strip(key).is_some_and(|name| self.hub.has(name)) {
            self.connection.tell(Ask::Unlisten { key: key.clone(), serial });
        }
    }
}

/// The error of an attempt that was never sent, because the server did not even tell its time.
fn not_sent(e: Error) -> Error {
    Error::unavailable(Effect::NotApplied, e.message()).with_source(e)
}

fn too_late() -> Error {
    Error::unavailable(Effect::NotApplied, "the attempt came to the server too late, and was refused")
}

/// One owner's claim on one lock.
#[derive(Debug)]
struct LeaseClaim {
    server: Arc<Link>,
    key: Key,
    request: Request,
    listener: Option<Listener>,
    /// Listens to a revoke while the claim holds the lock.
    watching: Option<Subscription>,
}

#[async_trait]
impl Claim for LeaseClaim {
    async fn attempt(&mut self) -> Result<Attempt> {
        let call = &self.call();
        // After one refusal the server's time is known better than before. After a second one the attempt is indeed too
        // late.
        for _ in 0..2 {
            let deadline = self.server.deadline(call).await?;
            let Request { owner, ttl, .. } = self.request;
            let (key, label) = (self.key.clone(), self.request.label.clone());
            let request = Ask::Attempt { key, owner, label, ttl, deadline };
            match self.server.ask(call, request).await? {
                Answer::Granted { token, left } => {
                    return Ok(Attempt::Granted(Grant::new(token, left)));
                }
                Answer::Busy { left } => {
                    return Ok(Attempt::Busy(Busy::default().with_free_in(left)));
                }
                Answer::Refused => {}
                other => return Err(unexpected(&other)),
            }
        }
        Err(too_late())
    }

    async fn take_over(&mut self, predecessor: &Predecessor) -> Result<Takeover> {
        let call = &self.call();
        for _ in 0..2 {
            let deadline = self.server.deadline(call).await?;
            let Request { owner, ttl, .. } = self.request;
            let (key, label) = (self.key.clone(), self.request.label.clone());
            let request = Ask::Succeed { key, predecessor: predecessor.owner, owner, label, ttl, deadline };
            match self.server.ask(call, request).await? {
                Answer::Succeeded { token, left, others } => {
                    let grant = Grant::new(token, left);
                    return Ok(Takeover::Granted { grant, others: Some(others) });
                }
                Answer::NotHeld => return Ok(Takeover::NotHeld),
                Answer::Refused => {}
                other => return Err(unexpected(&other)),
            }
        }
        Err(too_late())
    }

    async fn listen(&mut self) -> Result<()> {
        // The client listens before the server does, so that a message in between finds a listener.
        let listener = Listener::new(&self.server, &self.request.name, &self.key);
        let request = Ask::Listen { key: self.key.clone(), serial: self.server.next_serial() };
        self.server.ask(&self.call(), request).await?;
        self.listener = Some(listener);
        Ok(())
    }

    async fn changed(&mut self) {
        let listening = self.listener.as_ref().and_then(|listener| listener.listening.as_ref());
        match (&self.watching, listening) {
            (Some(only), None) | (None, Some(only)) => only.woken().await,
            // Boxed, so the future of every held claim does not reserve space for it.
            (Some(watching), Some(listening)) => Box::pin(first_woken(watching, listening)).await,
            (None, None) => std::future::pending().await,
        }
    }

    async fn watch(&mut self) -> Result<Watched> {
        // The client listens before the server does, so that a message in between finds a listener.
        let watching = self.server.holders.watch(self.request.owner);
        if !self.server.watches.load(Ordering::SeqCst) {
            // Set before the question: a gap may come before its answer.
            self.server.asked_to_watch.store(true, Ordering::SeqCst);
            self.server.ask(&self.call(), Ask::Watch).await?;
            self.server.watches.store(true, Ordering::SeqCst);
        }
        self.watching = Some(watching);
        Ok(Watched::FromNowOn)
    }

    async fn renew(&mut self, ttl: Duration) -> Result<Renewal> {
        let request = Ask::Renew { key: self.key.clone(), owner: self.request.owner, ttl };
        match self.server.ask(&self.call(), request).await? {
            Answer::Renewed { left } => Ok(Renewal::Held { valid_for: left, age: Duration::ZERO }),
            Answer::Lost(cause) => Ok(Renewal::Lost(cause)),
            other => Err(unexpected(&other)),
        }
    }

    async fn release(&mut self) -> Result<Release> {
        let request = Ask::Release { key: self.key.clone(), owner: self.request.owner };
        match self.server.ask(&self.call(), request).await? {
            Answer::Released { others } => Ok(Release::Released { others: Some(others) }),
            Answer::NotHeld => Ok(Release::NotHeld),
            other => Err(unexpected(&other)),
        }
    }

    async fn server_time(&mut self) -> Result<UnixTime> {
        self.server.connection.server_time(&self.call(), Ask::Time).await
    }
}

async fn first_woken(watching: &Subscription, listening: &Subscription) {
    tokio::select! {
        biased;
        () = watching.woken() => {}
        () = listening.woken() => {}
    }
}

impl LeaseClaim {
    fn call(&self) -> Call {
        self.server.connection.call(self.request.patience)
    }
}

/// A claim that listens. The last one of its client tells the server when it is dropped.
#[derive(Debug)]
struct Listener {
    /// `None` only while this is being dropped.
    listening: Option<Subscription>,
    server: Arc<Link>,
    key: Key,
}

impl Listener {
    fn new(server: &Arc<Link>, name: &Name, key: &Key) -> Listener {
        Listener { listening: Some(server.hub.listen(name)), server: server.clone(), key: key.clone() }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.listening = None;
        self.server.stop_listening(&self.key);
    }
}
