//! The driver of a [`LeaseServer`]: compare-and-set, one request per call, wake-ups that the server pushes.
//!
//! It shows what a backend of this family has to do, and how little that is.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;
use lock_core::driver::{
    Attempt, Busy, Claim, Driver, Fair, Fencing, Finding, Grant, Inspection, Lease, Level, Release, Renewal,
    Request, Revocation, Revoked, Wakes,
};
use lock_core::{Clock, Done, Error, Hub, Info, Listening, Name, Prefix, Result};

use crate::server::Key;
use crate::server::lease::{Answer, LeaseServer, Released, Request as Ask, TOKEN_MEMORY};
use crate::time::ServerTime;
use crate::wire::{Connection, Patience, Pushed, Wire, unexpected};
use crate::{LONGEST_TTL, SHORTEST_TTL};

/// Claims locks on a [`LeaseServer`].
#[derive(Debug)]
pub struct LeaseDriver {
    server: Arc<Link>,
    info: Arc<Info>,
}

/// What a client and its claims share.
#[derive(Debug)]
struct Link {
    connection: Connection<LeaseServer>,
    prefix: Prefix,
    /// Who listens here.
    hub: Hub,
    /// Of the last `Listen`.
    serial: AtomicU64,
}

impl LeaseDriver {
    /// A driver of the server at the other end of `wire`, called `server`.
    pub fn new(wire: Arc<dyn Wire<LeaseServer>>, server: &str, prefix: Prefix, clock: Clock) -> LeaseDriver {
        let link = Arc::new(Link {
            connection: Connection::new(wire, clock),
            prefix,
            hub: Hub::default(),
            serial: AtomicU64::new(0),
        });
        let inbox = Arc::downgrade(&link);
        link.connection.receive(Box::new(move |pushed| take(&inbox, pushed)));
        LeaseDriver { server: link, info: Arc::new(info(server)) }
    }
}

fn take(link: &Weak<Link>, pushed: Pushed<Released>) {
    let Some(link) = link.upgrade() else { return };
    match pushed {
        Pushed::Push(Released(key)) => link.wake(&key),
        Pushed::Gap => link.listen_again(),
    }
}

fn info(server: &str) -> Info {
    Info {
        backend: "memory",
        server: server.to_owned(),
        fencing: Fencing::WhileDataIsKept {
            clock_step: TOKEN_MEMORY,
            kept: "as long as this process".to_owned(),
        },
        lease: Lease::Lock,
        fair: Fair::No,
        wakes: Wakes::Pushed,
        min_ttl: SHORTEST_TTL,
        max_ttl: LONGEST_TTL,
        clock: "the process's own, which nobody sets",
        data_loss:
            "everything is lost with the process, and so are all holders; a new one's tokens go on above the \
                    old one's unless the machine's clock was set back in between"
                .to_owned(),
        requests_per_hand_over: 2,
    }
}

#[async_trait]
impl Driver for LeaseDriver {
    fn info(&self) -> Arc<Info> {
        self.info.clone()
    }

    fn claim(&self, request: Request) -> Box<dyn Claim> {
        let key = self.server.key(&request.name);
        Box::new(LeaseClaim { server: self.server.clone(), key, request, listener: None })
    }

    async fn inspect(&self, name: &Name, patience: Duration) -> Result<Inspection> {
        let patience = self.server.connection.patience(patience);
        let holder = match self.server.ask(patience, Ask::Inspect { key: self.server.key(name) }).await? {
            Answer::Holder(holder) => holder,
            other => return Err(unexpected(&other)),
        };
        Ok(Inspection { holder, waiters: None })
    }

    async fn revoke(&self, name: &Name, revocation: Revocation) -> Result<Revoked> {
        let Revocation { holder, by, label, when, patience } = revocation;
        let patience = self.server.connection.patience(patience);
        let request = Ask::Revoke { key: self.server.key(name), holder, by, label, when };
        match self.server.ask(patience, request).await? {
            Answer::Revoked(revoked) => Ok(revoked),
            other => Err(unexpected(&other)),
        }
    }

    async fn check(&self, patience: Duration) -> Result<Vec<Finding>> {
        self.server.ask(self.server.connection.patience(patience), Ask::Time).await?;
        let message = "in this process".to_owned();
        Ok(vec![Finding::new("reachable", Level::Good, message)])
    }
}

impl Link {
    async fn ask(&self, patience: Patience, request: Ask) -> Result<Answer> {
        self.connection.ask(patience, request).await
    }

    fn key(&self, name: &Name) -> Key {
        self.prefix.key(name).into()
    }

    /// The end of patience in the server's time, which is asked for once.
    async fn deadline(&self, patience: Patience) -> Result<ServerTime> {
        loop {
            match self.connection.deadline(patience) {
                Some(deadline) => return Ok(deadline),
                None => _ = self.ask(patience, Ask::Time).await.map_err(not_sent)?,
            }
        }
    }

    fn wake(&self, key: &Key) {
        // The server has our keys from us: they begin with our prefix.
        let Some(name) = self.prefix.strip(key) else { return };
        self.hub.wake(name);
        // Does nothing, unless the message that nobody listens any more was lost.
        self.stop_listening(key);
    }

    /// The server may have forgotten who listens, and a release may have gone unheard.
    fn listen_again(&self) {
        for name in self.hub.listened() {
            let serial = self.next_serial();
            self.connection.tell(Ask::Listen { key: self.key(&name), serial });
        }
        self.hub.wake_all();
    }

    fn next_serial(&self) -> u64 {
        self.serial.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// Tells the server that nobody listens to `key` here, if that is so.
    fn stop_listening(&self, key: &Key) {
        // Read before the look: whoever begins to listen after the look has a higher one.
        let serial = self.serial.load(Ordering::SeqCst);
        if !self.prefix.strip(key).is_some_and(|name| self.hub.has(name)) {
            self.connection.tell(Ask::Unlisten { key: key.clone(), serial });
        }
    }
}

/// The server did not even say what time it is: the attempt was never sent.
fn not_sent(e: Error) -> Error {
    Error::unavailable(Done::No, e.message()).with_source(e)
}

/// One owner's business with one lock.
#[derive(Debug)]
struct LeaseClaim {
    server: Arc<Link>,
    key: Key,
    request: Request,
    listener: Option<Listener>,
}

#[async_trait]
impl Claim for LeaseClaim {
    async fn attempt(&mut self) -> Result<Attempt> {
        let patience = self.patience();
        // Refused once, we know the server's time better than before; a second time it really is too late.
        for _ in 0..2 {
            let deadline = self.server.deadline(patience).await?;
            let Request { owner, ttl, .. } = self.request;
            let (key, label) = (self.key.clone(), self.request.label.clone());
            let request = Ask::Attempt { key, owner, label, ttl, deadline };
            match self.server.ask(patience, request).await? {
                Answer::Granted { token, left } => {
                    return Ok(Attempt::Granted(Grant { token, valid_for: left }));
                }
                Answer::Busy { left } => {
                    return Ok(Attempt::Busy(Busy { free_in: Some(left), ..Busy::default() }));
                }
                Answer::Refused => {}
                other => return Err(unexpected(&other)),
            }
        }
        Err(Error::unavailable(Done::No, "the attempt came to the server too late, and was refused"))
    }

    async fn listen(&mut self) -> Result<()> {
        // Ours before the server's: what is pushed in between must find somebody.
        let listener = Listener::new(&self.server, &self.request.name, &self.key);
        let request = Ask::Listen { key: self.key.clone(), serial: self.server.next_serial() };
        self.server.ask(self.patience(), request).await?;
        self.listener = Some(listener);
        Ok(())
    }

    async fn changed(&mut self) {
        match &self.listener {
            Some(Listener { listening: Some(listening), .. }) => listening.woken().await,
            _ => std::future::pending().await,
        }
    }

    async fn renew(&mut self, ttl: Duration) -> Result<Renewal> {
        let request = Ask::Renew { key: self.key.clone(), owner: self.request.owner, ttl };
        match self.server.ask(self.patience(), request).await? {
            Answer::Renewed { left } => Ok(Renewal::Held { valid_for: left }),
            Answer::Lost(cause) => Ok(Renewal::Lost(cause)),
            other => Err(unexpected(&other)),
        }
    }

    async fn release(&mut self) -> Result<Release> {
        let request = Ask::Release { key: self.key.clone(), owner: self.request.owner };
        match self.server.ask(self.patience(), request).await? {
            Answer::Released { others } => Ok(Release::Released { others: Some(others) }),
            Answer::NotHeld => Ok(Release::NotHeld),
            other => Err(unexpected(&other)),
        }
    }
}

impl LeaseClaim {
    fn patience(&self) -> Patience {
        self.server.connection.patience(self.request.patience)
    }
}

/// A claim that listens. The last one of its client to go tells the server.
#[derive(Debug)]
struct Listener {
    /// Until dropped.
    listening: Option<Listening>,
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
