//! One connection of the crate redis to each of several servers. It sends the commands that were recorded from the
//! library, to all servers at once, and waits for the answers of a majority.

use std::sync::Arc;

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
use crate::raw::redis::{self as raw, Raise, Recording, Server, ServerClock};
use crate::subjects::{Side, Subject, Worker};

pub(in crate::subjects) struct Floor {
    rounds: Rounds,
    servers: Vec<(Server, MultiplexedConnection, ServerClock)>,
    /// The library's client, whose commands are recorded.
    ours: Client,
    /// What was recorded of the first of the names that are used once. The others' commands differ by the name alone.
    sample: OnceCell<(String, Recording, Raise)>,
}

/// How often the servers are asked for one grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::subjects) enum Rounds {
    /// The highest token of a majority is taken as the lock's. The difference from `Two` is the cost of the second
    /// round.
    One,
    /// A majority has to confirm that it keeps that token.
    Two,
}

impl Floor {
    pub(in crate::subjects) async fn connect(url: &str, rounds: Rounds) -> Outcome<Floor> {
        let mut servers = Vec::new();
        for server in Server::all_of(url)? {
            let mut connection = server.connect().await?;
            let clock = ServerClock::read(&mut connection).await?;
            servers.push((server, connection, clock));
        }
        let (ours, sample) = (onelock::connect(url).await?, OnceCell::new());
        Ok(Floor { rounds, servers, ours, sample })
    }

    /// Returns what one of the servers saw of a name. All servers are sent the same, except for their own time. Not
    /// every server is asked to raise a token in each cycle.
    async fn recorded(&self, name: &str) -> Outcome<(Recording, Raise)> {
        let mut why = "there is no server".into();
        for (server, ..) in &self.servers {
            match Recording::of(&self.ours, server, name).await {
                Ok(recording) => match recording.raise.clone() {
                    Some(raise) => return Ok((recording, raise)),
                    None => why = "no server was seen to raise a token".into(),
                },
                Err(e) => why = e,
            }
        }
        Err(why)
    }

    fn cycles(&self, recording: Recording, raise: Raise) -> Cycles<Nodes> {
        let node = |(_, connection, clock): &(_, MultiplexedConnection, _)| Node {
            connection: connection.clone(),
            clock: *clock,
        };
        let nodes = self.servers.iter().map(node).collect();
        let random = Random::system();
        Cycles(Arc::new(Nodes { rounds: self.rounds, nodes, recording, raise, random }))
    }
}

/// Records what another process needs for [`alone`].
pub(super) async fn prepare(url: &str, name: &str) -> Outcome<Recorded> {
    let floor = Floor::connect(url, Rounds::Two).await?;
    let (_, _, clock) = floor.servers.first().ok_or("there is no server")?;
    let (recording, _) = floor.recorded(name).await?;
    Ok(Recorded { recording, clock: *clock })
}

/// Connects to each server once, for the name that was recorded. One of them has told the time of all.
pub(super) async fn alone(url: &str, told: &Told) -> Outcome<Box<dyn Side>> {
    let (connections, clock) = (Server::connect_to_all(url).await?, ServerClock::of(told.now));
    let nodes = connections.into_iter().map(|connection| Node { connection, clock }).collect();
    let (rounds, recording, random) = (Rounds::Two, told.recording.clone(), Random::system());
    let raise = recording.raise.clone().ok_or("no server was seen to raise a token")?;
    Ok(Box::new(Alone::new(Arc::new(Nodes { rounds, nodes, recording, raise, random }))))
}

#[async_trait]
impl Subject for Floor {
    async fn worker(&self, name: &str) -> Outcome<Box<dyn Worker>> {
        let (recording, raise) = self.recorded(name).await?;
        Ok(Box::new(self.cycles(recording, raise)))
    }

    async fn use_once(&self, name: &str) -> Outcome<()> {
        let record = async || {
            let (recording, raise) = self.recorded(name).await?;
            Outcome::Ok((name.to_owned(), recording, raise))
        };
        let (sample, recording, raise) = self.sample.get_or_try_init(record).await?;
        self.cycles(recording.renamed(sample, name), raise.clone()).cycle().await
    }

    async fn side(&self, _name: &str) -> Outcome<Box<dyn Side>> {
        Err("the raw driver has nothing that waits for several servers".into())
    }
}

/// The commands of one name.
struct Nodes {
    rounds: Rounds,
    nodes: Vec<Node>,
    recording: Recording,
    raise: Raise,
    random: Random,
}

struct Node {
    connection: MultiplexedConnection,
    clock: ServerClock,
}

/// The server's index, and the first and the second number of its answer.
type Answer = (usize, i64, i64);

impl Node {
    async fn send(&self, at: usize, command: Cmd) -> Outcome<Answer> {
        let answer = raw::send(&mut self.connection.clone(), &command).await?;
        match answer.as_sequence() {
            Some([Value::Int(outcome), Value::Int(number), ..]) => Ok((at, *outcome, *number)),
            _ => Err(format!("a script answered {answer:?}").into()),
        }
    }
}

impl Nodes {
    fn majority(&self) -> usize {
        self.nodes.len() / 2 + 1
    }

    /// Sends exactly the commands that the library sends after the votes, until a majority keeps the highest token.
    async fn agree(
        &self,
        owner: &Owner,
        mut voting: FuturesUnordered<impl Future<Output = Outcome<Answer>>>,
    ) -> Outcome<bool> {
        let mut votes: Vec<(usize, i64)> = Vec::new();
        while votes.len() < self.majority() {
            match voting.next().await.transpose()? {
                Some((at, 1, token)) => votes.push((at, token)),
                Some(_) => {}
                None => return Ok(false),
            }
        }
        if self.rounds == Rounds::One {
            return Ok(true);
        }
        let token = votes.iter().map(|(_, token)| *token).max().unwrap_or(0);
        let mut acknowledged = votes.iter().filter(|(_, granted)| *granted == token).count();
        let raising = FuturesUnordered::new();
        let raise = |(at, granted): (usize, i64)| -> Outcome<_> {
            let node = &self.nodes[at];
            Ok(node.send(at, self.raise.fill(&self.recording.grant, owner, granted, token)?))
        };
        for vote in votes.into_iter().filter(|(_, granted)| *granted < token) {
            raising.push(raise(vote)?);
        }
        let mut raising = raising;
        while acknowledged < self.majority() {
            tokio::select! {
                Some(vote) = voting.next() => match vote? {
                    (at, 1, granted) if granted < token => raising.push(raise((at, granted))?),
                    _ => {}
                },
                Some(raised) = raising.next() => acknowledged += usize::from(raised?.1 == 1),
                else => return Ok(false),
            }
        }
        Ok(true)
    }
}

#[async_trait]
impl Calls for Nodes {
    type Claim = Owner;

    async fn claim(&self) -> Outcome<Owner> {
        Ok(Owner::mint(&self.random))
    }

    async fn take(&self, owner: &mut Owner) -> Outcome<bool> {
        let grants = self.nodes.iter().enumerate();
        let voting = grants
            .map(|(at, node)| node.send(at, self.recording.grant.fill(owner, node.clock.now())))
            .collect::<FuturesUnordered<_>>();
        self.agree(owner, voting).await
    }

    async fn release(&self, owner: &mut Owner) -> Outcome<()> {
        let nodes = self.nodes.iter().enumerate();
        let mut releasing = nodes
            .map(|(at, node)| node.send(at, self.recording.release.fill(owner, node.clock.now())))
            .collect::<FuturesUnordered<_>>();
        let mut freed = 0;
        while freed < self.majority() {
            let answer = releasing.next().await.transpose()?.ok_or("too few servers still had it")?;
            freed += usize::from(answer.1 == 1);
        }
        Ok(())
    }
}
