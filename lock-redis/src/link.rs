//! One connection together with its estimate of the server's clock. They are replaced as one: an estimate made on
//! another connection may be of another server.

use lock_core::driver::Drift;
use lock_core::{Clock, Instant, Result};
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Cmd, PushInfo, PushKind, RedisResult, Value};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use crate::calls::Calls;
use crate::errors;
use crate::facts::Facts;

/// A connection to the server.
#[derive(Debug)]
pub(crate) struct Link {
    calls: Arc<Calls>,
    /// Set by the connection's own task when it ends: an idle connection that was cut is not used again.
    closed: Arc<AtomicBool>,
    /// The server's time minus ours, in microseconds, as of the newest answer.
    offset: AtomicI64,
    first: Heard,
    pub(crate) facts: Facts,
}

/// A reading of the server's clock.
#[derive(Clone, Copy, Debug)]
struct Heard {
    at: Instant,
    offset: i64,
}

impl Link {
    /// Connects, and asks the server for its time and what it says of itself. To be bounded by the caller.
    pub(crate) async fn open(client: &redis::Client, clock: &Clock) -> Result<Link> {
        #[cfg(feature = "tls")]
        if matches!(client.get_connection_info().addr(), redis::ConnectionAddr::TcpTls { .. }) {
            lock_core::driver::check_tls_provider()?;
        }
        let closed = Arc::new(AtomicBool::new(false));
        let mut connection = connect(client, closed.clone()).await.map_err(errors::connecting)?;
        let (now, facts) = Facts::read(&mut connection).await?;
        let first = Heard::now(clock, now);
        let calls = Calls::new(connection);
        Ok(Link { calls, closed, offset: AtomicI64::new(first.offset), first, facts })
    }

    /// Sends a command and waits for the answer; an error that the server answered is an error here.
    pub(crate) async fn send(&self, command: &Cmd) -> RedisResult<Value> {
        self.calls.send(command).await
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Takes note of the server's time, which an answer that has just arrived gave.
    ///
    /// It is paired with the moment after the answer, not the one before the request: the estimate then stands at the
    /// server's clock or behind it, and no deadline made of it lies beyond the end of a call's patience. Being refused
    /// for an estimate that is too far behind costs one more round trip; the other error would let an attempt take the
    /// lock after its caller has gone.
    pub(crate) fn hear(&self, clock: &Clock, now: i64) {
        self.offset.store(Heard::now(clock, now).offset, Ordering::Relaxed);
    }

    /// The server's time in microseconds at a moment of ours; behind it by what the newest answer's way back took.
    pub(crate) fn server_time(&self, at: Instant) -> i64 {
        micros(at).saturating_add(self.offset.load(Ordering::Relaxed))
    }

    /// How the server's clock went against ours since this connection was opened.
    pub(crate) fn drift(&self, clock: &Clock) -> Drift {
        let micros = self.offset.load(Ordering::Relaxed) - self.first.offset;
        Drift { over: clock.now().since(self.first.at), micros }
    }
}

impl Heard {
    fn now(clock: &Clock, server: i64) -> Heard {
        let at = clock.now();
        Heard { at, offset: server.saturating_sub(micros(at)) }
    }
}

async fn connect(client: &redis::Client, closed: Arc<AtomicBool>) -> RedisResult<MultiplexedConnection> {
    let notice = move |push: PushInfo| {
        if push.kind == PushKind::Disconnection {
            closed.store(true, Ordering::Release);
        }
        Ok::<(), ()>(())
    };
    // Every call has its own bound, on the client's clock: redis' (500 ms by default) would be a second one.
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(None)
        .set_response_timeout(None)
        .set_push_sender(notice);
    client.get_multiplexed_async_connection_with_config(&config).await
}

fn micros(at: Instant) -> i64 {
    i64::try_from(at.since_origin().as_micros()).unwrap_or(i64::MAX)
}
