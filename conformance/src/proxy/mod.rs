//! A network that misbehaves on order: a TCP proxy in front of a server, or one in front of each of several.
//!
//! It knows nothing of what it carries: a chunk is what one read brought, which on loopback is what the sender wrote at
//! once, as long as requests and answers are small and come one at a time. A case that ordered a fault which never took
//! effect has shown nothing: dropping the proxy panics then, and the case is void.

mod connection;
mod log;

use std::collections::BTreeSet;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use self::log::Log;
pub use self::log::{Fault, Way};
use crate::timing::{comes_true, void};

/// How long it may take to hand on what was held.
const ARRIVAL: Duration = Duration::from_secs(5);

/// A proxy in front of a server, on a free port of 127.0.0.1; of several, one in front of each, and what it is told is told
/// to each. It lives on the runtime that started it.
#[derive(Debug)]
pub struct Proxy {
    doors: Vec<Door>,
    addresses: Vec<SocketAddr>,
    log: Arc<Log>,
}

/// In front of one server.
#[derive(Debug)]
struct Door {
    network: Arc<Network>,
    accepting: JoinHandle<()>,
}

/// How connections are cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// Both ends are reset.
    Reset,
    /// Both ends are closed in good order.
    Closed,
    /// The server's end is reset, and the client is not told: what it sends goes nowhere.
    HalfOpen,
}

/// What the proxy's tasks share.
#[derive(Debug)]
struct Network {
    server: String,
    to_server: Lane,
    to_client: Lane,
    /// How the connections that are open when it changes are cut.
    cut: watch::Sender<Option<Cut>>,
    refusing: AtomicBool,
    doubling: AtomicBool,
    /// Connections opened so far: the number of the next one.
    opened: AtomicU64,
    /// Connections that the server has ended.
    ended_by_server: AtomicU64,
    log: Arc<Log>,
}

/// One direction of all connections.
#[derive(Debug)]
struct Lane {
    way: Way,
    state: watch::Sender<State>,
    /// Chunks that have come in so far: the number of the next one.
    chunks: AtomicU64,
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    delay: Duration,
    /// How long to wait after each byte.
    trickle: Option<Duration>,
    /// Connections below this number are held,
    held_below: u64,
    /// from this chunk on.
    held_from: u64,
    /// Chunks below this number are lost.
    lost_below: u64,
    /// So many of the next chunks are lost.
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
    /// Starts one in front of `server`, as `host:port`.
    pub async fn start(server: &str) -> io::Result<Proxy> {
        Proxy::start_all(&[server.to_owned()]).await
    }

    /// Starts one in front of each of these servers.
    pub async fn start_all(servers: &[String]) -> io::Result<Proxy> {
        let (mut doors, mut addresses, log) = (Vec::new(), Vec::new(), Arc::new(Log::default()));
        for server in servers {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
            addresses.push(listener.local_addr()?);
            doors.push(Door::open(listener, server, log.clone()));
        }
        Ok(Proxy { doors, addresses, log })
    }

    /// Where clients connect to the server, or to the first of several.
    pub fn address(&self) -> SocketAddr {
        self.addresses[0]
    }

    /// Where clients connect, in the order of the servers.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Delays every chunk of this direction by so much after it came in.
    pub fn delay(&self, way: Way, by: Duration) {
        if !by.is_zero() {
            self.log.order(Fault::Delayed(way));
        }
        self.each(way, |state| state.delay = by);
    }

    /// Hands everything in this direction on byte by byte, with a pause after each.
    pub fn trickle(&self, way: Way, pause: Duration) {
        self.log.order(Fault::Trickled(way));
        self.each(way, |state| state.trickle = Some(pause));
    }

    /// Holds everything in this direction, new connections included: a black hole, without a reset.
    pub fn hold(&self, way: Way) {
        self.log.order(Fault::Held(way));
        self.each(way, State::hold_all);
    }

    /// Holds both directions. What must have happened is that a request was held: no answer follows.
    pub fn hold_all(&self) {
        self.each(Way::ToClient, State::hold_all);
        self.hold(Way::ToServer);
    }

    /// As [`hold`](Self::hold), but connections that are opened from now on work.
    pub fn hold_open_ones(&self, way: Way) {
        self.hold_open(way, |_| 0);
    }

    /// As [`hold_open_ones`](Self::hold_open_ones), behind so many of the next chunks.
    pub fn hold_open_ones_after(&self, way: Way, chunks: u64) {
        self.hold_open(way, |next| next + chunks);
    }

    fn hold_open(&self, way: Way, from: impl Fn(u64) -> u64) {
        self.log.order(Fault::Held(way));
        for Door { network, .. } in &self.doors {
            let (lane, open) = (network.lane(way), network.opened.load(Ordering::SeqCst));
            lane.state.send_modify(|state| {
                state.held_below = open;
                state.held_from = from(lane.chunks.load(Ordering::SeqCst));
            });
        }
    }

    /// Holds nothing any more: what was held arrives now, in its order.
    pub fn deliver(&self, way: Way) {
        self.each(way, |state| state.held_below = 0);
    }

    /// As [`deliver`](Self::deliver), and waits until something that was held has been handed to whom it was sent: a test
    /// whose late message comes to a closed connection has shown nothing.
    pub async fn deliver_late(&self, way: Way) {
        let before = self.count(Fault::Late(way));
        self.deliver(way);
        if !comes_true(ARRIVAL, || std::future::ready(self.count(Fault::Late(way)) > before)).await {
            void("what was held has not arrived");
        }
    }

    /// Holds nothing any more: what was held is lost.
    pub fn discard(&self, way: Way) {
        self.log.order(Fault::Lost(way));
        for Door { network, .. } in &self.doors {
            let lane = network.lane(way);
            lane.state.send_modify(|state| {
                state.lost_below = lane.chunks.load(Ordering::SeqCst);
                state.held_below = 0;
            });
        }
    }

    /// Loses the next chunks of this direction, whichever connection they are on.
    pub fn swallow(&self, way: Way, chunks: u32) {
        self.log.order(Fault::Swallowed(way));
        self.each(way, |state| state.swallow = chunks);
    }

    /// Connections that are opened from now on ask everything twice: the server carries out each request once more, at
    /// once, on a connection of its own, and the second answer is lost.
    pub fn double(&self) {
        self.log.order(Fault::Doubled);
        self.doors.iter().for_each(|door| door.network.doubling.store(true, Ordering::SeqCst));
    }

    /// Resets whoever connects, until [`accept`](Self::accept).
    pub fn refuse(&self) {
        self.log.order(Fault::Refused);
        self.doors.iter().for_each(|door| door.network.refusing.store(true, Ordering::SeqCst));
    }

    /// Lets connect again.
    pub fn accept(&self) {
        self.doors.iter().for_each(|door| door.network.refusing.store(false, Ordering::SeqCst));
    }

    /// Cuts every connection that is open.
    pub fn cut(&self, how: Cut) {
        self.log.order(Fault::Cut);
        for Door { network, .. } in &self.doors {
            network.cut.send_replace(Some(how));
        }
    }

    /// How often this took effect.
    pub fn count(&self, fault: Fault) -> u64 {
        self.log.count(fault)
    }

    /// How many connections servers have ended, and not clients or the proxy.
    pub fn ended_by_servers(&self) -> u64 {
        self.doors.iter().map(|door| door.network.ended_by_server.load(Ordering::SeqCst)).sum()
    }

    fn each(&self, way: Way, change: impl Fn(&mut State)) {
        self.doors.iter().for_each(|door| door.network.lane(way).state.send_modify(&change));
    }

    fn without_effect(&self) -> BTreeSet<Fault> {
        self.log.without_effect()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.doors.iter().for_each(|door| door.accepting.abort());
        let missing = self.without_effect();
        if !std::thread::panicking() && !missing.is_empty() {
            void(&format!("the proxy was told to cause this, and it never happened: {missing:?}"));
        }
    }
}

impl Door {
    fn open(listener: TcpListener, server: &str, log: Arc<Log>) -> Door {
        let network = Arc::new(Network {
            server: server.to_owned(),
            to_server: Lane::new(Way::ToServer),
            to_client: Lane::new(Way::ToClient),
            cut: watch::Sender::new(None),
            refusing: AtomicBool::new(false),
            doubling: AtomicBool::new(false),
            opened: AtomicU64::new(0),
            ended_by_server: AtomicU64::new(0),
            log,
        });
        let accepting = tokio::spawn(accept(listener, network.clone()));
        Door { network, accepting }
    }
}

impl Network {
    fn lane(&self, way: Way) -> &Lane {
        match way {
            Way::ToServer => &self.to_server,
            Way::ToClient => &self.to_client,
        }
    }
}

impl Lane {
    fn new(way: Way) -> Lane {
        Lane { way, state: watch::Sender::default(), chunks: AtomicU64::new(0) }
    }
}

/// Ends with its connections when it is aborted.
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
