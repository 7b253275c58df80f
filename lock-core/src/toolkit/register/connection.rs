//! A connection to the server, with what is known of the clock behind it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;

use super::registers::{Read, Registers, Replaced};
use crate::clock::Instant;
use crate::error::{Effect, Error, Result};
use crate::process::Process;
use crate::toolkit::{Call, Connect, Notice, ServerClock, SharedConnection};

/// A connection that carries requests, each bounded by its call.
#[derive(Debug)]
pub(super) struct RegisterConnection<R: Registers> {
    registers: Arc<R>,
    connection: Arc<R::Connection>,
    clock: Mutex<ServerClock>,
    /// A request had no answer in time.
    is_silent: AtomicBool,
    process: Process,
}

/// Opens the connections of a [`SharedConnection`].
#[derive(Debug)]
pub(super) struct RegisterConnector<R> {
    pub(super) registers: Arc<R>,
    pub(super) process: Process,
}

pub(super) fn shared<R: Registers>(registers: &Arc<R>) -> SharedConnection<RegisterConnector<R>> {
    SharedConnection::new(RegisterConnector { registers: registers.clone(), process: Process::this() })
}

#[async_trait]
impl<R: Registers> Connect for RegisterConnector<R> {
    type Connection = RegisterConnection<R>;

    async fn connect(&self, call: &Call) -> Result<RegisterConnection<R>> {
        let out_of_time = || call.out_of_time(Effect::NotApplied);
        let opening = async {
            self.process.only().await;
            let connection = Arc::new(self.registers.connect(call).await?);
            let asked = call.clock().now();
            let time = self.registers.time(&connection).await.map_err(Error::not_applied)?;
            Ok((connection, ServerClock::with_question(time, asked, call.clock().now())))
        };
        let (connection, clock) = call.within(opening).await.ok_or_else(out_of_time)??;
        let (registers, process) = (self.registers.clone(), self.process);
        let (clock, is_silent) = (Mutex::new(clock), AtomicBool::new(false));
        Ok(RegisterConnection { registers, connection, clock, is_silent, process })
    }

    fn is_usable(&self, connection: &RegisterConnection<R>) -> bool {
        !connection.is_silent.load(Ordering::SeqCst) && self.registers.is_usable(&connection.connection)
    }

    async fn discard(&self, connection: Arc<RegisterConnection<R>>) {
        self.registers.discard(connection.connection.clone()).await;
    }
}

impl<R: Registers> RegisterConnection<R> {
    /// Reads the last write of a key. Also returns the estimate of the clock that the answer itself gives, if it tells
    /// the time.
    pub(super) async fn read(
        &self,
        call: &Call,
        key: &str,
    ) -> Result<(Read<R::Revision>, Option<ServerClock>)> {
        let asked = call.clock().now();
        let read = self.bounded(call, self.registers.read(&self.connection, key)).await?;
        let clock = read.time.map(|time| self.hear(time, asked, call.clock().now()));
        Ok((read, clock))
    }

    pub(super) async fn replace(
        &self,
        call: &Call,
        key: &str,
        expected: Option<&R::Revision>,
        value: &[u8],
    ) -> Result<Replaced<R::Revision>> {
        self.bounded(call, self.registers.replace(&self.connection, key, expected, value)).await
    }

    /// Asks for the server's time. Returns the estimate of the clock that this answer gives.
    pub(super) async fn ask_time(&self, call: &Call) -> Result<ServerClock> {
        let asked = call.clock().now();
        let time =
            self.bounded(call, self.registers.time(&self.connection)).await.map_err(Error::not_applied)?;
        Ok(self.hear(time, asked, call.clock().now()))
    }

    pub(super) async fn tell(&self, call: &Call, notice: &Notice) -> Result<()> {
        self.bounded(call, self.registers.tell(&self.connection, notice)).await
    }

    /// Sends another request of this server over the connection.
    pub(super) async fn ask<T>(
        &self,
        call: &Call,
        request: impl AsyncFnOnce(&R, &R::Connection) -> Result<T>,
    ) -> Result<T> {
        self.bounded(call, request(&self.registers, &self.connection)).await
    }

    /// Returns the estimate of the server's clock.
    pub(super) fn clock(&self) -> ServerClock {
        // Nothing that can panic runs under this lock.
        *self.clock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes note of a time that the server told between two moments. Returns the estimate that this alone gives.
    pub(super) fn hear(&self, time: i64, asked: Instant, heard: Instant) -> ServerClock {
        self.clock.lock().unwrap_or_else(PoisonError::into_inner).hear_answer(time, asked, heard);
        ServerClock::with_question(time, asked, heard)
    }

    async fn bounded<T>(&self, call: &Call, request: impl Future<Output = Result<T>>) -> Result<T> {
        // Dropped with this future, which its caller may give up at the same moment.
        let unanswered = Unanswered(&self.is_silent);
        let answer = call.within(async {
            self.process.only().await;
            request.await
        });
        let answer = answer.await.ok_or_else(|| call.out_of_time(Effect::Unknown))?;
        std::mem::forget(unanswered);
        answer
    }
}

/// A request that has no answer yet. If none comes, the connection is not used again.
struct Unanswered<'a>(&'a AtomicBool);

impl Drop for Unanswered<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// A write was done, and what followed it was not answered.
pub(super) fn of_unknown_effect(error: Error) -> Error {
    Error::unavailable(Effect::Unknown, error.message()).with_source(error)
}
