//! Finds the server on which locks are taken, and connects to it.
//!
//! With several servers, each connection begins with the question which of them is the primary: it may have changed. A
//! server is believed only about itself. What sentinels say of another one is a place to look.

use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::join_all;
use lock_core::driver::{Finding, Level};
use lock_core::toolkit::Call;
use lock_core::{Clock, Effect, Error, Result};
use redis::{Client, ConnectionInfo};

use crate::facts::Role;
use crate::link::Link;
use crate::sentinels::{Sentinels, Switches};
use crate::servers::Servers;
use crate::{errors, race};

/// The ways to the server on which locks are taken.
#[derive(Debug)]
pub(crate) struct Finder {
    ways: Ways,
    /// The way that led to the primary last time.
    last: AtomicUsize,
}

#[derive(Debug)]
enum Ways {
    One(Client),
    Copies(Vec<Client>),
    Watched(Sentinels),
}

/// The reason why a way did not lead to the primary.
#[derive(Debug)]
pub(crate) struct Miss {
    pub(crate) error: Error,
    /// A server or a sentinel has answered, so that the next answer may be another one.
    pub(crate) answered: bool,
}

impl Finder {
    pub(crate) fn new(servers: Servers) -> Result<Finder> {
        let ways = match servers {
            Servers::One(server) => Ways::One(open(server)?),
            Servers::Copies(servers) => Ways::Copies(servers.into_iter().map(open).collect::<Result<_>>()?),
            Servers::Watched(watched) => Ways::Watched(Sentinels::new(watched)?),
            // Each member is reached by itself.
            Servers::Cluster(_) => return Err(Error::invalid("a cluster has several primaries")),
        };
        Ok(Finder { ways, last: AtomicUsize::new(0) })
    }

    /// Returns the only server; `None` if there are several, one of which is the primary.
    pub(crate) fn only_server(&self) -> Option<&Client> {
        match &self.ways {
            Ways::One(server) => Some(server),
            Ways::Copies(_) | Ways::Watched(_) => None,
        }
    }

    /// Connects to the primary, or to the only server whatever its role is.
    ///
    /// If there are several, it takes seven eighths of the call at most, so that its error, which tells what was tried,
    /// comes in time.
    pub(crate) async fn connect(&self, call: &Call) -> Result<Link> {
        if let Ways::One(server) = &self.ways {
            let link = call.within(Link::open(server, call.clock())).await;
            return link.unwrap_or_else(|| Err(call.out_of_time(Effect::NotApplied)));
        }
        let tried = race::first(&call.with_reserve(), &self.order(), |way| self.go(way, call.clock())).await;
        match tried {
            Ok((way, link)) => {
                self.last.store(way, Ordering::Relaxed);
                Ok(link)
            }
            Err(misses) => Err(self.nowhere(misses)),
        }
    }

    /// Tells of failovers that sentinels report; `None` if there are no sentinels, or none that tells.
    pub(crate) async fn switches(&self, call: &Call) -> Option<Switches> {
        match &self.ways {
            Ways::Watched(sentinels) => sentinels.switches(call).await,
            Ways::One(_) | Ways::Copies(_) => None,
        }
    }

    /// Returns whether the server at this address can be the primary, as far as sentinels know.
    pub(crate) async fn may_be_primary(&self, address: &str, call: &Call) -> bool {
        match &self.ways {
            Ways::Watched(sentinels) => {
                sentinels.primary(call).await.is_none_or(|primary| primary == address)
            }
            Ways::One(_) | Ways::Copies(_) => true,
        }
    }

    /// Asks the sentinels, or all servers, whether they are there and agree which server is the primary.
    pub(crate) async fn finding(&self, call: &Call) -> Option<Finding> {
        match &self.ways {
            Ways::Watched(sentinels) => Some(sentinels.finding(call).await),
            Ways::Copies(servers) => Some(agreement(servers, call).await),
            Ways::One(_) => None,
        }
    }

    async fn go(&self, way: usize, clock: &Clock) -> std::result::Result<Link, Miss> {
        match &self.ways {
            Ways::One(server) => primary_at(server, clock).await,
            Ways::Copies(servers) => primary_at(&servers[way], clock).await,
            Ways::Watched(sentinels) => {
                let mut server = sentinels.ask(way).await?;
                loop {
                    tokio::select! {
                        biased;
                        opened = primary_at(&server, clock) => {
                            return opened.map_err(|miss| miss.at(&server));
                        }
                        // It would be silent for as long as it is waited for, and has a successor meanwhile.
                        other = sentinels.names_another(way, &server, clock) => server = other,
                    }
                }
            }
        }
    }

    /// Returns the ways in their order, after the one that led to the primary last time.
    fn order(&self) -> Vec<usize> {
        let last = self.last.load(Ordering::Relaxed);
        std::iter::once(last).chain((0..self.ways.count()).filter(|way| *way != last)).collect()
    }

    /// The error if no way has led to the primary. It is lasting only if all that have answered have refused: otherwise
    /// a failover may be under way.
    fn nowhere(&self, mut misses: Vec<(usize, Option<Miss>)>) -> Error {
        misses.sort_by_key(|(way, _)| *way);
        let said = |(way, miss): &(usize, Option<Miss>)| {
            let how = miss.as_ref().map_or("no answer", |miss| miss.error.message());
            format!("{}: {how}", self.ways.name(*way))
        };
        let all: Vec<String> = misses.iter().map(said).collect();
        let message = format!("no primary was found; {}", all.join("; "));
        let answers = || misses.iter().filter_map(|(_, miss)| miss.as_ref()).filter(|miss| miss.answered);
        match answers().next().is_some() && answers().all(|miss| !miss.error.is_transient()) {
            true => Error::rejected(message),
            false => Error::unavailable(Effect::NotApplied, message),
        }
    }
}

impl Ways {
    fn count(&self) -> usize {
        match self {
            Ways::One(_) => 1,
            Ways::Copies(servers) => servers.len(),
            Ways::Watched(sentinels) => sentinels.count(),
        }
    }

    fn name(&self, way: usize) -> String {
        match self {
            Ways::One(server) => address(server),
            Ways::Copies(servers) => address(&servers[way]),
            Ways::Watched(sentinels) => format!("sentinel {}", sentinels.address(way)),
        }
    }
}

impl Miss {
    /// Something went wrong on the way.
    pub(crate) fn of(error: Error) -> Miss {
        // Only an answer can be a refusal.
        Miss { answered: !error.is_transient(), error }
    }

    /// A sentinel has named this server, where it happened.
    fn at(self, server: &Client) -> Miss {
        let message = format!("it names {}: {}", address(server), self.error.message());
        let error = match self.error.is_transient() {
            true => Error::unavailable(Effect::NotApplied, message),
            false => Error::rejected(message),
        };
        Miss { error, answered: true }
    }
}

/// Asks each of these servers whether it is the primary. If two say so, each client takes the one that answers first.
async fn agreement(servers: &[Client], call: &Call) -> Finding {
    let asked = join_all(servers.iter().map(|server| call.within(primary_at(server, call.clock())))).await;
    let (mut primaries, mut silent) = (Vec::new(), Vec::new());
    for (server, answer) in servers.iter().zip(asked) {
        match answer {
            Some(Ok(_)) => primaries.push(address(server)),
            // A replica.
            Some(Err(Miss { error, answered: true })) if error.is_transient() => {}
            Some(Err(miss)) => silent.push(format!("{}: {}", address(server), miss.error.message())),
            None => silent.push(format!("{}: no answer", address(server))),
        }
    }
    let (level, message) = match (&primaries[..], &silent[..]) {
        ([primary], []) => (Level::Good, format!("{primary} is the primary, and the others are replicas")),
        ([], []) => (Level::Bad, "none of them says that it is the primary".to_owned()),
        ([] | [_], silent) => (Level::Warning, format!("some can't be asked; {}", silent.join("; "))),
        (several, _) => (
            Level::Bad,
            format!(
                "{} say each that it is the primary, so two clients may hold one lock; name one primary and its replicas; \
                 if these servers are independent, write redlock://",
                several.join(" and ")
            ),
        ),
    };
    Finding::new("hosts", level, message)
}

/// Connects to this server if it is the primary, by its own account.
async fn primary_at(server: &Client, clock: &Clock) -> std::result::Result<Link, Miss> {
    let link = Link::open(server, clock).await.map_err(Miss::of)?;
    let other = |error| Err(Miss { error, answered: true });
    match link.facts.role {
        Some(Role::Primary) => Ok(link.that_can_be_left()),
        Some(Role::Replica) => other(Error::unavailable(Effect::NotApplied, "it is a replica")),
        None => other(Error::rejected("it does not tell whether it is a primary")),
    }
}

pub(crate) fn open(server: ConnectionInfo) -> Result<Client> {
    Client::open(server).map_err(errors::connecting)
}

pub(crate) fn address(server: &Client) -> String {
    server.get_connection_info().addr().to_string()
}
