//! A whole driver for servers that only compare and set: NATS KV, object stores with conditions, and others that keep a
//! value for each key and stamp each write with their own time.
//!
//! The author of a backend implements [`Registers`]: to read a key, to replace it if it is unchanged, and to learn the
//! server's time. [`RegisterDriver`] has everything else: the [`Row`] that a key's value is, deadlines, tokens, and the
//! calls of the contract.
//!
//! # Which bound is used where
//!
//! The server's time is known between two bounds (`span.rs`). So that no two clients believe to have the lock:
//!
//! - The holder counts its lease from before its request. The server counts it from the stamp, which is later.
//! - A reader takes a lease for over when the *lower* bound of the time is past the *upper* bound of its end, and the time
//!   was told after the row was read.
//! - A waiter is told what is left by the *upper* bound of the time: it may look too early, and not too late.
//! - An attempt carries the *lower* bound of the end of its call. A renewal carries the *upper* bound of the end of the
//!   lease before it: a reader must not take the renewal for void while the holder may rely on the lease before it.
//! - Whether a row came in time, readers and its writer decide by the same two numbers, its stamp and its deadline.

mod claim;
mod connection;
mod key;
mod registers;
mod row;
mod span;
mod text;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::{Call, Decision, Notice, Opening, Settled, SharedConnection, Start, compare_and_swap};
use crate::clock::Clock;
use crate::driver::{
    Claim, Context, Driver, Finding, Info, Inspection, Level, Request, Revocation, Revoked, When,
};
use crate::error::{Error, Result};
use crate::name::Name;
use claim::RegisterClaim;
use connection::RegisterConnector;
use key::{Key, Precision, Seen, parse};
pub use registers::{Read, Registers, Replaced, Stored};
pub use row::{Change, Row};

/// Claims locks in the [`Registers`] of a server.
///
/// An uncontended acquisition takes two requests, a renewal and a release one each, and a hand-over three. Acquisition and
/// renewal take one more if the answer to a write does not tell its stamp. Any call may take a question for the time more
/// where the estimate of it does not decide.
#[derive(Debug)]
pub struct RegisterDriver<R: Registers> {
    server: Arc<Server<R>>,
    clock: Clock,
}

/// State that a client and its claims share.
#[derive(Debug)]
struct Server<R: Registers> {
    registers: Arc<R>,
    connection: SharedConnection<RegisterConnector<R>>,
}

impl<R: Registers> RegisterDriver<R> {
    /// Makes a driver. Does no I/O: the first call connects.
    pub fn new(registers: R, clock: Clock) -> RegisterDriver<R> {
        let registers = Arc::new(registers);
        let connection = connection::shared(&registers);
        RegisterDriver { server: Arc::new(Server { registers, connection }), clock }
    }

    /// Makes a driver, and connects unless the client is opened lazily.
    ///
    /// # Errors
    ///
    /// `Unavailable` if the server has not answered within the context's patience; otherwise the error of
    /// [`Connect::connect`](crate::toolkit::Connect::connect).
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, a connection may be opened and closed.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub async fn open(registers: R, context: &Context, opening: Opening) -> Result<RegisterDriver<R>> {
        let driver = RegisterDriver::new(registers, context.clock.clone());
        if opening == Opening::Waits {
            driver.server.connection.get(&driver.call(context.patience)).await?;
        }
        Ok(driver)
    }

    fn call(&self, patience: Duration) -> Call {
        Call::begin(&self.clock, patience)
    }
}

#[async_trait]
impl<R: Registers> Driver for RegisterDriver<R> {
    fn info(&self) -> Arc<Info> {
        self.server.registers.info()
    }

    fn claim(&self, request: Request) -> Box<dyn Claim> {
        Box::new(RegisterClaim::new(self.server.clone(), request))
    }

    async fn inspect(&self, name: &Name, patience: Duration) -> Result<Inspection> {
        use super::Register as _;
        let key = self.server.registers.key(name);
        let key = self.server.key(&key, Precision::Asked);
        let (value, seen) = key.look(&self.call(patience)).await.map_err(Error::not_applied)?;
        let row = seen.in_force(parse(value.as_deref())?);
        Ok(Inspection::new(row.map(|row| row.entry(&seen.mark(), seen.times.now)), None))
    }

    async fn revoke(&self, name: &Name, revocation: Revocation) -> Result<Revoked> {
        let Revocation { holder, by, label, when, patience, .. } = revocation;
        let (call, key) = (self.call(patience), self.server.registers.key(name));
        let key = self.server.key(&key, Precision::Asked);
        let mut free_in = Duration::ZERO;
        let decide = |value: Option<&[u8]>, seen: &Seen<R::Revision>| {
            let row = seen.in_force(parse(value)?).filter(|row| row.owner.as_bytes() == holder.as_bytes());
            let Some(row) = row else { return Ok(Decision::Leave(())) };
            free_in = row.ends(&seen.mark()).at_most_since(seen.times.now);
            Ok(Decision::Write(row.revoked(&seen.mark(), by, &label, when).to_bytes()))
        };
        let settled = compare_and_swap(&call, &key, Start::Look, decide).await?;
        let Settled::Written { value, .. } = settled else { return Ok(Revoked::NotHeld) };
        self.server.tell_revoke(&call, name, &Row::parse(&value)?).await;
        Ok(match when {
            When::HoldersDeadline => Revoked::FreeIn(free_in),
            When::Now => Revoked::Free,
        })
    }

    async fn check(&self, patience: Duration) -> Result<Vec<Finding>> {
        let call = self.call(patience);
        let connection = self.server.connection.get(&call).await?;
        connection.ask_time(&call).await?;
        let reachable = Finding::new("reachable", Level::Good, "the server answers");
        let clock = connection.clock().drift().finding();
        let found = connection.ask(&call, async |registers, connection| registers.findings(connection).await);
        let found = found.await.map_err(Error::not_applied)?;
        Ok([reachable, clock].into_iter().chain(found).collect())
    }

    async fn init(&self, patience: Duration) -> Result<String> {
        let call = self.call(patience);
        let connection = self.server.connection.get(&call).await?;
        connection.ask(&call, async |registers, connection| registers.init(connection).await).await
    }
}

impl<R: Registers> Server<R> {
    fn key<'a>(&'a self, name: &'a str, precision: Precision) -> Key<'a, R> {
        Key { connection: &self.connection, name, precision }
    }

    async fn tell(&self, call: &Call, notice: &Notice) -> Result<()> {
        self.connection.get(call).await?.tell(call, notice).await
    }

    /// Announces a revoke, which was done. If that fails, the holder learns of it from its next renewal, and a waiter
    /// at the end of the lease that it saw.
    async fn tell_revoke(&self, call: &Call, name: &Name, row: &Row) {
        if let Some(holder) = &row.revoked {
            self.tell(call, &Notice::Revoked(holder.clone())).await.ok();
        }
        if row.change() == Change::Revoked(When::Now) {
            self.tell(call, &Notice::Released(name.to_string())).await.ok();
        }
    }
}

#[cfg(test)]
mod tests;
