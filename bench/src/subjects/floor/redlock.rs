//! One connection of the crate redis to each of several servers. It sends the commands that were recorded from the
//! library, to all servers at once, and waits for the answers of a majority.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use lock_core::{Client, Owner, Random};
use redis::aio::MultiplexedConnection;
use redis::{Cmd, Value};
use tokio::sync::OnceCell;

use super::preparation::{Recorded, Told};
use super::raw::{Alone, Calls, Cycles};
use crate::Outcome;
use crate::raw::redis::{self as raw, Recording, Server, ServerClock};
use crate::subjects::{Side, Subject, Worker};

pub(in crate::subjects) struct Floor {
    enough: Enough,
    servers: Vec<(Server, MultiplexedConnection, ServerClock)>,
    /// The library's client, whose commands are recorded.
    ours: Client,
    /// What was recorded of the first of the names that are used once. The others' commands differ by the name alone.
    sample: OnceCell<(String, Recording)>,
}

/// What makes a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::subjects) enum Enough {
    /// The votes of a majority, whatever their tokens are.
    Votes,
    /// The votes of a majority that have the same token.
    EqualTokens,
}

/// By how much the proposed token is above the clocks, as in lock-redlock.
const MARGIN: Duration = Duration::from_millis(20);

impl Floor {
    pub(in crate::subjects) async fn connect(url: &str, enough: Enough) -> Outcome<Floor> {
        let mut servers = Vec::new();
        for server in Server::all_of(url)? {
            let mut connection = server.connect().await?;
            let clock = ServerClock::read(&mut connection).await?;
            servers.push((server, connection, clock));
        }
        let (ours, sample) = (onelock::connect(url).await?, OnceCell::new());
        Ok(Floor { enough, servers, ours, sample })
    }

    /// Returns what the first server saw of a name. All servers are sent the same, except for their own time.
    async fn recorded(&self, name: &str) -> Outcome<Recording> {
        let (server, ..) = self.servers.first().ok_or("there is no server")?;
        Recording::of(&self.ours, server, name).await?.that_proposes()
    }

    fn cycles(&self, recording: Recording) -> Cycles<Nodes> {
        let node = |(_, connection, clock): &(_, MultiplexedConnection, _)| Node {
            connection: connection.clone(),
            clock: *clock,
        };
        let nodes = self.servers.iter().map(node).collect();
        Cycles(Arc::new(Nodes { enough: self.enough, nodes, recording, random: Random::system() }))
    }
}

/// Records what another process needs for [`alone`].
pub(super) async fn prepare(url: &str, name: &str) -> Outcome<Recorded> {
    let floor = Floor::connect(url, Enough::EqualTokens).await?;
    let (_, _, clock) = floor.servers.first().ok_or("there is no server")?;
    Ok(Recorded { recording: floor.recorded(name).await?, clock: *clock })
}

/// Connects to each server once, for the name that was recorded. One of them has told the time of all.
pub(super) async fn alone(url: &str, told: &Told) -> Outcome<Box<dyn Side>> {
    let (connections, clock) = (Server::connect_to_all(url).await?, ServerClock::of(told.now));
    let nodes = connections.into_iter().map(|connection| Node { connection, clock }).collect();
    let (enough, recording, random) = (Enough::EqualTokens, told.recording.clone(), Random::system());
    Ok(Box::new(Alone::new(Arc::new(Nodes { enough, nodes, recording, random }))))
}

#[async_trait]
impl Subject for Floor {
    async fn worker(&self, name: &str) -> Outcome<Box<dyn Worker>> {
        Ok(Box::new(self.cycles(self.recorded(name).await?)))
    }

    async fn use_once(&self, name: &str) -> Outcome<()> {
        let record = async || Outcome::Ok((name.to_owned(), self.recorded(name).await?));
        let (sample, recording) = self.sample.get_or_try_init(record).await?;
        self.cycles(recording.renamed(sample, name)).cycle().await
    }

    async fn side(&self, _name: &str) -> Outcome<Box<dyn Side>> {
        Err("the raw driver has nothing that waits for several servers".into())
    }
}

/// The commands of one name.
struct Nodes {
    enough: Enough,
    nodes: Vec<Node>,
    recording: Recording,
    random: Random,
}

struct Node {
    connection: MultiplexedConnection,
    clock: ServerClock,
}

impl Node {
    /// Returns the first and the second number of the answer.
    async fn send(&self, command: Cmd) -> Outcome<(i64, i64)> {
        let answer = raw::send(&mut self.connection.clone(), &command).await?;
        match answer.as_sequence() {
            Some([Value::Int(outcome), Value::Int(number), ..]) => Ok((*outcome, *number)),
            _ => Err(format!("a script answered {answer:?}").into()),
        }
    }
}

impl Nodes {
    fn majority(&self) -> usize {
        self.nodes.len() / 2 + 1
    }

    /// Returns whether these votes are enough for a grant.
    fn agree(&self, votes: &[i64]) -> bool {
        let equal = |token: &i64| votes.iter().filter(|other| *other == token).count();
        let agree = match self.enough {
            Enough::Votes => votes.len(),
            Enough::EqualTokens => votes.iter().map(equal).max().unwrap_or(0),
        };
        agree >= self.majority()
    }
}

#[async_trait]
impl Calls for Nodes {
    type Claim = Owner;

    async fn claim(&self) -> Outcome<Owner> {
        Ok(Owner::mint(&self.random))
    }

    async fn take(&self, owner: &mut Owner) -> Outcome<bool> {
        let times: Vec<Duration> = self.nodes.iter().map(|node| node.clock.now()).collect();
        let proposed = times.iter().max().copied().unwrap_or_default() + MARGIN;
        let voting = self.nodes.iter().zip(times);
        let mut voting = voting
            .map(|(node, now)| node.send(self.recording.grant.propose(owner, now, proposed)))
            .collect::<FuturesUnordered<_>>();
        let mut votes = Vec::new();
        while !self.agree(&votes) {
            match voting.next().await.transpose()? {
                Some((1, token)) => votes.push(token),
                Some(_) => {}
                // They have no token in common, and the library would raise some of theirs. That is rare.
                None => return Ok(votes.len() >= self.majority()),
            }
        }
        Ok(true)
    }

    async fn release(&self, owner: &mut Owner) -> Outcome<()> {
        let mut releasing = self
            .nodes
            .iter()
            .map(|node| node.send(self.recording.release.fill(owner, node.clock.now())))
            .collect::<FuturesUnordered<_>>();
        let mut freed = 0;
        while freed < self.majority() {
            let answer = releasing.next().await.transpose()?.ok_or("too few servers still had it")?;
            freed += usize::from(answer.0 == 1);
        }
        Ok(())
    }
}
