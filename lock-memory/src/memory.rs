//! A server in this process, as its user sees it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lock_core::driver::{Context, Revoked, When};
use lock_core::toolkit::{Prefix, Row};
use lock_core::{Client, Clock, Label, Options, Owner, Random, Result};

use crate::host::{Counters, Cut, Host};
use crate::lease::LeaseDriver;
use crate::queue::QueueDriver;
use crate::register::Tells;
use crate::server::lease::{self, LeaseServer};
use crate::server::queue::{self, QueueServer};
use crate::server::register::{self, RegisterServer};
use crate::server::{Key, Server};
use crate::time::{ServerClock, ServerTime};

/// The shortest ttl. After the core's margin it still leaves more time than a scheduler's usual delay.
pub(crate) const SHORTEST_TTL: Duration = Duration::from_millis(10);
/// The longest ttl.
pub(crate) const LONGEST_TTL: Duration = Duration::from_secs(30 * 24 * 3600);

/// A lock server in this process. Cheap to clone; all clones are one server.
///
/// Each client of one server stands for what is a process elsewhere. For tests of your own code the server does on
/// demand what servers and networks do by themselves: end a lease, revoke a lock, lose every message.
#[derive(Clone)]
pub struct Memory {
    name: Arc<str>,
    server: Family,
}

#[derive(Clone)]
enum Family {
    Lease(Arc<Host<LeaseServer>>),
    Queue(Arc<Host<QueueServer>>),
    Register(Arc<Host<RegisterServer>>),
}

impl Memory {
    /// Creates a server of the lease family: compare-and-set with a lease per lock, as Redis and SQL databases do it.
    #[allow(
        clippy::new_without_default,
        reason = "there are several kinds of servers: the caller has to choose"
    )]
    pub fn new() -> Memory {
        Memory::with_clock(ServerClock::system())
    }

    /// Creates a server of the queue family: a queue per lock and a session per client, as etcd and ZooKeeper do it.
    pub fn queue() -> Memory {
        Memory::queue_with_clock(ServerClock::system())
    }

    /// Creates a server of the register family: values that are replaced if they have not changed, as NATS KV and object
    /// stores do it.
    pub fn register() -> Memory {
        Memory::register_with_clock(ServerClock::system())
    }

    /// Like [`new`](Self::new), with a clock that can be set.
    pub fn with_clock(clock: ServerClock) -> Memory {
        Memory::named("", Family::Lease(Arc::new(Host::new(LeaseServer::default(), clock))))
    }

    /// Like [`queue`](Self::queue), with a clock that can be set.
    pub fn queue_with_clock(clock: ServerClock) -> Memory {
        let server = QueueServer::new(clock.now());
        Memory::named("", Family::Queue(Arc::new(Host::new(server, clock))))
    }

    /// Like [`register`](Self::register), with a clock that can be set.
    pub fn register_with_clock(clock: ServerClock) -> Memory {
        let server = RegisterServer::new(clock.now());
        Memory::named("", Family::Register(Arc::new(Host::new(server, clock))))
    }

    fn named(name: &str, server: Family) -> Memory {
        Memory { name: name.into(), server }
    }

    /// Returns the same server under a name that errors and `info` show.
    pub(crate) fn called(self, name: &str) -> Memory {
        Memory { name: name.into(), ..self }
    }

    /// Opens a client with default options, on the current tokio runtime.
    ///
    /// # Errors
    ///
    /// `Invalid` outside a tokio runtime.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, no client is opened.
    pub async fn client(&self) -> Result<Client> {
        self.client_with(Options::default()).await
    }

    /// Opens a client with these options.
    ///
    /// # Errors
    ///
    /// `Invalid` outside a tokio runtime, unless the options are [`dedicated`](Options::dedicated), and for a patience
    /// below 1 ms.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, no client is opened.
    pub async fn client_with(&self, options: Options) -> Result<Client> {
        self.link().client_with(options).await
    }

    /// Creates a link to this server that can be cut by itself.
    pub fn link(&self) -> Link {
        Link { memory: self.clone(), cut: Cut::default() }
    }

    /// Ends the lease of `name` now, as if its time had come. Returns whether there was one.
    ///
    /// In the queue family, where a lease belongs to a session, this ends the session with all its locks. The holder is
    /// told at its next renewal, or sooner. `name` is the lock's name, with the client's prefix if it has one.
    pub fn expire(&self, name: &str) -> bool {
        let key: Key = name.into();
        match &self.server {
            Family::Lease(host) => {
                matches!(host.order(lease::Request::Expire { key }), lease::Answer::Done)
            }
            Family::Queue(host) => {
                matches!(host.order(queue::Request::Expire { key }), queue::Answer::Done)
            }
            Family::Register(host) => {
                matches!(host.order(register::Request::Expire { key }), register::Answer::Done)
            }
        }
    }

    /// Revokes the lock `name`, as `lock break` does: its holder's renewals fail from now on, and the lock is free at
    /// the holder's deadline.
    ///
    /// `name` is the lock's name, with the client's prefix if it has one.
    pub fn revoke(&self, name: &str) -> Revoked {
        let (by, label, when) =
            (Owner::mint(&Random::system()), Label::new("Memory::revoke"), When::HoldersDeadline);
        let key: Key = name.into();
        match &self.server {
            Family::Lease(host) => {
                let lease::Answer::Holder(Some(entry)) =
                    host.order(lease::Request::Inspect { key: key.clone() })
                else {
                    return Revoked::NotHeld;
                };
                match host.order(lease::Request::Revoke { key, holder: entry.owner, by, label, when }) {
                    lease::Answer::Revoked(revoked) => revoked,
                    _ => Revoked::NotHeld,
                }
            }
            Family::Queue(host) => {
                let queue::Answer::Inspected(inspection) =
                    host.order(queue::Request::Inspect { key: key.clone() })
                else {
                    return Revoked::NotHeld;
                };
                let Some(entry) = inspection.holder else { return Revoked::NotHeld };
                match host.order(queue::Request::Revoke { key, holder: entry.owner, by, label, when }) {
                    queue::Answer::Revoked(revoked) => revoked,
                    _ => Revoked::NotHeld,
                }
            }
            Family::Register(host) => revoke_row(host, &key, by, &label),
        }
    }

    /// Cuts every client off: their requests are lost, and so is what the server pushes to them.
    pub fn disconnect(&self) {
        self.cut().cut();
    }

    /// Undoes [`disconnect`](Self::disconnect).
    pub fn reconnect(&self) {
        self.cut().mend();
        self.tell_gap(|_| true);
    }

    /// Forgets everything, holders and tokens too, like a server that is restarted without its data. The sessions of a
    /// queue server end with that.
    pub fn wipe(&self) {
        match &self.server {
            Family::Lease(host) => host.restart(|_| LeaseServer::default()),
            Family::Queue(host) => host.restart(QueueServer::new),
            Family::Register(host) => host.restart(RegisterServer::new),
        }
    }

    /// Returns what clients have asked since the server began, and what that changed.
    pub fn counters(&self) -> Counters {
        match &self.server {
            Family::Lease(host) => host.counters(),
            Family::Queue(host) => host.counters(),
            Family::Register(host) => host.counters(),
        }
    }

    pub(crate) async fn open(&self, prefix: Prefix, options: Options, cut: &Cut) -> Result<Client> {
        let options = options.clock_unless_set(self.rate());
        match &self.server {
            Family::Lease(host) => {
                let connect = |context: Context| {
                    let (host, name, prefix, cut) = self.parts(host, &prefix, cut);
                    async move {
                        let wire = Arc::new(host.connect(&cut));
                        let identity = host.identity(&prefix);
                        Ok(LeaseDriver::new(wire, &name, prefix, context.clock).of(identity))
                    }
                };
                options.open("memory", &self.name, connect).await
            }
            Family::Queue(host) => {
                let connect = |context: Context| {
                    let (host, name, prefix, cut) = self.parts(host, &prefix, cut);
                    async move {
                        let wire = Arc::new(host.connect(&cut));
                        let runtime = tokio::runtime::Handle::current();
                        let identity = host.identity(&prefix);
                        Ok(QueueDriver::new(wire, &name, prefix, context.clock, runtime).of(identity))
                    }
                };
                options.open("memory", &self.name, connect).await
            }
            Family::Register(host) => {
                let connect = |context: Context| {
                    let (host, name, prefix, cut) = self.parts(host, &prefix, cut);
                    async move {
                        let wire = Arc::new(host.connect(&cut));
                        let identity = Some(host.identity(&prefix));
                        Ok(crate::register::driver(wire, &name, prefix, identity, Tells::Time, context))
                    }
                };
                options.open("memory", &self.name, connect).await
            }
        }
    }

    /// Returns what one driver needs, for a future that owns it.
    fn parts<S: Server>(
        &self,
        host: &Arc<Host<S>>,
        prefix: &Prefix,
        cut: &Cut,
    ) -> (Arc<Host<S>>, Arc<str>, Prefix, Cut) {
        (host.clone(), self.name.clone(), prefix.clone(), cut.clone())
    }

    fn rate(&self) -> &Clock {
        match &self.server {
            Family::Lease(host) => host.rate(),
            Family::Queue(host) => host.rate(),
            Family::Register(host) => host.rate(),
        }
    }

    fn cut(&self) -> &Cut {
        match &self.server {
            Family::Lease(host) => &host.cut,
            Family::Queue(host) => &host.cut,
            Family::Register(host) => &host.cut,
        }
    }

    fn tell_gap(&self, behind: impl Fn(&Cut) -> bool) {
        match &self.server {
            Family::Lease(host) => host.tell_gap(behind),
            Family::Queue(host) => host.tell_gap(behind),
            Family::Register(host) => host.tell_gap(behind),
        }
    }
}

/// Does what a driver does for a revoke at the holder's deadline.
fn revoke_row(host: &Host<RegisterServer>, key: &Key, by: Owner, label: &Label) -> Revoked {
    use register::{Answer, Request};
    // A client may write in between; then it is looked at once more.
    loop {
        let Answer::Last(Some(last)) = host.order(Request::Get { key: key.clone() }) else {
            return Revoked::NotHeld;
        };
        let micros = |time: ServerTime| i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
        let (stamp, now) = (micros(last.stamp), micros(host.now()));
        let row = Row::parse(&last.value).ok();
        let Some((row, holder)) =
            row.and_then(|row| row.holder(stamp, None, now).map(|holder| (row, holder)))
        else {
            return Revoked::NotHeld;
        };
        let taken = row.taken(stamp, None, by, label);
        let (expected, value) = (Some(last.revision), taken.to_bytes().into());
        let put = Request::Put { key: key.clone(), expected, value };
        if matches!(host.order(put), Answer::Applied { .. }) {
            if let Some(revoked) = taken.revoked_from() {
                host.order(Request::Publish { text: revoked.into() });
            }
            return Revoked::FreeIn(holder.expires_in.unwrap_or_default());
        }
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let family = match &self.server {
            Family::Lease(_) => "lease",
            Family::Queue(_) => "queue",
            Family::Register(_) => "register",
        };
        f.debug_struct("Memory").field("name", &self.name).field("family", &family).finish_non_exhaustive()
    }
}

/// A connection to a [`Memory`] that can be cut while others stay up. Cheap to clone; all clones are one link.
#[derive(Clone, Debug)]
pub struct Link {
    memory: Memory,
    cut: Cut,
}

impl Link {
    /// Opens a client that uses this link, with default options, on the current tokio runtime.
    ///
    /// # Errors
    ///
    /// `Invalid` outside a tokio runtime.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, no client is opened.
    pub async fn client(&self) -> Result<Client> {
        self.client_with(Options::default()).await
    }

    /// Opens a client that uses this link, with these options.
    ///
    /// # Errors
    ///
    /// `Invalid` outside a tokio runtime, unless the options are [`dedicated`](Options::dedicated), and for a patience
    /// below 1 ms.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, no client is opened.
    pub async fn client_with(&self, options: Options) -> Result<Client> {
        self.memory.open(Prefix::default(), options, &self.cut).await
    }

    /// Cuts the clients of this link off: their requests are lost, and so is what the server pushes to them.
    pub fn disconnect(&self) {
        self.cut.cut();
    }

    /// Undoes [`disconnect`](Self::disconnect).
    pub fn reconnect(&self) {
        self.cut.mend();
        self.memory.tell_gap(|cut| cut.is(&self.cut));
    }
}
