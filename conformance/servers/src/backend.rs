//! The harness for a backend whose server the suite itself starts, stops and kills. This module has what all such
//! servers share; a backend implements `Backend` with what is particular to its own.

mod on_server;
mod own;

use std::fmt;
use std::net::SocketAddr;

use async_trait::async_trait;
use lock_conformance::{Abilities, Facts, Missing, Verdict};
use lock_core::{Client, Options, Result};

use super::product::Product;
use super::server::Server;
use super::settings::Settings;
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

    /// See [`Harness::facts`](lock_conformance::Harness::facts). There is no default, so that a backend cannot forget to
    /// say what it promises.
    fn facts(&self) -> Facts;

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

    /// Returns what the suite is able to do to the server that all cases share: adds what an administrator can do to
    /// `abilities`, which has what can be done to any server that was started here. Takes `clocks` away if leases end by a
    /// clock that can't be set. The suite cuts the connections of no other server.
    fn abilities(&self, server: &Server, abilities: Abilities) -> Abilities;
}

/// Runs the suite on the backend's server: the one that the environment names, or one that is started for it. If there
/// is none, the suite is *not run*; if there had to be one, it has failed.
pub fn run_on_server(backend: impl Backend) -> Verdict {
    let product = backend.product();
    match Server::find(product, &backend.settings()) {
        Ok(server) => lock_conformance::run(OnServer::new(backend, server)),
        Err(absence) => absence.verdict(product.listing().name),
    }
}
