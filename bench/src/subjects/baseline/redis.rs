//! The crate redis, on one server or on several, of which a majority decides.

use async_trait::async_trait;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use lock_core::Owner;
use redis::ProtocolVersion;
use redis::aio::{MultiplexedConnection, PubSub};

use super::{Calls, Driver, NOT_SUBSCRIBED};
use crate::Outcome;
use crate::raw::redis::Server;
use crate::subjects::TTL;

const TAKE: &str = "if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end \
                    redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2]) return redis.call('INCR', KEYS[2])";
const RELEASE: &str = "if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end \
                       redis.call('DEL', KEYS[1]) redis.call('PUBLISH', KEYS[1], '') return 1";

pub(super) struct Servers {
    url: String,
    scripts: Vec<Scripts>,
}

/// A server that knows both scripts, by their digests.
#[derive(Clone)]
struct Scripts {
    connection: MultiplexedConnection,
    take: String,
    release: String,
}

impl Servers {
    pub(super) async fn connect(url: &str) -> Outcome<Servers> {
        let mut scripts = Vec::new();
        for mut connection in Server::connect_to_all(url).await? {
            let (take, release) = (load(&mut connection, TAKE).await?, load(&mut connection, RELEASE).await?);
            scripts.push(Scripts { connection, take, release });
        }
        Ok(Servers { url: url.to_owned(), scripts })
    }
}

async fn load(connection: &mut MultiplexedConnection, script: &str) -> Outcome<String> {
    Ok(redis::cmd("SCRIPT").arg("LOAD").arg(script).query_async(connection).await?)
}

#[async_trait]
impl Driver for Servers {
    type Calls = Named;

    async fn named(&self, name: &str) -> Outcome<Named> {
        let key = format!("lock-bench:baseline:{{{name}}}");
        let (url, scripts) = (self.url.clone(), self.scripts.clone());
        Ok(Named { url, scripts, token: format!("{key}:token"), key, subscription: None })
    }
}

pub(super) struct Named {
    url: String,
    scripts: Vec<Scripts>,
    key: String,
    token: String,
    subscription: Option<PubSub>,
}

impl Named {
    async fn ask(&self, server: &Scripts, digest: &str, owner: &Owner) -> Outcome<bool> {
        let mut command = redis::cmd("EVALSHA");
        command
            .arg(digest)
            .arg(2)
            .arg(&self.key)
            .arg(&self.token)
            .arg(owner.to_string())
            .arg(TTL.as_millis() as u64);
        let number: i64 = command.query_async(&mut server.connection.clone()).await?;
        Ok(number > 0)
    }

    /// Asks all servers at once, and returns whether a majority has agreed, as soon as it has.
    async fn agree(&self, digest: fn(&Scripts) -> &str, owner: &Owner) -> Outcome<bool> {
        if let [one] = &self.scripts[..] {
            return self.ask(one, digest(one), owner).await;
        }
        let asking = self.scripts.iter().map(|server| self.ask(server, digest(server), owner));
        let mut asking = asking.collect::<FuturesUnordered<_>>();
        let mut agreed = 0;
        while let Some(answer) = asking.next().await {
            agreed += usize::from(answer?);
            if agreed > self.scripts.len() / 2 {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

#[async_trait]
impl Calls for Named {
    async fn subscribe(&mut self) -> Outcome<()> {
        if self.scripts.len() > 1 {
            return Err("the raw driver has nothing that waits for several servers".into());
        }
        let client = Server::at(&self.url)?.client(ProtocolVersion::RESP2)?;
        self.subscription.insert(client.get_async_pubsub().await?).subscribe(&self.key).await?;
        Ok(())
    }

    async fn take(&mut self, owner: &Owner) -> Outcome<bool> {
        self.agree(|server| &server.take, owner).await
    }

    async fn released(&mut self) -> Outcome<()> {
        let message = self.subscription.as_mut().ok_or(NOT_SUBSCRIBED)?.on_message().next().await;
        message.map(drop).ok_or_else(|| "the subscription has ended".into())
    }

    async fn release(&mut self, owner: &Owner) -> Outcome<bool> {
        self.agree(|server| &server.release, owner).await
    }
}
