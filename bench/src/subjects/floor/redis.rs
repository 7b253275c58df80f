//! The crate redis, sending the commands that were recorded from the library, on a connection like the library's.

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::StreamExt;
use lock_core::{Client, Owner, Random};
use redis::aio::{MultiplexedConnection, PubSubSink, PubSubStream};
use redis::{ProtocolVersion, Value};
use tokio::sync::OnceCell;

use super::preparation::{Recorded, Told};
use super::raw::{Alone, Calls, Cycles, Holder, Pushes};
use crate::Outcome;
use crate::raw::redis::{self as raw, Recording, Server, ServerClock, Template};
use crate::subjects::{Side, Subject, Worker};

pub(super) struct Floor {
    server: Server,
    connection: MultiplexedConnection,
    clock: ServerClock,
    /// The library's client, whose commands are recorded.
    ours: Client,
    /// What was recorded of the first of the names that are used once. The others' commands differ by the name alone.
    sample: OnceCell<(String, Recording)>,
}

impl Floor {
    pub(super) async fn connect(url: &str) -> Outcome<Floor> {
        let server = Server::at(url)?;
        let mut connection = server.connect().await?;
        let clock = ServerClock::read(&mut connection).await?;
        let (ours, sample) = (onelock::connect(url).await?, OnceCell::new());
        Ok(Floor { server, connection, clock, ours, sample })
    }

    async fn recorded(&self, name: &str) -> Outcome<Recording> {
        Recording::of(&self.ours, &self.server, name).await
    }

    fn scripts(&self, recording: Recording) -> Arc<Scripts> {
        Scripts::of(self.connection.clone(), self.clock, recording)
    }
}

/// Records what another process needs for [`alone`].
pub(super) async fn prepare(url: &str, name: &str) -> Outcome<Recorded> {
    let floor = Floor::connect(url).await?;
    Ok(Recorded { recording: floor.recorded(name).await?, clock: floor.clock })
}

/// Connects once, for the name that was recorded.
pub(super) async fn alone(url: &str, told: &Told) -> Outcome<Box<dyn Side>> {
    let connection = Server::at(url)?.connect().await?;
    let clock = ServerClock::of(told.now);
    Ok(Box::new(Alone::new(Scripts::of(connection, clock, told.recording.clone()))))
}

#[async_trait]
impl Subject for Floor {
    async fn worker(&self, name: &str) -> Outcome<Box<dyn Worker>> {
        Ok(Box::new(Cycles(self.scripts(self.recorded(name).await?))))
    }

    async fn use_once(&self, name: &str) -> Outcome<()> {
        let record = async || Outcome::Ok((name.to_owned(), self.recorded(name).await?));
        let (sample, recording) = self.sample.get_or_try_init(record).await?;
        Cycles(self.scripts(recording.renamed(sample, name))).cycle().await
    }

    async fn side(&self, name: &str) -> Outcome<Box<dyn Side>> {
        let scripts = self.scripts(self.recorded(name).await?);
        let (mut sink, releases) =
            self.server.client(ProtocolVersion::RESP2)?.get_async_pubsub().await?.split();
        sink.subscribe(scripts.recording.channel.as_slice()).await?;
        Ok(Box::new(Holder::new(scripts, Box::new(Subscription { releases, _sink: sink }))))
    }
}

/// The commands of one name.
struct Scripts {
    connection: MultiplexedConnection,
    clock: ServerClock,
    recording: Recording,
    random: Random,
}

impl Scripts {
    fn of(connection: MultiplexedConnection, clock: ServerClock, recording: Recording) -> Arc<Scripts> {
        Arc::new(Scripts { connection, clock, recording, random: Random::system() })
    }

    /// Sends a command, and returns the first number of the answer, which tells its outcome.
    async fn send(&self, template: &Template, owner: &Owner) -> Outcome<i64> {
        let command = template.fill(owner, self.clock.now());
        let answer = raw::send(&mut self.connection.clone(), &command).await?;
        match answer.as_sequence().and_then(<[Value]>::first) {
            Some(Value::Int(outcome)) => Ok(*outcome),
            _ => Err(format!("a script answered {answer:?}").into()),
        }
    }

    /// Deletes the answer to the release, where one is kept, without waiting for it, as the library does.
    fn forget(&self, owner: &Owner) {
        if let Some(template) = &self.recording.forget {
            let (command, mut connection) = (template.fill(owner, self.clock.now()), self.connection.clone());
            tokio::spawn(async move {
                let _: Outcome<Value> = raw::send(&mut connection, &command).await;
            });
        }
    }
}

#[async_trait]
impl Calls for Scripts {
    type Claim = Owner;

    async fn claim(&self) -> Outcome<Owner> {
        Ok(Owner::mint(&self.random))
    }

    async fn take(&self, owner: &mut Owner) -> Outcome<bool> {
        match self.send(&self.recording.grant, owner).await? {
            1 => Ok(true),
            // Another owner holds it; in a fair lock, this one has a place from now on.
            0 | 2 => Ok(false),
            other => Err(format!("the grant was answered with {other}").into()),
        }
    }

    async fn release(&self, owner: &mut Owner) -> Outcome<()> {
        match self.send(&self.recording.release, owner).await? {
            1 => {
                self.forget(owner);
                Ok(())
            }
            other => Err(format!("the release was answered with {other}").into()),
        }
    }
}

struct Subscription {
    releases: PubSubStream,
    _sink: PubSubSink,
}

#[async_trait]
impl Pushes for Subscription {
    /// Those of fair locks are each for one waiter, and the others look in vain.
    async fn next(&mut self) -> Outcome<()> {
        let told = self.releases.next().await;
        told.map(drop).ok_or_else(|| "the connection for the wake-ups was closed".into())
    }
}
