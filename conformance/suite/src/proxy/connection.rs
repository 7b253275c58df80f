//! One connection through the proxy. Each of its two directions is read at once, and handed on as its control says.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::log::{Direction, Fault, Log};
use super::{Cut, DirectionControl, Network, State};

/// The time that a doubled request waits for an answer before it continues without one.
const ANSWER: Duration = Duration::from_millis(50);

const BUFFER: usize = 64 * 1024;

/// The result of one read; empty at the end of the stream.
struct Chunk {
    number: u64,
    at: Instant,
    bytes: Vec<u8>,
}

/// One direction of one connection.
#[derive(Clone, Copy)]
struct Flow<'a> {
    connection: u64,
    direction: Direction,
    network: &'a Network,
    /// Changes when an answer was handed on.
    answered: &'a watch::Sender<()>,
    /// The client has closed the connection.
    client_left: &'a AtomicBool,
}

impl<'a> Flow<'a> {
    fn control(self) -> &'a DirectionControl {
        self.network.control(self.direction)
    }

    fn happened(self, fault: fn(Direction) -> Fault) {
        self.network.log.happened(fault(self.direction));
    }

    /// Notes that this direction has ended. The connection was ended by the end that closes it first.
    fn ends(self) {
        match self.direction {
            Direction::ToServer => self.client_left.store(true, Ordering::SeqCst),
            Direction::ToClient if self.client_left.load(Ordering::SeqCst) => {}
            Direction::ToClient => _ = self.network.ended_by_server.fetch_add(1, Ordering::SeqCst),
        }
    }
}

/// Carries one connection until both its ends are closed, or it is cut.
pub(super) async fn serve(
    mut client: TcpStream,
    number: u64,
    mut cut: watch::Receiver<Option<Cut>>,
    network: Arc<Network>,
) {
    let Ok(mut server) = connect(&network.server).await else { return reset(client) };
    let Ok(double) = Double::open(&network).await else { return reset(client) };
    client.set_nodelay(true).ok();
    let handshake = Duration::from_micros(network.handshake.load(Ordering::SeqCst));
    if !handshake.is_zero() {
        sleep(handshake).await;
    }
    let how = {
        let (from_client, to_client) = client.split();
        let (from_server, to_server) = server.split();
        let (answered, client_left, network) = (&watch::Sender::new(()), &AtomicBool::new(false), &*network);
        let flow = |direction| Flow { connection: number, direction, network, answered, client_left };
        let requests = carry(from_client, to_server, flow(Direction::ToServer), double);
        let answers = carry(from_server, to_client, flow(Direction::ToClient), None);
        tokio::select! {
            how = ordered(&mut cut) => how,
            _ = async { tokio::join!(requests, answers) } => return,
        }
    };
    network.log.happened(Fault::Cut);
    end(client, server, how, cut).await;
}

/// Ends a connection as it was cut. A half-open one stays open for the client until it is cut again, or closed.
async fn end(mut client: TcpStream, server: TcpStream, how: Cut, mut cut: watch::Receiver<Option<Cut>>) {
    match how {
        Cut::Closed => {}
        Cut::Reset => {
            reset(server);
            reset(client);
        }
        Cut::HalfOpen => {
            reset(server);
            let mut nowhere = tokio::io::sink();
            tokio::select! {
                _ = ordered(&mut cut) => {}
                _ = tokio::io::copy(&mut client, &mut nowhere) => {}
            }
        }
    }
}

/// Closes the stream so that the other end gets an error.
pub(super) fn reset(stream: TcpStream) {
    // Where the system can't do that, the stream is closed normally.
    stream.set_zero_linger().ok();
}

async fn connect(server: &str) -> std::io::Result<TcpStream> {
    let stream = TcpStream::connect(server).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

async fn ordered(cut: &mut watch::Receiver<Option<Cut>>) -> Cut {
    loop {
        if cut.changed().await.is_err() {
            return Cut::Closed; // the proxy was dropped
        }
        if let Some(how) = *cut.borrow_and_update() {
            return how;
        }
    }
}

async fn carry(
    from: impl AsyncRead + Unpin,
    to: impl AsyncWrite + Unpin,
    flow: Flow<'_>,
    double: Option<Double>,
) {
    let (queue, arriving) = mpsc::unbounded_channel();
    tokio::join!(take_in(from, flow, queue), hand_on(arriving, to, flow, double));
}

/// Reads whatever arrives, like a network that can't be blocked.
async fn take_in(mut from: impl AsyncRead + Unpin, flow: Flow<'_>, queue: mpsc::UnboundedSender<Chunk>) {
    let mut buffer = vec![0; BUFFER];
    loop {
        // A reset is an end, too.
        let length = from.read(&mut buffer).await.unwrap_or(0);
        if length == 0 {
            flow.ends();
        }
        let number = flow.control().chunks.fetch_add(1, Ordering::SeqCst);
        let chunk = Chunk { number, at: Instant::now(), bytes: buffer[..length].to_vec() };
        if queue.send(chunk).is_err() || length == 0 {
            return;
        }
    }
}

async fn hand_on(
    mut arriving: mpsc::UnboundedReceiver<Chunk>,
    mut to: impl AsyncWrite + Unpin,
    flow: Flow<'_>,
    mut double: Option<Double>,
) {
    while let Some(chunk) = arriving.recv().await {
        let arrival = arrives(&chunk, flow).await;
        if chunk.bytes.is_empty() {
            // The end comes after everything that was sent before it, held or not. A receiver that has gone need not be
            // told.
            to.shutdown().await.ok();
            return;
        }
        if arrival == Arrival::Never {
            continue;
        }
        let mut answers = flow.answered.subscribe();
        if deliver(&chunk.bytes, &mut to, flow).await.is_err() {
            return;
        }
        if arrival == Arrival::Late {
            flow.happened(Fault::Late);
        }
        if flow.direction == Direction::ToClient {
            flow.answered.send_replace(());
        }
        if let Some(double) = &mut double {
            // The first copy's answer counts, so it has to come first.
            timeout(ANSWER, answers.changed()).await.ok();
            double.ask(&chunk.bytes).await;
        }
    }
}

async fn deliver(bytes: &[u8], mut to: impl AsyncWrite + Unpin, flow: Flow<'_>) -> std::io::Result<()> {
    let trickle = flow.control().state.borrow().trickle;
    let Some(pause) = trickle else { return to.write_all(bytes).await };
    flow.happened(Fault::Trickled);
    for byte in bytes {
        to.write_all(&[*byte]).await?;
        match pause.is_zero() {
            true => tokio::task::yield_now().await,
            false => sleep(pause).await,
        }
    }
    Ok(())
}

/// The fate of a chunk.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Arrival {
    InTime,
    /// It was held before.
    Late,
    Never,
}

/// Waits until the chunk may go on, if it may, and returns how it arrives.
async fn arrives(chunk: &Chunk, flow: Flow<'_>) -> Arrival {
    let control = flow.control();
    let mut state = control.state.subscribe();
    let (carries, now) = (!chunk.bytes.is_empty(), *state.borrow());
    if carries && !now.delay.is_zero() {
        flow.happened(Fault::Delayed);
        sleep_until(chunk.at + now.delay).await;
    }
    let holds = |state: &State| state.holds(flow.connection, chunk.number);
    let is_held = holds(&state.borrow());
    if is_held {
        if carries {
            flow.happened(Fault::Held);
        }
        // The control lives as long as the proxy's tasks.
        state.wait_for(|state| !holds(state)).await.ok();
    }
    if !carries {
        return Arrival::InTime;
    }
    if chunk.number < state.borrow().lost_below {
        flow.happened(Fault::Lost);
        return Arrival::Never;
    }
    let swallowed = control.state.send_if_modified(|state| {
        let swallows = state.swallow > 0;
        state.swallow = state.swallow.saturating_sub(1);
        swallows
    });
    if swallowed {
        flow.happened(Fault::Swallowed);
        return Arrival::Never;
    }
    if is_held { Arrival::Late } else { Arrival::InTime }
}

/// The second connection, on which every request is sent again.
struct Double {
    to_server: OwnedWriteHalf,
    /// Changes when an answer was counted, even a late one.
    answered: watch::Receiver<()>,
    _counting: JoinSet<()>,
}

impl Double {
    async fn open(network: &Network) -> std::io::Result<Option<Double>> {
        if !network.doubling.load(Ordering::SeqCst) {
            return Ok(None);
        }
        let (from_server, to_server) = connect(&network.server).await?.into_split();
        let (told, answered) = watch::channel(());
        let mut counting = JoinSet::new();
        counting.spawn(count_answers(from_server, told, network.log.clone()));
        Ok(Some(Double { to_server, answered, _counting: counting }))
    }

    async fn ask(&mut self, request: &[u8]) {
        self.answered.mark_unchanged();
        if self.to_server.write_all(request).await.is_ok() {
            timeout(ANSWER, self.answered.changed()).await.ok();
        }
    }
}

async fn count_answers(mut from: OwnedReadHalf, told: watch::Sender<()>, log: Arc<Log>) {
    let mut answer = vec![0; BUFFER];
    while let Ok(1..) = from.read(&mut answer).await {
        log.happened(Fault::Doubled);
        told.send_replace(());
    }
}
