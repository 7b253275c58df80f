//! One server for `lock-redlock`, which runs its own scripts on it. Not for users: it changes with that crate.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lock_core::driver::{Context, Finding, Level};
use lock_core::toolkit::{Call, Prefix, Subscription};
use lock_core::{Error, Instant, Label, Name, Owner, Result};
use redis::{Cmd, Value};

use crate::facts::Fitness;
use crate::feed::Topic;
use crate::link::Link;
use crate::scripts::unexpected;
use crate::server::Server;
use crate::servers::Servers;
use crate::settings::Redis;
use crate::side::side_key;
use crate::value::{OWNER_DIGITS, Seen};
use crate::{check, scripts, value};

pub use crate::scripts::Script;
pub use crate::side::Kind;

/// The part of a script that reads the server's time, and keys of which another program may have made something else.
pub const READING: &str = include_str!("scripts/reading.lua");
/// The part of a script that ends late attempts and mints tokens. Runs after [`READING`].
pub const MINT: &str = include_str!("scripts/mint.lua");
/// Shows the holder, the time left, and the token of a lock. These four are the scripts of a lock on one server, used
/// where a node needs the same.
pub static INSPECT: &Script = &scripts::OWN.inspect;
/// Renews a lock.
pub static RENEW: &Script = &scripts::OWN.renew;
/// Releases a lock, and wakes its waiters.
pub static RELEASE: &Script = &scripts::OWN.release;
/// Revokes a lock.
pub static REVOKE: &Script = &scripts::OWN.revoke;

/// One server.
#[derive(Clone, Debug)]
pub struct Node {
    server: Arc<Server>,
    address: Arc<str>,
    database: i64,
    registry: Arc<VoteRegistry>,
}

/// The votes of several nodes: two addresses of one server have one vote.
#[derive(Debug, Default)]
pub struct VoteRegistry(Mutex<BTreeMap<String, Arc<str>>>);

/// The values on which a script's arguments depend, beside the lock.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// The end of the call in the server's time, in microseconds.
    pub deadline: i64,
    /// The command that publishes a release on this server.
    pub publish: &'static str,
}

/// The arguments of a script behind its keys, in their order. They are written where the command is: a node is asked for
/// each lock, and a list of them would cost more than the answer.
#[derive(Debug)]
pub struct Arguments<'a>(&'a mut Cmd);

impl Arguments<'_> {
    /// Adds a text.
    pub fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.arg(bytes);
        self
    }

    /// Adds a number, as its decimal digits.
    pub fn number(&mut self, number: i64) -> &mut Self {
        self.0.arg(number);
        self
    }
}

/// A part of a script's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// A number.
    Number(i64),
    /// A text.
    Bytes(Vec<u8>),
    /// Nothing is there.
    Nil,
}

/// A script's answer. Its last item, the server's time, is taken out of `items`.
#[derive(Debug)]
pub struct ScriptAnswer {
    /// In the order of the answer.
    pub items: Vec<Item>,
    /// The server's time, in microseconds.
    pub now: i64,
}

impl Node {
    /// Creates a node for a server that has not been asked anything yet. `registry` is shared with the other nodes.
    /// `Invalid` for a primary with replicas, or if replicas have to acknowledge.
    pub fn new(redis: Redis, context: Context, registry: Arc<VoteRegistry>) -> Result<Node> {
        if !matches!(redis.servers, Servers::One(_)) {
            return Err(Error::invalid(format!(
                "{}: a node is one server, and no replica takes its place",
                redis.address()
            )));
        }
        if redis.acks.is_some() {
            return Err(Error::invalid(format!(
                "{}: no replica of a node acknowledges its votes",
                redis.address()
            )));
        }
        let (address, database) = (redis.address().into(), redis.servers.login().db());
        Ok(Node { server: Arc::new(Server::new(redis, context)?), address, database, registry })
    }

    /// Returns the number of the server's database that it uses.
    pub fn database(&self) -> i64 {
        self.database
    }

    /// Returns the server's address, for people.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Returns an estimate of what the server's clock shows when a request arrives that is `sent` then, in microseconds.
    /// `None` without a connection.
    pub fn on_arrival(&self, sent: Instant) -> Option<i64> {
        self.server.on_arrival(sent)
    }

    /// Waits until the server can be asked. `Invalid` if another node votes for this server.
    pub async fn ready(&self, patience: Duration) -> Result<()> {
        let link = self.server.link(&Call::begin(&self.server.clock, patience)).await?;
        self.registry.register(&link, &self.address)
    }

    /// Runs a script on `keys`. `add` adds its other arguments.
    pub async fn run(
        &self,
        patience: Duration,
        script: &Script,
        keys: &[&[u8]],
        add: impl FnOnce(Terms, &mut Arguments<'_>) + Send,
    ) -> Result<ScriptAnswer> {
        let call = &Call::begin(&self.server.clock, patience);
        let link = self.server.link(call).await?;
        self.fit(&link)?;
        let mut command = script.on(keys);
        let terms = Terms { deadline: link.deadline(call), publish: link.facts.delivery.publish() };
        add(terms, &mut Arguments(&mut command));
        let asked_at = self.server.clock.now();
        let value = self.server.run_for_value(&link, call, script, command).await?;
        let answer = ScriptAnswer::parse(value)?;
        link.hear_answer(&self.server.clock, answer.now, asked_at);
        Ok(answer)
    }

    /// Listens to a channel whose messages are about `name`.
    pub async fn listen(&self, name: &Name, channel: &[u8], patience: Duration) -> Result<Subscription> {
        let call = &Call::begin(&self.server.clock, patience);
        self.server.feed.listen(name, Topic::releases(name, channel), call).await
    }

    /// Listens as `listen` does, if the node has confirmed the channel already.
    pub fn listen_already(&self, name: &Name, channel: &[u8]) -> Option<Subscription> {
        self.server.feed.listen_already(name, &Topic::releases(name, channel))
    }

    /// Listens to revokes of the lock that is held with this value.
    pub async fn watch(&self, value: &str, patience: Duration) -> Result<Subscription> {
        let owner = value.get(..OWNER_DIGITS).and_then(Owner::parse);
        let owner = owner.ok_or_else(|| Error::invalid("the value does not begin with an owner"))?;
        self.server.watch(owner, &Call::begin(&self.server.clock, patience)).await
    }

    /// Returns the channel on which revokes are published.
    pub fn revokes_channel(&self) -> Vec<u8> {
        self.server.revokes_channel()
    }

    /// Returns whether our own connection is among those that a message about `name` on this channel reaches.
    pub fn is_subscribed(&self, name: &Name, channel: &[u8]) -> bool {
        self.server.feed.is_confirmed(&Topic::releases(name, channel))
    }

    /// Returns one finding per question.
    pub async fn check(&self, patience: Duration) -> Result<Vec<Finding>> {
        let mut findings = check::check(&self.server, patience).await?;
        let link = self.server.link(&Call::begin(&self.server.clock, patience)).await?;
        if let Err(e) = self.fit(&link) {
            findings.push(Finding::new("votes", Level::Bad, e.message().to_owned()));
        }
        Ok(findings)
    }

    /// Refuses a server that has no vote: one that evicts locks, one whose replica may replace it without its data, and
    /// one that already votes under another address.
    fn fit(&self, link: &Link) -> Result<()> {
        match (link.facts.eviction(), link.facts.replication()) {
            (Fitness::Limited(why), _) | (_, Fitness::Limited(why)) => {
                Err(Error::rejected(format!("it has no vote: {why}")))
            }
            _ => self.registry.register(link, &self.address),
        }
    }
}

impl VoteRegistry {
    /// Returns the run identifiers of all servers in one text; `None` until all of these `servers` have been reached.
    pub fn all(&self, servers: usize) -> Option<String> {
        // Nothing that can panic runs under this lock.
        let voters = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let runs: Vec<&str> = voters.keys().map(String::as_str).collect();
        (runs.len() == servers).then(|| runs.join("+"))
    }

    /// Gives a server's vote to the first address that leads to it, for as long as that address does. A server that
    /// does not tell its run identifier is let through here; the guard's scripts, which ask for the run as well, give
    /// it no vote.
    fn register(&self, link: &Link, address: &Arc<str>) -> Result<()> {
        let Some(run) = &link.facts.run else { return Ok(()) };
        // Nothing that can panic runs under this lock.
        let mut voters = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match voters.get(run) {
            Some(voter) if voter == address => Ok(()),
            Some(voter) => Err(Error::invalid(format!(
                "{address} is the same server as {voter}: a server has one vote; name each of them once"
            ))),
            None => {
                voters.retain(|_, voter| voter != address);
                voters.insert(run.clone(), address.clone());
                Ok(())
            }
        }
    }
}

/// Returns the key of a lock: the prefix and the name.
pub fn key(prefix: &Prefix, name: &Name) -> Vec<u8> {
    prefix.key(name).into_bytes()
}

/// Returns the key beside `key` for this purpose.
pub fn beside(key: &[u8], kind: Kind) -> Vec<u8> {
    side_key(key, kind)
}

/// Returns the value of a lock's key while `owner` holds it by its `nth` try. Each try has another value.
pub fn held(owner: &Owner, nth: u64, label: &Label) -> String {
    let owner = u128::from_be_bytes(*owner.as_bytes()).wrapping_add(u128::from(nth));
    value::held(&format!("{owner:032x}"), label)
}

/// Returns the value after a revoke of `holder`, until the holder's deadline.
pub fn revoked(holder: &[u8], by: &Owner, label: &Label) -> String {
    value::revoked(holder, by, label)
}

/// Returns what people are shown of a lock's key, at the server's time `now`.
pub fn entry(
    value: Vec<u8>,
    left: Option<Duration>,
    token: Option<i64>,
    now: i64,
) -> lock_core::driver::Entry {
    Seen { value, left, token, now }.into_entry()
}

impl ScriptAnswer {
    fn parse(answer: Value) -> Result<ScriptAnswer> {
        let Value::Array(items) = &answer else { return Err(unexpected(&answer)) };
        let items: Option<Vec<Item>> = items.iter().map(item).collect();
        let mut items = items.ok_or_else(|| unexpected(&answer))?;
        match items.pop() {
            Some(Item::Number(now)) => Ok(ScriptAnswer { items, now }),
            _ => Err(unexpected(&answer)),
        }
    }

    /// Returns the error for an answer that our scripts do not give.
    pub fn unexpected(&self) -> Error {
        unexpected(&self.items)
    }
}

fn item(value: &Value) -> Option<Item> {
    match value {
        Value::Int(number) => Some(Item::Number(*number)),
        Value::BulkString(bytes) => Some(Item::Bytes(bytes.clone())),
        Value::Nil => Some(Item::Nil),
        _ => None,
    }
}
