//! The network between a server and its clients, which a [`Proxy`] can disturb.

use std::fmt;
use std::net::SocketAddr;

use async_trait::async_trait;
use lock_core::{Client, Options, Result};

use crate::proxy::Proxy;
use crate::timing::Answered;

/// Clients can reach the server through a proxy.
#[async_trait]
pub trait ThroughProxy: fmt::Debug + Send + Sync {
    /// Returns where the server listens, as `host:port`. A [`Proxy`] is put in front of it. With several servers,
    /// returns the address of each.
    fn addresses(&self) -> Vec<String>;

    /// Opens a client as [`Harness::open`](super::Harness::open) does, but through the proxy that listens at these
    /// `addresses`, one for each server.
    async fn open_through(&self, addresses: &[SocketAddr], options: Options) -> Result<Client>;
}

impl<'a> dyn ThroughProxy + 'a {
    /// Starts a proxy between the case's own clients and the server.
    pub(crate) async fn proxy(&self) -> Proxy {
        Proxy::start_all(&self.addresses()).await.expect("a port is free")
    }

    /// Opens a client behind that proxy.
    pub(crate) async fn client(&self, proxy: &Proxy, options: Options) -> Client {
        self.open_through(proxy.addresses(), options).answered().await
    }
}
