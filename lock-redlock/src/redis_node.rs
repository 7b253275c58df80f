//! A node that is a Redis server. Each call is one script.

use std::sync::Arc;
use std::time::Duration;

use lock_core::driver::{Context, Finding, Level, Revoked};
use lock_core::toolkit::{HumanDuration, Prefix, Subscription, whole_millis};
use lock_core::{Effect, Error, FencingToken, Instant, Result};
use lock_redis::Redis;
use lock_redis::node::{
    self, Arguments, INSPECT, Item, Kind, MINT, READING, RELEASE, RENEW, REVOKE, Script, ScriptAnswer, Terms,
    VoteRegistry, beside,
};

use crate::node::{Ask, Freed, Held, Kept, Keys, Node, Tells, Vote};
use crate::round::disagrees;

const HISTORY: &str = include_str!("scripts/history.lua");
const MARKER: &str = include_str!("scripts/marker.lua");

static GRANT_OR_RAISE: Script = Script::new(&[
    READING,
    HISTORY,
    MARKER,
    include_str!("scripts/guard.lua"),
    include_str!("scripts/raise.lua"),
    MINT,
    include_str!("scripts/grant.lua"),
]);
static REFILL: Script = Script::new(&[READING, MINT, include_str!("scripts/refill.lua")]);
static VOTE: Script = Script::new(&[READING, HISTORY, include_str!("scripts/vote.lua")]);
static MARK: Script = Script::new(&[READING, HISTORY, MARKER, include_str!("scripts/mark.lua")]);

/// One of the servers. Several claims use it at the same time.
#[derive(Debug)]
pub struct RedisNode {
    node: node::Node,
    /// The guard (`guard.lua`) reads this key and the next one.
    marker: Vec<u8>,
    quarantine: Vec<u8>,
    max_ttl: Duration,
}

/// The effect of `lock init` on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Marked {
    Already,
    /// The node's marker was set, and it has its vote after this time.
    Now {
        votes_in: Duration,
    },
}

impl RedisNode {
    /// Creates a node for the server that `redis` names. `registry` is shared with the other nodes.
    pub fn new(
        redis: Redis,
        context: Context,
        prefix: &Prefix,
        max_ttl: Duration,
        registry: Arc<VoteRegistry>,
    ) -> Result<RedisNode> {
        let all = prefix.as_str().as_bytes();
        Ok(RedisNode {
            node: node::Node::new(redis, context, registry)?,
            marker: beside(all, Kind::Marker),
            quarantine: beside(all, Kind::Quarantine),
            max_ttl,
        })
    }

    /// Returns the number of the server's database that it uses.
    pub(crate) fn database(&self) -> i64 {
        self.node.database()
    }

    pub(crate) async fn ready(&self, patience: Duration) -> Result<()> {
        self.node.ready(patience).await
    }

    pub(crate) async fn check(&self, patience: Duration) -> Result<Vec<Finding>> {
        let mut findings = self.node.check(patience).await?;
        let vote = self.check_vote(patience).await;
        findings.push(vote.unwrap_or_else(|e| Finding::of_failure("votes", &e)));
        Ok(findings)
    }

    async fn check_vote(&self, patience: Duration) -> Result<Finding> {
        let add = |_, arguments: &mut Arguments<'_>| self.add_agreed(arguments);
        let answer = self.node.run(patience, &VOTE, &[&self.marker, &self.quarantine], add).await?;
        let (level, message) = match numbers(&answer)?[..] {
            [1, 0] => (Level::Good, "it has its vote".to_owned()),
            [-1, 0] => {
                let advice = "if no client holds a lock, `lock init` gives it its vote at once";
                (
                    Level::Warning,
                    format!(
                        "new, restarted, flushed, or with other data than before: it has no vote until {} after its \
                         first request; {advice}",
                        HumanDuration(self.max_ttl)
                    ),
                )
            }
            [-2, left] => {
                let left = HumanDuration(duration(left).unwrap_or(self.max_ttl));
                (Level::Warning, format!("it may have forgotten locks, and has no vote for {left}"))
            }
            [-3, agreed] => (Level::Bad, disagrees(duration(agreed).unwrap_or_default())),
            _ => return Err(answer.unexpected()),
        };
        Ok(Finding::new("votes", level, message))
    }

    pub(crate) async fn listen(&self, keys: &Keys, patience: Duration) -> Result<Subscription> {
        self.node.listen(&keys.name, &keys.channel, patience).await
    }

    /// Listens as `listen` does, if the node has confirmed the channel already.
    pub(crate) fn listen_already(&self, keys: &Keys) -> Option<Subscription> {
        self.node.listen_already(&keys.name, &keys.channel)
    }

    /// Listens to revokes of what is held with this value.
    pub(crate) async fn watch(&self, value: &str, patience: Duration) -> Result<Subscription> {
        self.node.watch(value, patience).await
    }

    /// Returns who holds the lock, as this node knows it.
    pub(crate) async fn inspect(&self, keys: &Keys, patience: Duration) -> Result<Option<Held>> {
        let answer = self.node.run(patience, INSPECT, &[&keys.lock, &keys.token], |_, _| ()).await?;
        match &answer.items[..] {
            [Item::Nil, _, _] => Ok(None),
            [Item::Bytes(value), Item::Number(left), token] => Ok(Some(Held {
                value: value.clone(),
                left: duration(*left),
                token: match token {
                    Item::Bytes(token) => {
                        std::str::from_utf8(token).ok().and_then(|token| token.parse().ok())
                    }
                    _ => None,
                },
                now: answer.now,
            })),
            _ => Err(answer.unexpected()),
        }
    }

    /// Revokes the lock of the holder with this value on this node. `successor` takes its place until the holder's
    /// deadline; an empty one frees the node at once.
    pub(crate) async fn revoke(
        &self,
        keys: &Keys,
        holder: &[u8],
        successor: &str,
        patience: Duration,
    ) -> Result<Revoked> {
        let add = |terms: Terms, arguments: &mut Arguments<'_>| {
            arguments.bytes(holder).bytes(&keys.channel).bytes(terms.publish.as_bytes());
            arguments.bytes(successor.as_bytes()).bytes(&self.node.revokes_channel());
        };
        let answer = self.node.run(patience, REVOKE, &[&keys.lock], add).await?;
        match numbers(&answer)?[..] {
            [2, left] => Ok(Revoked::FreeIn(duration(left).unwrap_or_default())),
            [1] => Ok(Revoked::Free),
            [0 | -1] => Ok(Revoked::NotHeld),
            _ => Err(answer.unexpected()),
        }
    }

    /// Gives the node its vote, because an operator says that no client holds a lock.
    pub(crate) async fn mark(&self, patience: Duration) -> Result<Marked> {
        let add = |_, arguments: &mut Arguments<'_>| self.add_agreed(arguments);
        let answer = self.node.run(patience, &MARK, &[&self.marker, &self.quarantine], add).await?;
        match numbers(&answer)?[..] {
            [0, 0] => Ok(Marked::Already),
            [1, left] => Ok(Marked::Now { votes_in: duration(left).unwrap_or_default() }),
            _ => Err(answer.unexpected()),
        }
    }

    /// Adds what the guard compares with the node's marker.
    fn add_agreed(&self, arguments: &mut Arguments<'_>) {
        arguments.number(whole_millis(self.max_ttl)).number(self.database());
    }

    fn guarded<'a>(&'a self, keys: &'a Keys) -> [&'a [u8]; 4] {
        [&keys.lock, &keys.token, &self.marker, &self.quarantine]
    }
}

impl Node for RedisNode {
    fn address(&self) -> &str {
        self.node.address()
    }

    fn on_arrival(&self, sent: Instant) -> Option<i64> {
        self.node.on_arrival(sent)
    }

    async fn grant(&self, ask: Ask, proposed: Option<FencingToken>, patience: Duration) -> Result<Vote> {
        let least = proposed.and_then(|token| i64::try_from(token.get()).ok()).unwrap_or(0);
        // The node may refuse an attempt as late although it has time left. The refusal tells the node's time, and the
        // attempt is sent once more.
        for _ in 0..2 {
            let add = |terms: Terms, arguments: &mut Arguments<'_>| {
                arguments.bytes(ask.value.as_bytes()).number(whole_millis(ask.ttl)).number(terms.deadline);
                self.add_agreed(arguments.number(least));
                ask.earlier.iter().for_each(|earlier| _ = arguments.bytes(earlier.as_bytes()));
            };
            let answer = self.node.run(patience, &GRANT_OR_RAISE, &self.guarded(&ask.keys), add).await?;
            match &answer.items[..] {
                [Item::Number(1), Item::Number(token), Item::Number(left)] => {
                    let token = positive(*token).ok_or_else(|| answer.unexpected())?;
                    return Ok(Vote::Yes { token, left: duration(*left).unwrap_or_default() });
                }
                [Item::Number(0), Item::Number(left), Item::Bytes(value), Item::Number(token)] => {
                    let (left, token) = (duration(*left), Some(*token).filter(|token| *token > 0));
                    return Ok(Vote::No(Held { value: value.clone(), left, token, now: answer.now }));
                }
                [Item::Number(-2), Item::Number(left)] => {
                    return Ok(Vote::SitsOut { left: duration(*left).unwrap_or(self.max_ttl) });
                }
                [Item::Number(-3), Item::Number(agreed)] => {
                    return Ok(Vote::Disagrees { agreed: duration(*agreed).unwrap_or_default() });
                }
                [Item::Number(-1)] => {}
                _ => return Err(answer.unexpected()),
            }
        }
        Err(Error::unavailable(
            Effect::NotApplied,
            "the attempt reached the server too late, and was refused for it",
        ))
    }

    async fn look(&self, ask: Ask, patience: Duration) -> Result<Option<Held>> {
        self.inspect(&ask.keys, patience).await
    }

    async fn raise(
        &self,
        ask: Ask,
        granted: FencingToken,
        token: FencingToken,
        patience: Duration,
    ) -> Result<bool> {
        let add = |_, arguments: &mut Arguments<'_>| {
            arguments.bytes(ask.value.as_bytes()).bytes(granted.to_string().as_bytes());
            self.add_agreed(arguments.bytes(token.to_string().as_bytes()).bytes(b""));
        };
        let answer = self.node.run(patience, &GRANT_OR_RAISE, &self.guarded(&ask.keys), add).await?;
        match numbers(&answer)?[..] {
            [1] => Ok(true),
            [0] | [-2 | -3, _] => Ok(false),
            _ => Err(answer.unexpected()),
        }
    }

    async fn renew(&self, ask: Ask, patience: Duration) -> Result<Kept> {
        let add = |_, arguments: &mut Arguments<'_>| {
            arguments
                .bytes(ask.value.as_bytes())
                .number(whole_millis(ask.ttl))
                .number(whole_millis(ask.longest));
        };
        let answer = self.node.run(patience, RENEW, &[&ask.keys.lock], add).await?;
        match numbers(&answer)?[..] {
            [1, left] => Ok(Kept::Yes { left: duration(left).unwrap_or_default() }),
            [0] => Ok(Kept::Absent),
            [-1] => Ok(Kept::Revoked),
            [-2] => Ok(Kept::Taken),
            _ => Err(answer.unexpected()),
        }
    }

    async fn refill(&self, ask: Ask, token: FencingToken, patience: Duration) -> Result<bool> {
        let add = |terms: Terms, arguments: &mut Arguments<'_>| {
            arguments.bytes(ask.value.as_bytes()).number(whole_millis(ask.ttl)).number(terms.deadline);
            arguments.bytes(token.to_string().as_bytes());
        };
        let answer = self.node.run(patience, &REFILL, &[&ask.keys.lock, &ask.keys.token], add).await?;
        match numbers(&answer)?[..] {
            [1] => Ok(true),
            [0 | -1] => Ok(false),
            _ => Err(answer.unexpected()),
        }
    }

    async fn release(&self, ask: Ask, tells: Tells, patience: Duration) -> Result<Freed> {
        // No client listens to the channel without a name.
        let channel: &[u8] = match tells {
            Tells::Waiters => &ask.keys.channel,
            Tells::NoWaiter => &[],
        };
        let add = |terms: Terms, arguments: &mut Arguments<'_>| {
            arguments.bytes(ask.value.as_bytes()).bytes(channel).bytes(terms.publish.as_bytes());
        };
        // Our own connection counts among the listeners only if it is subscribed both before and after.
        let before = self.node.is_subscribed(&ask.keys.name, &ask.keys.channel);
        let answer = self.node.run(patience, RELEASE, &[&ask.keys.lock], add).await?;
        let ours = i64::from(before && self.node.is_subscribed(&ask.keys.name, &ask.keys.channel));
        match numbers(&answer)?[..] {
            [1, -1] => Ok(Freed::Yes { others: None }),
            [1, listeners] => Ok(Freed::Yes { others: Some(listeners > ours) }),
            [0] => Ok(Freed::No),
            _ => Err(answer.unexpected()),
        }
    }
}

fn numbers(answer: &ScriptAnswer) -> Result<Vec<i64>> {
    let number = |item: &Item| if let Item::Number(number) = item { Some(*number) } else { None };
    answer.items.iter().map(number).collect::<Option<_>>().ok_or_else(|| answer.unexpected())
}

fn positive(token: i64) -> Option<FencingToken> {
    FencingToken::new(u64::try_from(token).ok()?)
}

/// Converts the time left, which the server answered in milliseconds; `None` without expiry.
fn duration(millis: i64) -> Option<Duration> {
    (millis != -1).then(|| Duration::from_millis(u64::try_from(millis).unwrap_or(0)))
}
