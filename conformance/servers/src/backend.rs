//! The harness for a backend whose server the suite itself starts, stops and kills. This module has what all such
//! servers share; a backend implements `Backend` with what is particular to its own.

mod admin;
mod on_server;
mod own;

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use async_trait::async_trait;
use lock_conformance::harness::{IdleConnection, OneTrip, Promise, Replays, SHORTEST_TTL, ToldTime};
use lock_conformance::{Missing, Verdict};
use lock_core::{Client, Options, Result};

use super::product::Product;
use super::requirement::Absence;
use super::server::Server;
use super::settings::Settings;
pub use admin::AdminAbilities;
use on_server::OnServer;

/// A backend on a server, for [`run_on_server`]. The methods get the server that all cases share, or the URL of any
/// server: of that one, or of one that belongs to one case.
#[async_trait]
pub trait Backend: fmt::Debug + Send + Sync + 'static {
    /// Returns the product, which says how its server is found or started.
    fn product(&self) -> &'static dyn Product;

    /// Returns the settings with which the server that all cases share is started. No case kills that server.
    fn settings(&self) -> Settings {
        Settings::default()
    }

    /// Returns what the report calls the server under test.
    fn name(&self, server: &Server) -> String {
        server.to_string()
    }

    /// Returns further environment variables with which this test program, started once more, tests the same server.
    fn environment(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    /// Returns the URL by which other programs open the locks under test on the server at `url`, where locks can be stored
    /// in several ways.
    fn locks_at(&self, url: &str) -> String {
        url.to_owned()
    }

    /// See [`Harness::ttl`](lock_conformance::Harness::ttl).
    fn ttl(&self) -> Duration {
        SHORTEST_TTL
    }

    /// See [`Harness::proven_at_once`](lock_conformance::Harness::proven_at_once).
    fn proven_at_once(&self) -> usize {
        usize::MAX
    }

    /// See [`Harness::opens_in_forks`](lock_conformance::Harness::opens_in_forks).
    fn opens_in_forks(&self) -> bool {
        true
    }

    /// See [`Harness::promised`](lock_conformance::Harness::promised). There is no default, so that a backend cannot
    /// forget to say it.
    fn promised(&self) -> Vec<Promise>;

    /// Opens a client of the server.
    async fn open(&self, url: &str, options: Options) -> Result<Client>;

    /// Returns the address of the server, as `host:port`.
    ///
    /// # Errors
    ///
    /// The reason, if no proxy can stand in front of the server.
    fn address(&self, url: &str) -> Result<String, Missing>;

    /// Opens a client that connects to `address` instead of the server's own, and without TLS: the proxy has to see
    /// what it drops.
    async fn open_through(&self, url: &str, address: SocketAddr, options: Options) -> Result<Client>;

    /// See [`ThroughProxy::multiplexes`](lock_conformance::harness::ThroughProxy::multiplexes).
    fn multiplexes(&self) -> bool {
        false
    }

    /// See [`Harness::replays`](lock_conformance::Harness::replays).
    ///
    /// # Errors
    ///
    /// The reason, if a request is not the same on another connection.
    fn replays(&self) -> Result<Replays, Missing> {
        Ok(Replays)
    }

    /// See [`Harness::grants_in_one_trip`](lock_conformance::Harness::grants_in_one_trip).
    ///
    /// # Errors
    ///
    /// The reason, if the first answer of an attempt does not grant.
    fn grants_in_one_trip(&self) -> Result<OneTrip, Missing> {
        Ok(OneTrip)
    }

    /// See [`Harness::keeps_idle_connections`](lock_conformance::Harness::keeps_idle_connections).
    ///
    /// # Errors
    ///
    /// The reason, if another connection takes the place of one that was silent.
    fn keeps_idle_connections(&self) -> Result<IdleConnection, Missing> {
        Ok(IdleConnection)
    }

    /// See [`Harness::tells_its_time`](lock_conformance::Harness::tells_its_time).
    ///
    /// # Errors
    ///
    /// The reason, if the server tells no time, or ends leases by another clock.
    fn tells_its_time(&self) -> Result<ToldTime, Missing> {
        Ok(ToldTime)
    }

    /// Checks that leases end by a clock that can be set. Whether this machine can set clocks is checked after that.
    ///
    /// # Errors
    ///
    /// The reason, if they end by another clock.
    fn ends_leases_by_wall_clock(&self) -> Result<(), Missing> {
        Ok(())
    }

    /// Returns what an administrator can do on the server that all cases share, besides what clients of the backend can.
    fn admin(&self, server: &Server) -> AdminAbilities;
}

/// Runs the suite on the backend's server: the one that the environment names, or one that is started for it. If there
/// is none, the suite is *not run*; if there had to be one, it has failed.
pub fn run_on_server(backend: impl Backend) -> Verdict {
    let product = backend.product();
    match Server::find_or_start(product, &backend.settings()) {
        Ok(server) => lock_conformance::run(OnServer::new(backend, server)),
        Err(Absence::NotRun(why)) => lock_conformance::not_run(product.listing().name, &why),
        Err(Absence::Failure(why)) => lock_conformance::failed(product.listing().name, &why),
    }
}
