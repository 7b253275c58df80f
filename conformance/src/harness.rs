//! What a backend provides to be tested: a way to open clients, and whatever it can be made to do.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use async_trait::async_trait;
use lock_core::{Client, Name, Options, Result};

/// The shortest ttl of a server that answers within a millisecond or so.
pub(crate) const SHORTEST_TTL: Duration = Duration::from_millis(400);

/// A backend under test. Only the first two are required; a case that needs more is *not run* where it is missing.
#[async_trait]
pub trait Harness: fmt::Debug + Send + Sync + 'static {
    /// The backend's name, and on which server it is tested: `redis 7.0.15 (/usr/bin/redis-server)`.
    fn name(&self) -> String;

    /// A client as another process would have it: connections, sessions and clocks of its own.
    async fn open(&self, options: Options) -> Result<Client>;

    /// The shortest ttl at which the server keeps time well enough to be tested.
    fn ttl(&self) -> Duration {
        SHORTEST_TTL
    }

    /// Whether the harness can do this; if not, why. Asked before anything runs.
    fn can(&self, need: Need) -> Result<(), String> {
        Err(format!("this harness cannot {need}"))
    }

    /// Where the program `lock` finds the server.
    fn url(&self) -> String {
        unreachable!("{}", Need::Program)
    }

    /// The environment in which this very test program, started once more, tests the same server.
    fn environment(&self) -> Vec<(&'static str, String)> {
        unreachable!("{}", Need::Process)
    }

    /// Makes the server forget the holder of `name`, as an eviction or an administrator would. The token stays.
    async fn forget(&self, name: &Name) {
        unreachable!("{} {name}", Need::Forget)
    }

    /// What the server has counted so far.
    async fn counters(&self) -> Counters {
        unreachable!("{}", Need::Counters)
    }

    /// How many things of any kind locks have left on the server, but for tokens: keys, rows, waiters, subscriptions.
    async fn residue(&self) -> u64 {
        unreachable!("{}", Need::Residue)
    }

    /// How many things of any kind locks have left on the server, tokens among them: as [`residue`](Self::residue), with
    /// what carries a token of a name that nobody has any more.
    async fn kept(&self) -> u64 {
        unreachable!("{}", Need::Age)
    }

    /// Makes everything that the server keeps of locks which nobody has so much older, as if it had been written that
    /// much earlier: sets a clock, or dates rows and ends of keys back. What never ends must stay.
    async fn age(&self, by: Duration) {
        unreachable!("{} {by:?}", Need::Age)
    }

    /// Cuts every connection and empties every cache that clients may rely on, scripts among them.
    async fn interrupt(&self) {
        unreachable!("{}", Need::Interrupt)
    }

    /// Whether a connection carries several requests at a time, and frames of its own beside them: then no chunk is an
    /// answer, and to lose an answer is to lose the connection's whole direction.
    fn multiplexes(&self) -> bool {
        false
    }

    /// How many held locks one request proves at most, on a server that keeps sessions. Default: any number.
    fn proven_at_once(&self) -> usize {
        usize::MAX
    }

    /// Where the server listens, as `host:port`: a [`Proxy`](crate::proxy::Proxy) is put in front of it. If it is several,
    /// where each of them does.
    fn addresses(&self) -> Vec<String> {
        unreachable!("{}", Need::Proxy)
    }

    /// As [`open`](Self::open), but through the proxy that listens at these `addresses`, one for each server.
    async fn open_through(&self, addresses: &[SocketAddr], options: Options) -> Result<Client> {
        unreachable!("{} {addresses:?} {options:?}", Need::Proxy)
    }

    /// A server of the case's own, to be hurt.
    async fn own_server(&self) -> Box<dyn OwnServer> {
        unreachable!("{}", Need::OwnServer)
    }

    /// A server of the case's own whose clock, the one that ends leases, can be set.
    async fn own_server_with_clock(&self) -> Box<dyn OwnServer> {
        unreachable!("{}", Need::ServerClock)
    }
}

/// A server that a case may hurt.
#[async_trait]
pub trait OwnServer: fmt::Debug + Send + Sync {
    /// A client of it.
    async fn open(&self, options: Options) -> Result<Client>;
    /// Stops it in the middle of whatever it does: it neither answers nor forgets.
    fn pause(&mut self);
    /// Lets it go on.
    fn resume(&mut self);
    /// Kills it.
    fn kill(&mut self);
    /// Starts it again, with the data it had (`Data::Kept`) or without.
    fn start(&mut self, data: Data);

    /// For how long after it was started again, and asked, it grants nothing: it may have forgotten locks.
    fn recovers_in(&self) -> Duration {
        Duration::ZERO
    }

    /// Where the program `lock` finds it.
    fn url(&self) -> String {
        unreachable!("{}", Need::OwnProgram)
    }

    /// Sets the clock by which it ends leases, and makes certain that it has moved.
    fn step_clock(&mut self, step: Step) {
        unreachable!("{} {step:?}", Need::ServerClock)
    }

    /// As [`Harness::addresses`].
    fn addresses(&self) -> Vec<String> {
        unreachable!("{}", Need::Proxy)
    }

    /// As [`open`](Self::open), but through the proxy that listens at these `addresses`, one for each server.
    async fn open_through(&self, addresses: &[SocketAddr], options: Options) -> Result<Client> {
        unreachable!("{} {addresses:?} {options:?}", Need::Proxy)
    }
}

/// By how much a clock is set, from what it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It runs ahead from now on.
    Forward(Duration),
    /// It lags behind from now on.
    Back(Duration),
}

/// What a restarted server remembers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Data {
    /// Everything that it acknowledged.
    Kept,
    /// Nothing.
    Lost,
}

/// What some cases need of a harness.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// [`Harness::forget`]
    Forget,
    /// [`Harness::counters`]
    Counters,
    /// [`Harness::residue`]
    Residue,
    /// [`Harness::kept`] and [`Harness::age`]
    Age,
    /// [`Harness::interrupt`]
    Interrupt,
    /// [`Harness::addresses`] and [`Harness::open_through`]
    Proxy,
    /// What one connection carries, carried once more by another, asks the same of the server: not where each connection
    /// begins with a session of its own.
    Replay,
    /// The first answer of an attempt grants, on a name that was used before: not where a look comes before it.
    OneTrip,
    /// A connection is used again however long it was silent: not where another one takes its place.
    IdleConnection,
    /// [`Harness::own_server`]
    OwnServer,
    /// An own server that keeps acknowledged data over a kill.
    Durable,
    /// [`Harness::own_server_with_clock`]: not for servers that end leases by a clock nobody can set.
    ServerClock,
    /// [`Harness::environment`]: clients of the library in other processes.
    Process,
    /// [`Harness::url`], and the program `lock`.
    Program,
    /// [`OwnServer::url`], and the program `lock`.
    OwnProgram,
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Need::Forget => "make the server forget a holder",
            Need::Counters => "count the server's requests and writes",
            Need::Residue => "count what is left on the server",
            Need::Age => "make what the server keeps older",
            Need::Interrupt => "cut every connection",
            Need::Proxy => "reach the server through a proxy",
            Need::Replay => "ask everything twice",
            Need::OneTrip => "grant by the first answer of an attempt",
            Need::IdleConnection => "use a connection that was silent for long",
            Need::OwnServer => "start a server of a case's own",
            Need::Durable => "restart a server with its data",
            Need::ServerClock => "set the clock by which the server ends leases",
            Need::Process => "reach the server from another process",
            Need::Program => "run the program lock",
            Need::OwnProgram => "run the program lock on a server of a case's own",
        })
    }
}

/// What a server has counted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counters {
    /// Requests of any kind.
    pub requests: u64,
    /// Changes to its data.
    pub writes: u64,
}
