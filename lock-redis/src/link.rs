//! One connection together with its estimate of the server's clock. Both are replaced together: an estimate that was
//! made on another connection may belong to another server.

use std::num::NonZeroU8;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use lock_core::toolkit::{Call, Connect, Drift, ServerClock};
use lock_core::{Clock, Effect, Error, Instant, Result};
use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Client, Cmd, ConnectionAddr, ProtocolVersion, PushInfo, PushKind, RedisError,
    RedisResult, Value,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;

use crate::acks::AcknowledgedCalls;
use crate::calls::Calls;
use crate::errors;
use crate::facts::Facts;
use crate::finder::{self, Finder};
use crate::profile::Profile;

/// Opens connections to the server, and records what each of them shows of it.
pub(crate) struct Connector {
    pub(crate) finder: Arc<Finder>,
    pub(crate) profile: Arc<Profile>,
    /// The number of replicas that have to acknowledge each grant. `None`: none.
    pub(crate) acks: Option<NonZeroU8>,
    /// The time that opening a connection may take.
    pub(crate) patience: Duration,
    /// Where the newest connection leads.
    pub(crate) newest: watch::Sender<Option<ServerIdentity>>,
}

/// A server, as far as one is distinguished from another that takes its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServerIdentity {
    pub(crate) address: String,
    run: Option<String>,
}

#[async_trait]
impl Connect for Connector {
    type Connection = Link;

    /// Takes as long as the client's patience, though a call may have less: a node of several has 50 ms for an answer.
    async fn connect(&self, call: &Call) -> Result<Link> {
        let opening = Call::begin(call.clock(), self.patience);
        let mut link = self.finder.connect(&opening).await?;
        if let Some(replicas) = self.acks {
            let acknowledged = opening.within(link.acknowledged_by(replicas, call.clock())).await;
            link = acknowledged.unwrap_or_else(|| Err(opening.out_of_time(Effect::NotApplied)))?;
        }
        self.profile.learn(&link.facts);
        self.newest.send_replace(Some(link.site.clone()));
        Ok(link)
    }

    fn is_usable(&self, link: &Link) -> bool {
        !link.is_closed()
    }
}

/// A connection to the server.
#[derive(Debug)]
pub(crate) struct Link {
    calls: Arc<Calls>,
    /// Set by the connection's own task when it ends, so that an idle connection that was cut is not used again.
    closed: Arc<AtomicBool>,
    server: Mutex<ServerClock>,
    pub(crate) facts: Facts,
    pub(crate) site: ServerIdentity,
    /// Opens further connections to the same server.
    client: Client,
    /// Where replicas acknowledge what is written. `None`: they need not.
    pub(crate) acknowledged: Option<Arc<AcknowledgedCalls>>,
    /// Tells the calls on this connection that another server is the primary. `None`: there is no other.
    left: Option<watch::Sender<bool>>,
}

impl Link {
    /// Connects, and asks the server for its time and its facts. Has no time limit of its own: the caller sets one.
    pub(crate) async fn open(client: &Client, clock: &Clock) -> Result<Link> {
        check_tls(client)?;
        let closed = Arc::new(AtomicBool::new(false));
        let mut connection = match connect(client, closed.clone()).await {
            Ok(connection) => connection,
            Err(e) if errors::was_closed(&e) => {
                return Err(errors::connecting(refused_before_asked(client).await.unwrap_or(e)));
            }
            Err(e) => return Err(errors::connecting(e)),
        };
        let (now, facts) = Facts::read(&mut connection).await?;
        let server = Mutex::new(ServerClock::new(now, clock.now()));
        let site = ServerIdentity { address: finder::address(client), run: facts.run.clone() };
        Ok(Link {
            calls: Calls::new(connection),
            closed,
            server,
            facts,
            site,
            client: client.clone(),
            acknowledged: None,
            left: None,
        })
    }

    /// Returns the same connection, with another one to the same server for what so many replicas have to acknowledge. A
    /// replica gets none: nothing is written there.
    pub(crate) async fn acknowledged_by(self, replicas: NonZeroU8, clock: &Clock) -> Result<Link> {
        if self.facts.is_replica() {
            return Ok(self);
        }
        // If one of the two ends, both are replaced.
        let mut connection = connect(&self.client, self.closed.clone()).await.map_err(errors::connecting)?;
        let (_, facts) = Facts::read(&mut connection).await?;
        if facts.run != self.facts.run {
            return Err(Error::unavailable(
                Effect::NotApplied,
                "two connections to this address have led to different servers",
            ));
        }
        let acknowledged = Some(AcknowledgedCalls::over(connection, replicas, facts.replicas, clock).await?);
        Ok(Link { acknowledged, ..self })
    }

    /// Checks that as many replicas are attached as have to acknowledge a grant.
    pub(crate) fn check_acknowledgements(&self) -> Result<()> {
        self.acknowledged.as_ref().map_or(Ok(()), |calls| calls.check_attached())
    }

    /// Sends a command and waits for the answer. An error that the server answered is an error here.
    pub(crate) async fn send(&self, command: &Cmd) -> RedisResult<Value> {
        self.calls.send(command).await
    }

    /// As [`send`](Self::send), for a command about a key that is on its way to this member of a cluster.
    pub(crate) async fn send_asking(&self, command: &Cmd) -> RedisResult<Value> {
        self.calls.send_asking(command).await
    }

    /// Returns the same connection, which can be left for one to another server.
    pub(crate) fn that_can_be_left(self) -> Link {
        Link { left: Some(watch::Sender::new(false)), ..self }
    }

    /// Ends the calls that wait for an answer here.
    pub(crate) fn leave(&self) {
        if let Some(left) = &self.left {
            left.send_replace(true);
        }
    }

    /// Returns when the connection is left.
    pub(crate) async fn left(&self) {
        if let Some(left) = &self.left {
            // An error would mean that the sender is gone, which is in this connection.
            _ = left.subscribe().wait_for(|left| *left).await;
        } else {
            std::future::pending::<()>().await;
        }
    }

    /// Returns how further connections to the same server are opened.
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Takes note of the server's time, in microseconds, from an answer that has arrived this moment.
    pub(crate) fn hear(&self, clock: &Clock, now: i64) {
        let heard = clock.now();
        self.server().hear(now, heard);
    }

    /// Notes the server's time from an answer to a question that was sent after `asked_at`.
    pub(crate) fn hear_answer(&self, clock: &Clock, now: i64, asked_at: Instant) {
        let heard = clock.now();
        self.server().hear_answer(now, asked_at, heard);
    }

    /// Returns an estimate of what the server's clock shows when a request arrives that is `sent` then, in microseconds.
    pub(crate) fn on_arrival(&self, sent: Instant) -> i64 {
        self.server().on_arrival(sent)
    }

    /// Returns the end of the call by the server's clock, or a moment before it, in microseconds.
    pub(crate) fn deadline(&self, call: &Call) -> i64 {
        self.server().deadline(call)
    }

    /// Returns how the server's clock has drifted against the client's since this connection was opened.
    pub(crate) fn drift(&self) -> Drift {
        self.server().drift()
    }

    fn server(&self) -> MutexGuard<'_, ServerClock> {
        // Nothing that can panic runs under this lock.
        self.server.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Checks that TLS works in this program, if the server is reached by it.
#[cfg(feature = "tls")]
pub(crate) fn check_tls(client: &Client) -> Result<()> {
    match client.get_connection_info().addr() {
        ConnectionAddr::TcpTls { .. } => lock_core::toolkit::check_tls_provider(),
        _ => Ok(()),
    }
}

#[cfg(not(feature = "tls"))]
pub(crate) fn check_tls(_: &Client) -> Result<()> {
    Ok(())
}

/// Opens a connection that reports its end. RESP3, because only with it does redis report the end of a connection on
/// which no command is under way.
async fn connect(client: &Client, closed: Arc<AtomicBool>) -> RedisResult<MultiplexedConnection> {
    let notice = move |push: PushInfo| {
        if push.kind == PushKind::Disconnection {
            closed.store(true, Ordering::Release);
        }
        Ok::<(), ()>(())
    };
    // Every call has its own time limit, on the client's clock. redis' own (500 ms by default) would be a second one.
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(None)
        .set_response_timeout(None)
        .set_push_sender(notice);
    speaking(client, ProtocolVersion::RESP3)?.get_multiplexed_async_connection_with_config(&config).await
}

/// Returns the error that the server sends to a new connection before it reads from it: it has no room for another one. A
/// request that is on its way by then makes the connection break before the error is read, so this sends none.
async fn refused_before_asked(client: &Client) -> Option<RedisError> {
    let ConnectionAddr::Tcp(host, port) = client.get_connection_info().addr() else { return None };
    let mut stream = TcpStream::connect((host.as_str(), *port)).await.ok()?;
    // Any other server closes a connection whose client asks nothing.
    stream.shutdown().await.ok()?;
    let mut greeting = Vec::new();
    stream.take(LONGEST_GREETING).read_to_end(&mut greeting).await.ok()?;
    redis::parse_redis_value(&greeting).ok()?.extract_error().err()
}

const LONGEST_GREETING: u64 = 200;

/// Returns the same client with another version of the protocol.
pub(crate) fn speaking(client: &Client, protocol: ProtocolVersion) -> RedisResult<Client> {
    let server = client.get_connection_info().clone();
    let login = server.redis_settings().clone().set_protocol(protocol);
    Client::open(server.set_redis_settings(login))
}
