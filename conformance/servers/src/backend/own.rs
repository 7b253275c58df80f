//! A server that belongs to one case, and the network in front of it.

use std::net::SocketAddr;
use std::sync::Arc;

use async_trait::async_trait;
use lock_conformance::harness::{ClockedServer, OwnServer, ThroughProxy};
use lock_conformance::{Data, Missing, Step};
use lock_core::{Client, Options, Result};

use super::Backend;
use crate::owned::Owned;
use crate::settings::Settings;

/// The network in front of a server.
#[derive(Debug)]
pub(super) struct Network<B> {
    backend: Arc<B>,
    url: String,
    address: String,
}

impl<B: Backend> Network<B> {
    pub(super) fn of(backend: &Arc<B>, url: &str) -> Result<Network<B>, Missing> {
        let address = backend.address(url)?;
        Ok(Network { backend: backend.clone(), url: url.to_owned(), address })
    }
}

#[async_trait]
impl<B: Backend> ThroughProxy for Network<B> {
    fn addresses(&self) -> Vec<String> {
        vec![self.address.clone()]
    }

    async fn open_through(&self, addresses: &[SocketAddr], options: Options) -> Result<Client> {
        self.backend.open_through(&self.url, addresses[0], options).await
    }
}

/// A server that belongs to one case.
#[derive(Debug)]
pub(super) struct Own<B> {
    backend: Arc<B>,
    server: Owned,
    network: Option<Network<B>>,
}

impl<B: Backend> Own<B> {
    /// Starts a server of the backend's product.
    pub(super) fn start(backend: &Arc<B>, settings: &Settings) -> Own<B> {
        let server =
            Owned::start(backend.product(), settings).expect("a server of this product was started before");
        let network = Network::of(backend, server.url()).ok();
        Own { backend: backend.clone(), server, network }
    }
}

#[async_trait]
impl<B: Backend> OwnServer for Own<B> {
    async fn open(&self, options: Options) -> Result<Client> {
        self.backend.open(self.server.url(), options).await
    }

    fn pause(&mut self) {
        self.server.pause().expect("it runs");
    }

    fn resume(&mut self) {
        self.server.resume().expect("it was paused");
    }

    fn kill(&mut self) {
        self.server.kill().expect("it runs");
    }

    fn start(&mut self, data: Data) {
        self.server.restart(data).expect("it starts again");
    }

    fn through_proxy(&self) -> Option<&dyn ThroughProxy> {
        Some(self.network.as_ref()?)
    }

    fn url(&self) -> Option<String> {
        Some(self.backend.locks_at(self.server.url()))
    }
}

impl<B: Backend> ClockedServer for Own<B> {
    fn step_clock(&mut self, step: Step) {
        self.server.step_clock(step).expect("its clock can be set");
    }
}
