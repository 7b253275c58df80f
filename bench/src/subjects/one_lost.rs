//! The library on several servers, the last of which is lost.

use std::net::{Ipv4Addr, TcpListener};

use async_trait::async_trait;
use lock_test_servers::Port;

use super::ours::Ours;
use crate::Outcome;
use crate::subjects::{Side, Subject, Worker};

/// How the server is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lost {
    /// Its port is closed.
    Dead,
    /// It takes connections and requests, and answers nothing.
    Silent,
}

pub(super) struct OneLost {
    ours: Ours,
    /// Kept, so that no other process listens there meanwhile.
    _port: Port,
    /// Listens, but no connection is ever accepted.
    _silent: Option<TcpListener>,
}

impl OneLost {
    pub(super) async fn connect(url: &str, lost: Lost) -> Outcome<OneLost> {
        let (servers, rest) = url.rsplit_once(',').ok_or("only one of several servers can be lost")?;
        let (_, parameters) = rest.split_once('/').ok_or("the URL has no / after its hosts")?;
        let port = Port::free()?;
        let address = (Ipv4Addr::LOCALHOST, port.number());
        let silent = (lost == Lost::Silent).then(|| TcpListener::bind(address)).transpose()?;
        let url = format!("{servers},{}:{}/{parameters}", address.0, address.1);
        Ok(OneLost { ours: Ours::connect(&url).await?, _port: port, _silent: silent })
    }
}

#[async_trait]
impl Subject for OneLost {
    async fn worker(&self, name: &str) -> Outcome<Box<dyn Worker>> {
        self.ours.worker(name).await
    }

    async fn side(&self, name: &str) -> Outcome<Box<dyn Side>> {
        self.ours.side(name).await
    }
}
