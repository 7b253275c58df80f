//! What a backend provides to be tested: a way to open clients, and what its server can be made to do.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use async_trait::async_trait;
use lock_core::{Client, Name, Options, Result};

/// The shortest ttl for a server that answers within about a millisecond.
pub(crate) const SHORTEST_TTL: Duration = Duration::from_millis(400);

/// A backend under test. Only `name` and `open` are required. A case that needs more is *not run* if that is missing.
///
/// A method that a [`Need`] names is called only if [`can`](Self::can) returns `Ok` for that need; by default it
/// panics.
#[async_trait]
pub trait Harness: fmt::Debug + Send + Sync + 'static {
    /// Returns the backend's name, and on which server it is tested: `redis 7.0.15 (/usr/bin/redis-server)`.
    fn name(&self) -> String;

    /// Opens a client as another process would have it, with connections, sessions and clocks of its own.
    async fn open(&self, options: Options) -> Result<Client>;

    /// Returns the shortest ttl at which the server keeps time well enough to be tested.
    fn ttl(&self) -> Duration {
        SHORTEST_TTL
    }

    /// Checks whether the harness can do this. Called before anything runs.
    ///
    /// # Errors
    ///
    /// The reason, if it cannot; by default it can do nothing.
    fn can(&self, need: Need) -> Result<(), String> {
        Err(format!("this harness cannot {need}"))
    }

    /// Returns the URL at which the program `lock` finds the server.
    fn url(&self) -> String {
        unreachable!("{}", Need::Program)
    }

    /// Returns the environment variables with which this same test program, started once more, tests the same server.
    fn environment(&self) -> Vec<(&'static str, String)> {
        unreachable!("{}", Need::Process)
    }

    /// Makes the server forget the holder of `name`, as an eviction or an administrator would. The token stays.
    async fn forget(&self, name: &Name) {
        unreachable!("{} {name}", Need::Forget)
    }

    /// Returns what the server has counted so far.
    async fn counters(&self) -> Counters {
        unreachable!("{}", Need::Counters)
    }

    /// Returns how many things of any kind locks have left on the server, except for tokens: keys, rows, waiters,
    /// subscriptions.
    async fn residue(&self) -> u64 {
        unreachable!("{}", Need::Residue)
    }

    /// Returns how many things of any kind locks have left on the server, tokens included: those of
    /// [`residue`](Self::residue), and what carries the token of a name that no client has any more.
    async fn kept(&self) -> u64 {
        unreachable!("{}", Need::Age)
    }

    /// Ages the server's records of free locks by `by`, as if they had been written that much earlier: sets a clock, or
    /// moves back the dates of rows and the expiry of keys. Records without expiry must stay.
    async fn age(&self, by: Duration) {
        unreachable!("{} {by:?}", Need::Age)
    }

    /// Cuts every connection and empties every cache that clients may rely on, including scripts.
    async fn interrupt(&self) {
        unreachable!("{}", Need::Interrupt)
    }

    /// Returns whether a connection carries several requests at a time, and frames of its own besides them. Then a
    /// chunk of bytes is not one answer, and the only way to lose an answer is to lose everything in that direction of
    /// the connection.
    fn multiplexes(&self) -> bool {
        false
    }

    /// Returns how many held locks one request can prove at most, on a server that keeps sessions. Default: any number.
    fn proven_at_once(&self) -> usize {
        usize::MAX
    }

    /// Returns where the server listens, as `host:port`. A [`Proxy`](crate::proxy::Proxy) is put in front of it. With
    /// several servers, returns the address of each.
    fn addresses(&self) -> Vec<String> {
        unreachable!("{}", Need::Proxy)
    }

    /// Opens a client as [`open`](Self::open) does, but through the proxy that listens at these `addresses`, one for
    /// each server.
    async fn open_through(&self, addresses: &[SocketAddr], options: Options) -> Result<Client> {
        unreachable!("{} {addresses:?} {options:?}", Need::Proxy)
    }

    /// Starts a server that belongs to one case, which may stop and kill it.
    async fn own_server(&self) -> Box<dyn OwnServer> {
        unreachable!("{}", Need::OwnServer)
    }

    /// Starts a server that belongs to one case and whose clock, the one that ends leases, can be set.
    async fn own_server_with_clock(&self) -> Box<dyn OwnServer> {
        unreachable!("{}", Need::ServerClock)
    }
}

/// A server that belongs to one case, which may stop, kill and restart it.
#[async_trait]
pub trait OwnServer: fmt::Debug + Send + Sync {
    /// Opens a client of the server.
    async fn open(&self, options: Options) -> Result<Client>;
    /// Stops the server in the middle of whatever it does. It does not answer, and it forgets nothing.
    fn pause(&mut self);
    /// Lets it continue.
    fn resume(&mut self);
    /// Kills it.
    fn kill(&mut self);
    /// Starts it again, with the data it had (`Data::Kept`) or without (`Data::Lost`).
    fn start(&mut self, data: Data);

    /// Returns for how long after a restart and the first request the server grants nothing, because it may have
    /// forgotten locks.
    fn recovers_in(&self) -> Duration {
        Duration::ZERO
    }

    /// Returns the URL at which the program `lock` finds the server.
    fn url(&self) -> String {
        unreachable!("{}", Need::OwnProgram)
    }

    /// Sets the clock by which the server ends leases, and makes sure that the clock has moved.
    fn step_clock(&mut self, step: Step) {
        unreachable!("{} {step:?}", Need::ServerClock)
    }

    /// See [`Harness::addresses`].
    fn addresses(&self) -> Vec<String> {
        unreachable!("{}", Need::Proxy)
    }

    /// Opens a client as [`open`](Self::open) does, but through the proxy that listens at these `addresses`, one for
    /// each server.
    async fn open_through(&self, addresses: &[SocketAddr], options: Options) -> Result<Client> {
        unreachable!("{} {addresses:?} {options:?}", Need::Proxy)
    }
}

/// By how much a clock is set, relative to what it shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The clock runs ahead from now on.
    Forward(Duration),
    /// The clock lags behind from now on.
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

/// What some cases need from a harness.
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
    /// What one connection has sent asks the same of the server when another connection sends it again. Not so where
    /// each connection begins with a session of its own.
    Replay,
    /// The first answer to an attempt grants the lock, on a name that was used before. Not so where a look comes before
    /// it.
    OneTrip,
    /// A connection is used again however long it was silent. Not so where another connection takes its place.
    IdleConnection,
    /// [`Harness::own_server`]
    OwnServer,
    /// An own server that keeps acknowledged data over a kill.
    Durable,
    /// [`Harness::own_server_with_clock`]. Not for servers that end leases by a clock that cannot be set.
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
            Need::IdleConnection => "use a connection that was silent for a long time",
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
