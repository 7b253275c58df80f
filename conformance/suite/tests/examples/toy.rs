//! A whole backend, to copy: a driver for a server with leases, and the suite that it passes. `docs/add-a-backend.md`
//! explains it. The server is lock-memory's, a function of its state, the time and a request. Where this has
//! `Server::ask`, yours has a script, a statement or a transaction: one atomic step per request.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use lock_conformance::harness::Forget;
use lock_conformance::{Abilities, Harness};
use lock_core::driver::{
    Attempt, Busy, Claim, Context, Driver, Fencing, Finding, Grant, Info, Inspection, Lease, Level, Release,
    Renewal, Request, Revocation, Revoked, Wakes, Watched,
};
use lock_core::toolkit::{Call, Hub, Location, Prefix, ServerClock, Subscription, Watchers};
use lock_core::{Client, Clock, Effect, Error, Name, Options, Result};
use lock_memory::ServerTime;
use lock_memory::server::lease::{Answer, LeaseServer, Notification, Request as Ask};
use lock_memory::server::{ClientId, Server as _};

/// Opens the server at `toy://…`. Parameters: `prefix`, `patience`.
#[expect(dead_code, reason = "yours is public, and onelock calls it")]
pub(crate) async fn connect_with(url: &str, options: Options) -> Result<Client> {
    let mut location = Location::parse(url)?;
    let prefix = location.take_prefix()?;
    let options = match location.take_duration("patience")? {
        Some(patience) => options.patience(patience),
        None => options,
    };
    location.finish("prefix, patience")?;
    connect_to(Server::default(), prefix, options).await
}

/// Opens a server that is there already, as tests do.
async fn connect_to(server: Server, prefix: Prefix, options: Options) -> Result<Client> {
    // Called again if the client waits for its server (`?connect_wait=`).
    let open = |context: Context| Toy::open(server.clone(), prefix.clone(), context.clock, context.patience);
    options.open("toy", "this process", open).await
}

#[derive(Clone, Debug)]
struct Toy {
    server: Server,
    prefix: Prefix,
    clock: Clock,
    /// As the server's answers tell it.
    server_clock: Arc<Mutex<ServerClock>>,
    info: Arc<Info>,
}

impl Toy {
    async fn open(server: Server, prefix: Prefix, clock: Clock, patience: Duration) -> Result<Toy> {
        let (now, _) = bounded(&Call::begin(&clock, patience), server.ask(Ask::Time)).await?;
        let server_clock = ServerClock::new(now.as_micros().cast_signed(), clock.now());
        Ok(Toy {
            server,
            prefix,
            clock,
            server_clock: Arc::new(Mutex::new(server_clock)),
            info: Arc::new(info()),
        })
    }

    /// Sends one request of a call, and notes the server's time.
    async fn ask(&self, call: &Call, ask: Ask) -> Result<Answer> {
        let (now, answer) = bounded(call, self.server.ask(ask)).await?;
        self.server_clock().hear(now.as_micros().cast_signed(), call.clock().now());
        Ok(answer)
    }

    fn server_clock(&self) -> MutexGuard<'_, ServerClock> {
        self.server_clock.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends every request with its call. Whether the server does it after that is not known.
async fn bounded<T>(call: &Call, request: impl Future<Output = T>) -> Result<T> {
    call.within(request).await.ok_or_else(|| call.out_of_time(Effect::Unknown))
}

fn info() -> Info {
    let kept = "the data are lost with the process, and rise with its clock afterwards".into();
    let fencing = Fencing::WhileDataIsKept { clock_step: Duration::ZERO, kept };
    let ttl = Duration::from_millis(10)..=Duration::from_secs(24 * 3600);
    let mut info = Info::new("toy", "this process", fencing, Lease::Lock, ttl);
    info.wakes = Wakes::Pushed;
    info.clock = "the server's wall clock: set forward, it ends leases early";
    info.data_loss = "frees every lock".into();
    info.requests_per_hand_over = 2;
    info
}

#[async_trait]
impl Driver for Toy {
    fn info(&self) -> Arc<Info> {
        self.info.clone()
    }

    fn claim(&self, request: Request) -> Box<dyn Claim> {
        let key = self.prefix.key(&request.name);
        Box::new(ToyClaim { toy: self.clone(), key, request, listening: None })
    }

    async fn inspect(&self, name: &Name, patience: Duration) -> Result<Inspection> {
        let ask = Ask::Inspect { key: self.prefix.key(name).into() };
        match self.ask(&Call::begin(&self.clock, patience), ask).await? {
            Answer::Holder(holder) => Ok(Inspection::new(holder, None)),
            other => Err(unexpected(&other)),
        }
    }

    async fn revoke(&self, name: &Name, revocation: Revocation) -> Result<Revoked> {
        let Revocation { holder, by, label, when, patience, .. } = revocation;
        let ask = Ask::Revoke { key: self.prefix.key(name).into(), holder, by, label, when };
        match self.ask(&Call::begin(&self.clock, patience), ask).await? {
            Answer::Revoked(revoked) => Ok(revoked),
            other => Err(unexpected(&other)),
        }
    }

    async fn check(&self, patience: Duration) -> Result<Vec<Finding>> {
        self.ask(&Call::begin(&self.clock, patience), Ask::Time).await?;
        Ok(vec![Finding::new("reachable", Level::Good, "the server answers")])
    }
}

#[derive(Debug)]
struct ToyClaim {
    toy: Toy,
    key: String,
    request: Request,
    listening: Option<Subscription>,
}

impl ToyClaim {
    async fn ask(&self, call: &Call, ask: impl FnOnce(lock_memory::server::Key) -> Ask) -> Result<Answer> {
        self.toy.ask(call, ask(self.key.as_str().into())).await
    }

    fn call(&self) -> Call {
        Call::begin(&self.request.clock, self.request.patience)
    }
}

#[async_trait]
impl Claim for ToyClaim {
    async fn attempt(&mut self) -> Result<Attempt> {
        let call = self.call();
        // An attempt that was refused as late may be in time by the server's time in that refusal.
        for _ in 0..2 {
            let Request { owner, ttl, label, .. } = self.request.clone();
            let deadline = ServerTime::from_micros(self.toy.server_clock().deadline(&call).cast_unsigned());
            match self.ask(&call, |key| Ask::Attempt { key, owner, label, ttl, deadline }).await? {
                Answer::Granted { token, left } => {
                    self.listening = None; // a holder waits for nothing
                    return Ok(Attempt::Granted(Grant::new(token, left)));
                }
                Answer::Busy { left } => return Ok(Attempt::Busy(Busy::default().with_free_in(left))),
                Answer::Refused => {}
                other => return Err(unexpected(&other)),
            }
        }
        Err(Error::unavailable(Effect::NotApplied, "the request reached the server after its deadline"))
    }

    async fn listen(&mut self) -> Result<()> {
        // The client listens before the server does, so that a message in between finds it.
        let listening = self.toy.server.hub.listen(&self.request.name);
        self.ask(&self.call(), |key| Ask::Listen { key, serial: 1 }).await?;
        self.listening = Some(listening);
        Ok(())
    }

    async fn changed(&mut self) {
        match &self.listening {
            Some(listening) => listening.woken().await,
            None => std::future::pending().await,
        }
    }

    async fn watch(&mut self) -> Result<Watched> {
        let listening = self.toy.server.holders.watch(self.request.owner);
        self.ask(&self.call(), |_| Ask::Watch).await?;
        self.listening = Some(listening);
        Ok(Watched::FromNowOn)
    }

    async fn renew(&mut self, ttl: Duration) -> Result<Renewal> {
        let owner = self.request.owner;
        match self.ask(&self.call(), |key| Ask::Renew { key, owner, ttl }).await? {
            Answer::Renewed { left } => Ok(Renewal::Held { valid_for: left, age: Duration::ZERO }),
            Answer::Lost(reason) => Ok(Renewal::Lost(reason)),
            other => Err(unexpected(&other)),
        }
    }

    async fn release(&mut self) -> Result<Release> {
        let owner = self.request.owner;
        match self.ask(&self.call(), |key| Ask::Release { key, owner }).await? {
            // The toy's clients share one connection, so its server can't say whether another one waits.
            Answer::Released { .. } => Ok(Release::Released { others: None }),
            Answer::NotHeld => Ok(Release::NotHeld),
            other => Err(unexpected(&other)),
        }
    }
}

fn unexpected(answer: &Answer) -> Error {
    Error::rejected(format!("the server gave an answer to another question: {answer:?}"))
}

// ---- the server: on yours, each request is a script or a statement ------------------------------------------------

/// A clone is the same server.
#[derive(Clone, Default)]
struct Server {
    locks: Arc<Mutex<LeaseServer>>,
    /// The hub that a connection for notifications would feed.
    hub: Hub,
    /// The same for revokes, by the owner that holds.
    holders: Watchers,
}

impl Server {
    async fn ask(&self, ask: Ask) -> (ServerTime, Answer) {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now = ServerTime::from_micros(0) + since;
        let handled = self.locks.lock().unwrap_or_else(PoisonError::into_inner).handle(now, ClientId(0), ask);
        for (_, told) in handled.pushes {
            match told {
                Notification::Released(_) => self.hub.wake_all(), // a feed of one client knows the name: `hub.wake(name)`
                Notification::Revoked(owner) => self.holders.wake(owner),
            }
        }
        (now, handled.answer)
    }
}

impl std::fmt::Debug for Server {
    /// Shows no locks: a client's `Debug` shows only what the client itself remembers.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Server")
    }
}

// ---- tests/conformance.rs -----------------------------------------------------------------------------------------

#[derive(Debug, Default)]
pub(crate) struct ToyHarness(Server);

#[async_trait]
impl Harness for ToyHarness {
    fn name(&self) -> String {
        "toy".into()
    }

    async fn open(&self, options: Options) -> Result<Client> {
        connect_to(self.0.clone(), Prefix::default(), options).await
    }

    fn abilities(self: Arc<Self>) -> Abilities {
        Abilities { forget: Ok(self), ..Abilities::none("this harness cannot") }
    }
}

#[async_trait]
impl Forget for ToyHarness {
    async fn forget(&self, name: &Name) {
        self.0.ask(Ask::Expire { key: name.as_str().into() }).await;
    }
}
