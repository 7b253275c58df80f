//! Several servers, of which a majority decides: lock-redlock's protocol, unchanged, on nodes that do what its scripts
//! do.
//!
//! A node restarts with its data, with an older state of its data, or without data, and is flushed while it runs. It
//! must not grant again what it has forgotten. So a server's loss of data excuses no broken promise here.

mod driver;
mod end;
pub mod node;

use lock_core::driver::{Busy, Context, Driver};
use lock_core::{OwnerBytes, Result};
use lock_memory::ServerTime;
use lock_memory::server::{ClientId, Handled, Key, Server};
use lock_memory::wire::Wire;
use lock_redlock::{Freed, Vote};
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use super::dice::Dice;
use super::families::{Family, Holder, Part, RequestKind, attempt, look, release};
use super::faults::{Guard, Loss};
use super::ids::CallId;
use super::setting::{CLIENTS, MOST_SERVERS};
use super::tally::Occurrence;
use driver::MajorityDriver;
use node::{Answer, NodeServer, Question};

/// The nodes, which know nothing of each other.
#[derive(Debug)]
pub(super) struct Majority {
    nodes: Vec<NodeServer>,
    /// The occurrence that the last request has caused, if any.
    occurred: Option<Occurrence>,
}

/// A request, and the node that it is for.
#[derive(Clone, Debug)]
pub(super) struct Request {
    at: usize,
    what: Question,
}

/// The push that a lock was released on a node.
#[derive(Clone, Debug)]
pub(super) struct Told;

impl Server for Majority {
    type Request = Request;
    type Answer = Answer;
    type Push = Told;

    fn handle(&mut self, now: ServerTime, _from: ClientId, request: Request) -> Handled<Majority> {
        let Request { at, what } = request;
        let key = match &what {
            Question::Grant { ask, .. } | Question::Raise { ask, .. } => Some(ask.keys.lock.clone()),
            _ => None,
        };
        let (answer, tells) = self.nodes[at].handle(now, what);
        let agreed = match answer {
            Answer::Vote(Vote::Yes { .. }) => Some(Occurrence::AgreedAtOnce),
            Answer::Raised(true) => Some(Occurrence::AgreedByRaise),
            _ => None,
        };
        self.occurred = agreed.filter(|_| key.is_some_and(|key| self.has_just_a_majority(at, &key)));
        let pushes = if tells { all_clients().map(|client| (client, Told)).collect() } else { Vec::new() };
        Handled { answer, pushes }
    }

    fn expire(&mut self, _now: ServerTime) -> Vec<(ClientId, Told)> {
        Vec::new()
    }

    fn next_expiry(&self) -> Option<ServerTime> {
        None
    }

    fn hang_up(&mut self, _client: ClientId) {}

    fn writes(&self) -> u64 {
        self.nodes.iter().map(|node| node.writes).sum()
    }

    fn kept(&self, now: ServerTime) -> u64 {
        self.nodes.iter().map(|node| node.kept(now)).sum()
    }

    fn tokens(&self) -> u64 {
        self.nodes.iter().map(NodeServer::tokens).sum()
    }
}

/// Returns all clients: every release is pushed to each of them.
fn all_clients() -> impl Iterator<Item = ClientId> {
    (1..=2 * CLIENTS as u64).map(ClientId)
}

impl Family for Majority {
    const STEPS: bool = true;
    const FORGETTING_ENDS_LEASES: bool = false;

    /// Draws five servers, as is usual, or three, the fewest possible. Two majorities of three have only one server in
    /// common more often than two majorities of five.
    fn servers(dice: &mut Dice) -> usize {
        if dice.chance(500) { 3 } else { MOST_SERVERS }
    }

    fn begin(now: &[ServerTime]) -> Majority {
        Majority { nodes: now.iter().map(|_| NodeServer::marked()).collect(), occurred: None }
    }

    fn occurred(&mut self) -> Option<Occurrence> {
        self.occurred.take()
    }

    fn driver(wire: Arc<dyn Wire<Majority>>, servers: usize, context: Context) -> Result<impl Driver> {
        Ok(MajorityDriver::new(&wire, servers, &context))
    }

    fn place(request: &Request) -> usize {
        request.at
    }

    fn request_kind(request: &Request) -> RequestKind {
        match &request.what {
            Question::Grant { ask, .. } | Question::Refill { ask, .. } => {
                attempt(ask.keys.name.as_str(), owner(&ask.value), label(&ask.value), None)
            }
            Question::Release { ask, .. } => release(ask.keys.name.as_str(), owner(&ask.value)),
            Question::Renew { .. } => RequestKind::Proof,
            Question::Look { ask } => look(ask.keys.name.as_str()),
            Question::Time | Question::Raise { .. } => RequestKind::Nothing,
        }
    }

    fn forgets_by(&mut self, guard: Guard) {
        self.nodes.iter_mut().for_each(|node| node.guard = guard);
    }

    fn end_lease(&mut self, _now: ServerTime, key: Key) -> Vec<(ClientId, Told)> {
        // On one node, or on all.
        let only = self.writes() as usize % (self.nodes.len() + 1);
        let all = only == self.nodes.len();
        let nodes = self.nodes.iter_mut().enumerate();
        nodes.filter(|(at, _)| all || *at == only).for_each(|(_, node)| node.end_lease(key.as_bytes()));
        Vec::new()
    }

    fn forget(&mut self, at: usize, loss: Loss, _now: &[ServerTime]) {
        self.nodes[at].forget(loss);
    }

    /// Returns the call that has a majority.
    fn holder(&mut self, now: &[ServerTime], key: Key) -> Option<Holder> {
        let mut votes: BTreeMap<CallId, Vec<u64>> = BTreeMap::new();
        for (_, value, token, _) in self.granted(now, key.as_bytes()) {
            call(value).into_iter().for_each(|call| votes.entry(call).or_default().push(token));
        }
        let (call, tokens) = votes.into_iter().find(|(_, tokens)| tokens.len() > self.nodes.len() / 2)?;
        Some(Holder { call, token: tokens.into_iter().max()? })
    }

    /// Returns what each node has granted. What such a call is granted later may have any token.
    fn parts(&mut self, now: &[ServerTime], key: Key) -> Vec<Part> {
        let granted = self.granted(now, key.as_bytes());
        let part = |(place, value, _, left)| {
            // What an earlier try gets late is no part of the hold.
            Some(Part { place, call: call(value)?, grant: grant(value), token: u64::MAX, left })
        };
        granted.filter_map(part).collect()
    }

    fn is_grant(answer: &Answer) -> bool {
        matches!(answer, Answer::Vote(Vote::Yes { .. }))
    }

    fn sits_out(answer: &Answer) -> Option<Duration> {
        match answer {
            Answer::Vote(Vote::SitsOut { left }) => Some(*left),
            _ => None,
        }
    }

    /// A candidate that meets others with a part each is shown no holder, and is told when to try again.
    fn shows_a_lease(busy: &Busy) -> bool {
        busy.free_in.is_some() && busy.holder.is_some()
    }

    fn released_grant(request: &Request) -> Option<u64> {
        match &request.what {
            Question::Release { ask, .. } => Some(grant(&ask.value)),
            _ => None,
        }
    }

    fn has_released(answer: &Answer) -> bool {
        matches!(answer, Answer::Freed(Freed::Yes { .. }))
    }

    fn is_of_the_hold(&self, now: &[ServerTime], request: &Request) -> bool {
        let Question::Release { ask, .. } = &request.what else { return true };
        let granted = self.granted(now, &ask.keys.lock);
        granted.filter(|(_, value, ..)| **value == *ask.value).count() > self.nodes.len() / 2
    }
}

impl Majority {
    /// Returns whether the nodes that have the same owner and the same token as this one are a majority with it, and not
    /// without it.
    fn has_just_a_majority(&self, at: usize, key: &[u8]) -> bool {
        let granted = self.nodes[at].granted(key);
        let agree = self.nodes.iter().filter(|node| node.granted(key) == granted).count();
        granted.is_some() && agree == self.nodes.len() / 2 + 1
    }

    /// Returns what nodes have granted: which node, the value of the lock's key, its token, and what is left of the lease.
    fn granted(&self, now: &[ServerTime], key: &[u8]) -> impl Iterator<Item = (usize, &str, u64, Duration)> {
        let nodes = self.nodes.iter().zip(now).enumerate();
        nodes.filter_map(move |(place, (node, now))| {
            let (value, token, left) = node.holder(*now, key)?;
            Some((place, value, token, left))
        })
    }
}

/// Returns what identifies the try that a node has granted: each try has its own value.
fn grant(value: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// Returns the label of the call that a value belongs to. It follows the owner in the value.
fn label(value: &str) -> &str {
    value.split_once(' ').map_or("", |(_, label)| label)
}

/// Returns the call that a value belongs to: the label of a call is its number.
fn call(value: &str) -> Option<CallId> {
    label(value).parse().ok()
}

/// Returns one owner for all tries of a call.
fn owner(value: &str) -> OwnerBytes {
    OwnerBytes::new(label(value).as_bytes())
}
