//! The raw driver, sending what the library sends on a connection like the library's, and doing nothing else.

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::StreamExt;
use lock_core::{Client, Owner, Random};
use redis::aio::{MultiplexedConnection, PubSubSink, PubSubStream};
use redis::{ProtocolVersion, Value};

use crate::Outcome;
use crate::raw::{self, Server, ServerClock};
use crate::recording::{Recording, Template};
use crate::subjects::{Side, Subject, Worker};

pub(super) struct Floor {
    server: Server,
    connection: MultiplexedConnection,
    clock: ServerClock,
    /// To learn from.
    ours: Client,
}

impl Floor {
    pub(super) async fn connect(url: &str) -> Outcome<Floor> {
        let server = Server::at(url)?;
        let mut connection = server.connect().await?;
        let clock = ServerClock::read(&mut connection).await?;
        Ok(Floor { server, connection, clock, ours: onelock::connect(url).await? })
    }

    async fn calls(&self, name: &str) -> Outcome<Arc<Calls>> {
        let recording = Recording::of(&self.ours, &self.server, name).await?;
        Ok(Arc::new(Calls {
            connection: self.connection.clone(),
            clock: self.clock,
            recording,
            random: Random::system(),
        }))
    }
}

#[async_trait]
impl Subject for Floor {
    async fn worker(&self, name: &str) -> Outcome<Box<dyn Worker>> {
        Ok(Box::new(Cycles { calls: self.calls(name).await? }))
    }

    async fn side(&self, name: &str) -> Outcome<Box<dyn Side>> {
        let calls = self.calls(name).await?;
        let (mut sink, releases) =
            self.server.client(ProtocolVersion::RESP2)?.get_async_pubsub().await?.split();
        sink.subscribe(calls.recording.channel.as_slice()).await?;
        Ok(Box::new(Holder { calls, releases, _subscription: sink, holds: None }))
    }
}

/// The two commands of one name.
struct Calls {
    connection: MultiplexedConnection,
    clock: ServerClock,
    recording: Recording,
    random: Random,
}

impl Calls {
    /// Whether it was granted.
    async fn grant(&self, owner: &Owner) -> Outcome<bool> {
        match self.send(&self.recording.grant, owner).await? {
            1 => Ok(true),
            0 => Ok(false),
            other => Err(format!("the grant was answered with {other}").into()),
        }
    }

    async fn release(&self, owner: &Owner) -> Outcome<()> {
        match self.send(&self.recording.release, owner).await? {
            1 => Ok(()),
            other => Err(format!("the release was answered with {other}").into()),
        }
    }

    /// The first number of the answer: what became of it.
    async fn send(&self, template: &Template, owner: &Owner) -> Outcome<i64> {
        let command = template.fill(owner, self.clock.now());
        let answer = raw::send(&mut self.connection.clone(), &command).await?;
        match answer.as_sequence().and_then(<[Value]>::first) {
            Some(Value::Int(outcome)) => Ok(*outcome),
            _ => Err(format!("a script answered {answer:?}").into()),
        }
    }
}

struct Cycles {
    calls: Arc<Calls>,
}

#[async_trait]
impl Worker for Cycles {
    /// In a task of its own, as every acquisition of the library has one.
    async fn cycle(&mut self) -> Outcome<()> {
        let calls = self.calls.clone();
        let cycle = tokio::spawn(async move {
            let owner = Owner::mint(&calls.random);
            if !calls.grant(&owner).await? {
                return Err("somebody else holds the floor's lock".into());
            }
            calls.release(&owner).await
        });
        cycle.await?
    }
}

struct Holder {
    calls: Arc<Calls>,
    releases: PubSubStream,
    _subscription: PubSubSink,
    holds: Option<Owner>,
}

#[async_trait]
impl Side for Holder {
    async fn acquire(&mut self) -> Outcome<()> {
        let owner = Owner::mint(&self.calls.random);
        // The subscription is older than the first look: no release goes by unnoticed.
        while !self.calls.grant(&owner).await? {
            self.releases.next().await.ok_or("the connection for the wake-ups was closed")?;
        }
        self.holds = Some(owner);
        Ok(())
    }

    async fn release(&mut self) -> Outcome<()> {
        match self.holds.take() {
            Some(owner) => self.calls.release(&owner).await,
            None => Ok(()),
        }
    }
}
