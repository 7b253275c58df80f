//! The library, through its public API.

use std::net::{Ipv4Addr, TcpListener};

use async_trait::async_trait;
use lock_test_servers::Port;
use onelock::{Client, Ending, Guard, Lock};

use crate::Outcome;
use crate::subjects::{Side, Subject, TTL, each};

pub(super) fn subject(client: Client) -> Box<dyn Subject> {
    each(move |name| Ok(Holder { lock: client.lock(name).ttl(TTL).build()?, guard: None }))
}

/// The last one of several servers is lost in one of these ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lost {
    /// Its port is closed.
    Dead,
    /// It takes connections and requests, and answers nothing.
    Silent,
}

pub(super) async fn without_one(url: &str, lost: Lost) -> Outcome<Box<dyn Subject>> {
    let (servers, rest) = url.rsplit_once(',').ok_or("only one of several servers can be lost")?;
    let (_, parameters) = rest.split_once('/').ok_or("the URL has no / after its hosts")?;
    let port = Port::free()?;
    let address = (Ipv4Addr::LOCALHOST, port.number());
    // No connection is ever accepted.
    let silent = (lost == Lost::Silent).then(|| TcpListener::bind(address)).transpose()?;
    let url = format!("{servers},{}:{}/{parameters}", address.0, address.1);
    let client = onelock::connect(&url).await?;
    Ok(each(move |name| {
        // Kept, so that no other process listens there meanwhile.
        let _kept = (&port, &silent);
        Ok(Holder { lock: client.lock(name).ttl(TTL).build()?, guard: None })
    }))
}

struct Holder {
    lock: Lock,
    guard: Option<Guard>,
}

#[async_trait]
impl Side for Holder {
    async fn acquire(&mut self) -> Outcome<()> {
        self.guard = Some(self.lock.acquire().await?);
        Ok(())
    }

    async fn release(&mut self) -> Outcome<()> {
        match self.guard.take() {
            Some(guard) => release(guard).await,
            None => Ok(()),
        }
    }
}

/// Releases a lock that must not have expired before.
pub(crate) async fn release(guard: Guard) -> Outcome<()> {
    match guard.release().await {
        Ending::Released => Ok(()),
        Ending::Expired => Err("the lock had expired before its release".into()),
    }
}
