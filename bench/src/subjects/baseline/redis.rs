//! The crate redis, on one server or on several, of which a majority decides.

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use lock_core::Owner;
use redis::aio::{MultiplexedConnection, PubSubSink, PubSubStream};
use redis::{ProtocolVersion, Value};

use super::{Calls, Pushes, side, worker};
use crate::Outcome;
use crate::raw::redis::{Server, send};
use crate::subjects::{Side, Subject, TTL, Worker};

const TAKE: &str = "if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end \
                    redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2]) return redis.call('INCR', KEYS[2])";
const RELEASE: &str = "if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end \
                       redis.call('DEL', KEYS[1]) redis.call('PUBLISH', KEYS[1], '') return 1";

pub(super) struct Baseline {
    url: String,
    servers: Vec<Scripts>,
}

/// A server that knows both scripts, by their digests.
#[derive(Clone)]
struct Scripts {
    connection: MultiplexedConnection,
    take: String,
    release: String,
}

impl Baseline {
    pub(super) async fn connect(url: &str) -> Outcome<Baseline> {
        let mut servers = Vec::new();
        for mut connection in Server::connect_to_all(url).await? {
            let (take, release) = (load(&mut connection, TAKE).await?, load(&mut connection, RELEASE).await?);
            servers.push(Scripts { connection, take, release });
        }
        Ok(Baseline { url: url.to_owned(), servers })
    }

    fn named(&self, name: &str) -> Named {
        let key = format!("lock-bench:baseline:{{{name}}}");
        Named { servers: self.servers.clone(), token: format!("{key}:token"), key }
    }
}

async fn load(connection: &mut MultiplexedConnection, script: &str) -> Outcome<String> {
    Ok(redis::cmd("SCRIPT").arg("LOAD").arg(script).query_async(connection).await?)
}

#[async_trait]
impl Subject for Baseline {
    async fn worker(&self, name: &str) -> Outcome<Box<dyn Worker>> {
        Ok(worker(self.named(name)))
    }

    async fn side(&self, name: &str) -> Outcome<Box<dyn Side>> {
        if self.servers.len() > 1 {
            return Err("the raw driver has nothing that waits for several servers".into());
        }
        let named = self.named(name);
        let client = Server::at(&self.url)?.client(ProtocolVersion::RESP2)?;
        let (mut sink, releases) = client.get_async_pubsub().await?.split();
        sink.subscribe(&named.key).await?;
        Ok(side(Arc::new(named), Box::new(Subscription { releases, _sink: sink })))
    }
}

struct Named {
    servers: Vec<Scripts>,
    key: String,
    token: String,
}

impl Named {
    async fn ask(&self, server: &Scripts, digest: &str, owner: &str) -> Outcome<bool> {
        let mut command = redis::cmd("EVALSHA");
        command.arg(digest).arg(2).arg(&self.key).arg(&self.token).arg(owner).arg(TTL.as_millis() as u64);
        match send(&mut server.connection.clone(), &command).await? {
            Value::Int(number) => Ok(number > 0),
            answer => Err(format!("a script answered {answer:?}").into()),
        }
    }

    /// Asks all servers at once, and returns whether a majority has agreed, as soon as it has.
    async fn agree(&self, digest: fn(&Scripts) -> &str, owner: &str) -> Outcome<bool> {
        if let [one] = &self.servers[..] {
            return self.ask(one, digest(one), owner).await;
        }
        let asking = self.servers.iter().map(|server| self.ask(server, digest(server), owner));
        let mut asking = asking.collect::<FuturesUnordered<_>>();
        let mut agreed = 0;
        while let Some(answer) = asking.next().await {
            agreed += usize::from(answer?);
            if agreed > self.servers.len() / 2 {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

#[async_trait]
impl Calls for Named {
    type Claim = String;

    fn claim(&self, owner: Owner) -> String {
        owner.to_string()
    }

    async fn take(&self, owner: &mut String) -> Outcome<bool> {
        self.agree(|server| &server.take, owner).await
    }

    async fn release(&self, owner: &mut String) -> Outcome<bool> {
        self.agree(|server| &server.release, owner).await
    }
}

struct Subscription {
    releases: PubSubStream,
    _sink: PubSubSink,
}

#[async_trait]
impl Pushes for Subscription {
    async fn next(&mut self) -> Outcome<()> {
        self.releases.next().await.map(drop).ok_or_else(|| "the subscription has ended".into())
    }
}
