//! The library on several servers, the last of which is lost.

use std::net::TcpListener;

use async_trait::async_trait;

use super::ours::Ours;
use crate::Outcome;
use crate::subjects::{Side, Subject, Worker};

/// How it is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lost {
    /// Its port is closed.
    Dead,
    /// It takes connections and requests, and answers nothing.
    Silent,
}

pub(super) struct OneLost {
    ours: Ours,
    /// Nobody ever accepts here.
    _silent: Option<TcpListener>,
}

impl OneLost {
    pub(super) async fn connect(url: &str, lost: Lost) -> Outcome<OneLost> {
        let (servers, rest) = url.rsplit_once(',').ok_or("only one of several servers can be lost")?;
        let (_, parameters) = rest.split_once('/').ok_or("the URL has no end of its hosts")?;
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let url = format!("{servers},{}/{parameters}", listener.local_addr()?);
        let silent = (lost == Lost::Silent).then_some(listener);
        Ok(OneLost { ours: Ours::connect(&url).await?, _silent: silent })
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
