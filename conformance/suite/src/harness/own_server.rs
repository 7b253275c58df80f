//! Servers that belong to one case.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use lock_core::{Client, Options, Result};

use super::network::ThroughProxy;

/// Servers can be started that belong to one case.
#[async_trait]
pub trait OwnServers: fmt::Debug + Send + Sync {
    /// Starts a server that belongs to one case, which may stop and kill it.
    async fn start(&self) -> Box<dyn OwnServer>;
}

/// Servers can be started whose clock, the one that ends leases, can be set.
#[async_trait]
pub trait ServerClocks: fmt::Debug + Send + Sync {
    /// Starts such a server, which belongs to one case.
    async fn start(&self) -> Box<dyn ClockedServer>;
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

    /// Returns how clients reach this server through a proxy. A harness that has
    /// [a proxy](super::Abilities::proxy) can do so with its own servers, too.
    fn through_proxy(&self) -> Option<&dyn ThroughProxy> {
        None
    }

    /// Returns the URL at which the program `lock` finds this server. A harness that
    /// [runs the program](super::Abilities::program) can do so on its own servers, too.
    fn url(&self) -> Option<String> {
        None
    }
}

/// A server of one case whose clock can be set.
pub trait ClockedServer: OwnServer {
    /// Sets the clock by which the server ends leases, and makes sure that the clock has moved.
    fn step_clock(&mut self, step: Step);
}

/// By how much a clock is set, relative to what it shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The clock runs ahead from now on.
    Forward(Duration),
    /// The clock lags behind from now on.
    Back(Duration),
}

/// The data that a restarted server remembers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Data {
    /// Everything that it acknowledged.
    Kept,
    /// Nothing.
    Lost,
}
