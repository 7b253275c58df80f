//! A network that misbehaves on order: a TCP proxy in front of a server, or one in front of each of several servers.
//!
//! The proxy knows nothing about what it carries. A chunk is what one read returned. On loopback, that is what the
//! sender wrote at once, as long as requests and answers are small and come one at a time. A case that ordered a fault
//! which never took effect has shown nothing: dropping the proxy panics then, and the case is void.

mod connection;
mod log;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

use self::log::Log;
pub use self::log::{Direction, Fault};
use crate::timing::{comes_true, void};

/// The longest time that the delivery of what was held may take.
const ARRIVAL: Duration = Duration::from_secs(5);

/// A proxy in front of a server, on a free port of 127.0.0.1. With several servers there is one in front of each, and
/// every order applies to all of them. The proxy lives on the runtime that started it.
///
/// # Panics
///
/// Dropping it panics, to make the test void, if a fault that was ordered never took effect.
#[derive(Debug)]
pub struct Proxy {
    networks: Vec<Arc<Network>>,
    addresses: Vec<SocketAddr>,
    /// The tasks that accept connections. They end with the proxy.
    accepting: JoinSet<()>,
    log: Arc<Log>,
}

/// The way in which connections are cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// Both ends are reset.
    Reset,
    /// Both ends are closed normally.
    Closed,
    /// The server's end is reset, and the client is not told. What the client sends is discarded.
    HalfOpen,
}

/// Everything that the tasks in front of one server share.
#[derive(Debug, Default)]
struct Network {
    server: String,
    to_server: DirectionControl,
    to_client: DirectionControl,
    /// Each change cuts the connections that are open at that moment, in this way.
    cut: watch::Sender<Option<Cut>>,
    refusing: AtomicBool,
    doubling: AtomicBool,
    /// The length of the handshake of a new connection, in microseconds.
    handshake: AtomicU64,
    /// The number of connections opened so far, which is the number of the next one.
    opened: AtomicU64,
    /// Connections that the server has ended.
    ended_by_server: AtomicU64,
    log: Arc<Log>,
}

/// One direction of all connections.
#[derive(Debug, Default)]
struct DirectionControl {
    state: watch::Sender<State>,
    /// The number of chunks read so far, which is the number of the next one.
    chunks: AtomicU64,
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    delay: Duration,
    /// The pause after each byte.
    trickle: Option<Duration>,
    /// Connections with a number below this one are held.
    held_below: u64,
    /// They are held from the chunk with this number on.
    held_from: u64,
    /// Chunks below this number are lost.
    lost_below: u64,
    /// This many of the next chunks are lost.
    swallow: u32,
}

impl State {
    fn hold_all(&mut self) {
        (self.held_below, self.held_from) = (u64::MAX, 0);
    }

    fn holds(&self, connection: u64, chunk: u64) -> bool {
        connection < self.held_below && chunk >= self.held_from
    }
}

impl Proxy {
    /// Starts a proxy in front of `server`, given as `host:port`.
    ///
    /// # Errors
    ///
    /// If no port can be bound.
    pub async fn start(server: &str) -> io::Result<Proxy> {
        Proxy::start_all(&[server.to_owned()]).await
    }

    /// Starts a proxy in front of each of these servers, given as `host:port`.
    ///
    /// # Errors
    ///
    /// If no port can be bound.
    pub async fn start_all(servers: &[String]) -> io::Result<Proxy> {
        let (networks, addresses, accepting, log) = Default::default();
        let mut proxy = Proxy { networks, addresses, accepting, log };
        for server in servers {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
            proxy.addresses.push(listener.local_addr()?);
            let (server, log) = (server.clone(), proxy.log.clone());
            let network = Arc::new(Network { server, log, ..Network::default() });
            proxy.accepting.spawn(accept(listener, network.clone()));
            proxy.networks.push(network);
        }
        Ok(proxy)
    }

    /// Returns where clients connect to the server, or to the first of several.
    pub fn address(&self) -> SocketAddr {
        self.addresses[0]
    }

    /// Returns where clients connect, in the order of the servers.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Delays every chunk in this direction by `by`, counted from its arrival.
    pub fn delay(&self, direction: Direction, by: Duration) {
        if !by.is_zero() {
            self.log.order(Fault::Delayed(direction));
        }
        self.each(direction, |state| state.delay = by);
    }

    /// Moves the servers away: every chunk takes `each_way`, and what is sent first on a new connection waits for the
    /// handshake before, a round trip. This is no fault: it need not take effect.
    pub fn move_away(&self, each_way: Duration) {
        for direction in Direction::BOTH {
            self.each(direction, |state| state.delay = each_way);
        }
        let round_trip = u64::try_from(each_way.as_micros() * 2).unwrap_or(u64::MAX);
        self.networks.iter().for_each(|network| network.handshake.store(round_trip, Ordering::SeqCst));
    }

    /// Hands on everything in this direction byte by byte, with a pause after each byte.
    pub fn trickle(&self, direction: Direction, pause: Duration) {
        self.log.order(Fault::Trickled(direction));
        self.each(direction, |state| state.trickle = Some(pause));
    }

    /// Holds everything in this direction, also on new connections: nothing gets through, and nothing is reset.
    pub fn hold(&self, direction: Direction) {
        self.log.order(Fault::Held(direction));
        self.each(direction, State::hold_all);
    }

    /// Holds both directions. Only a request must have been held for this order to have taken effect, because no answer
    /// follows it.
    pub fn hold_all(&self) {
        self.each(Direction::ToClient, State::hold_all);
        self.hold(Direction::ToServer);
    }

    /// Does what [`hold`](Self::hold) does, but connections that are opened from now on work.
    pub fn hold_open_ones(&self, direction: Direction) {
        self.hold_open(direction, |_| 0);
    }

    /// Does what [`hold_open_ones`](Self::hold_open_ones) does, but lets the next `chunks` chunks through.
    pub fn hold_open_ones_after(&self, direction: Direction, chunks: u64) {
        self.hold_open(direction, |next| next + chunks);
    }

    fn hold_open(&self, direction: Direction, from: impl Fn(u64) -> u64) {
        self.log.order(Fault::Held(direction));
        for network in &self.networks {
            let (control, open) = (network.control(direction), network.opened.load(Ordering::SeqCst));
            control.state.send_modify(|state| {
                state.held_below = open;
                state.held_from = from(control.chunks.load(Ordering::SeqCst));
            });
        }
    }

    /// Stops holding in this direction: what was held arrives now, in its order.
    pub fn deliver(&self, direction: Direction) {
        self.each(direction, |state| state.held_below = 0);
    }

    /// Does what [`deliver`](Self::deliver) does, and waits until something that was held has been delivered to its
    /// receiver.
    ///
    /// # Panics
    ///
    /// Makes the test void if nothing is delivered within five seconds: a test whose late message comes to a closed
    /// connection has shown nothing.
    pub async fn deliver_late(&self, direction: Direction) {
        let before = self.count(Fault::Late(direction));
        self.deliver(direction);
        if !comes_true(ARRIVAL, || std::future::ready(self.count(Fault::Late(direction)) > before)).await {
            void("what was held has not arrived");
        }
    }

    /// Stops holding in this direction: what was held is lost.
    pub fn discard(&self, direction: Direction) {
        self.log.order(Fault::Lost(direction));
        for network in &self.networks {
            let control = network.control(direction);
            control.state.send_modify(|state| {
                state.lost_below = control.chunks.load(Ordering::SeqCst);
                state.held_below = 0;
            });
        }
    }

    /// Loses the next `chunks` chunks in this direction, whichever connection they are on.
    pub fn swallow(&self, direction: Direction, chunks: u32) {
        self.log.order(Fault::Swallowed(direction));
        self.each(direction, |state| state.swallow = chunks);
    }

    /// Makes connections that are opened from now on send everything twice: the server carries out each request once
    /// more, at once, on a second connection, and the second answer is lost.
    pub fn double(&self) {
        self.log.order(Fault::Doubled);
        self.networks.iter().for_each(|network| network.doubling.store(true, Ordering::SeqCst));
    }

    /// Resets new connections, until [`accept`](Self::accept) is called.
    pub fn refuse(&self) {
        self.log.order(Fault::Refused);
        self.networks.iter().for_each(|network| network.refusing.store(true, Ordering::SeqCst));
    }

    /// Accepts new connections again.
    pub fn accept(&self) {
        self.networks.iter().for_each(|network| network.refusing.store(false, Ordering::SeqCst));
    }

    /// Cuts every open connection.
    pub fn cut(&self, how: Cut) {
        self.log.order(Fault::Cut);
        self.networks.iter().for_each(|network| _ = network.cut.send_replace(Some(how)));
    }

    /// Returns how often this fault took effect.
    pub fn count(&self, fault: Fault) -> u64 {
        self.log.count(fault)
    }

    /// Returns on how many connections, so far, something was held in this direction.
    pub(crate) fn held(&self, direction: Direction) -> u64 {
        self.count(Fault::Held(direction))
    }

    /// Returns how many connections were ended by servers, and not by clients or the proxy.
    pub fn ended_by_servers(&self) -> u64 {
        self.networks.iter().map(|network| network.ended_by_server.load(Ordering::SeqCst)).sum()
    }

    fn each(&self, direction: Direction, change: impl Fn(&mut State)) {
        self.networks.iter().for_each(|network| network.control(direction).state.send_modify(&change));
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let missing = self.log.without_effect();
        if !std::thread::panicking() && !missing.is_empty() {
            void(&format!("the proxy was told to cause this, and it never happened: {missing:?}"));
        }
    }
}

impl Network {
    fn control(&self, direction: Direction) -> &DirectionControl {
        match direction {
            Direction::ToServer => &self.to_server,
            Direction::ToClient => &self.to_client,
        }
    }
}

/// Accepts connections until it is aborted. Its connections end with it.
async fn accept(listener: TcpListener, network: Arc<Network>) {
    let mut connections = JoinSet::new();
    loop {
        let Ok((client, _)) = listener.accept().await else { continue };
        if network.refusing.load(Ordering::SeqCst) {
            network.log.happened(Fault::Refused);
            connection::reset(client);
            continue;
        }
        let number = network.opened.fetch_add(1, Ordering::SeqCst);
        let cut = network.cut.subscribe();
        connections.spawn(connection::serve(client, number, cut, network.clone()));
        while connections.try_join_next().is_some() {}
    }
}

#[cfg(test)]
mod tests;
