//! The disturbances of clients, servers, and the messages between them, each with its place and its end. By them the
//! checker tells a broken promise from what the promise excludes.

use std::collections::BTreeMap;

use crate::clocks::at_most;
use crate::faults::{Fault, Kind, Loss};
use crate::log::Fate;
use crate::rules::Rules;
use crate::setting::{LONGEST_TTL, MACHINES, MOST_SERVERS};
use crate::timeline::micros;

/// Until when something was disturbed; zero, if it never was.
type Until = u64;

#[derive(Debug, Default)]
pub(super) struct Disturbances {
    rules: Option<Rules>,
    /// By client and server: messages between them came late, or not at all.
    links: BTreeMap<(usize, usize), Until>,
    servers: [Until; MOST_SERVERS],
    /// By client: it stood still.
    stops: [Until; MACHINES],
    /// By client: until when a message other than one that is sent once was late, or when it was lost.
    unanswered: [Until; MACHINES],
    /// By client: when it last missed a message that is sent once.
    news: [Until; MACHINES],
    /// By client: when the second copy of a doubled message last arrived.
    twice: [Until; MACHINES],
    /// Any fault, and any message that was lost, late or doubled.
    anything: Until,
    /// By how much the servers' clocks were set back in all: leases last that much longer.
    set_back: u64,
    restored: u64,
}

impl Disturbances {
    pub(super) fn opens(&mut self, rules: Rules) {
        self.rules = Some(rules);
    }

    pub(super) fn rules(&self) -> Option<Rules> {
        self.rules
    }

    pub(super) fn begins(&mut self, at: u64, fault: Fault) {
        self.anything = self.anything.max(at).max(fault.ends);
        match fault.kind {
            Kind::Pause(client) => self.stops[client] = self.stops[client].max(fault.ends),
            Kind::ServerPause(server) => self.is_touched(server, fault.ends),
            Kind::Wipe(server, loss) => {
                self.is_touched(server, at);
                if loss == Loss::Latest {
                    self.restored = at;
                }
            }
            Kind::Step(server, by) => {
                self.is_touched(server, at);
                self.set_back += by.min(0).unsigned_abs();
                if by < 0 {
                    self.restored = at;
                }
            }
            // The log doesn't show which sessions and servers this hits.
            Kind::LeaseEnd(_) => (0..MOST_SERVERS).for_each(|server| self.is_touched(server, at)),
            Kind::SessionEnd(client) => self.is_missed((client, 0), at),
            // Each message that one of these faults hits has an entry of its own.
            Kind::Loss | Kind::Delay | Kind::Doubling | Kind::Partition(_) | Kind::ServerCut(_) => {}
            Kind::ProofsLost(_) | Kind::ProofsLate(_) | Kind::LastWord(_) | Kind::Death(_) => {}
        }
    }

    pub(super) fn misses(&mut self, at: u64, (client, server): (usize, usize), fate: Fate) {
        match fate {
            Fate::Lost => self.is_unanswered((client, server), at),
            Fate::NewsLost => {
                self.is_missed((client, server), at);
                self.news[client] = self.news[client].max(at);
            }
            Fate::Late { until } | Fate::NoVote { until } => self.is_unanswered((client, server), until),
            Fate::Twice { until } => self.twice[client] = self.twice[client].max(until),
        }
        let until = match fate {
            Fate::Lost | Fate::NewsLost => at,
            Fate::Late { until } | Fate::NoVote { until } | Fate::Twice { until } => until,
        };
        self.anything = self.anything.max(until);
    }

    fn is_touched(&mut self, server: usize, until: Until) {
        self.servers[server] = self.servers[server].max(until);
    }

    fn is_unanswered(&mut self, link: (usize, usize), until: Until) {
        self.is_missed(link, until);
        self.unanswered[link.0] = self.unanswered[link.0].max(until);
    }

    fn is_missed(&mut self, link: (usize, usize), until: Until) {
        let link = self.links.entry(link).or_default();
        *link = until.max(*link);
    }

    // ---- queries ----------------------------------------------------------------------------------------------------

    /// Returns until when a client stood still, or exchanged messages with too few servers for a majority without
    /// disturbance.
    pub(super) fn without_a_majority(&self, client: usize) -> Until {
        let mut troubled = self.troubled(client);
        troubled.sort_unstable();
        let majority = troubled.len() / 2;
        troubled[majority].max(self.stops[client])
    }

    /// Returns until when a client stood still, or any of the servers or its messages with them was disturbed.
    pub(super) fn without_any(&self, client: usize) -> Until {
        let troubled = self.troubled(client).into_iter().max().unwrap_or(0);
        troubled.max(self.stops[client])
    }

    fn troubled(&self, client: usize) -> Vec<Until> {
        let servers = self.rules.map_or(1, |rules| rules.servers);
        let link = |server| self.links.get(&(client, server)).copied().unwrap_or(0);
        (0..servers).map(|server| self.servers[server].max(link(server))).collect()
    }

    pub(super) fn stop(&self, client: usize) -> Until {
        self.stops[client]
    }

    pub(super) fn unanswered(&self, client: usize) -> Until {
        self.unanswered[client]
    }

    pub(super) fn news(&self, client: usize) -> Until {
        self.news[client]
    }

    pub(super) fn news_of_anyone(&self) -> Until {
        self.news.into_iter().max().unwrap_or(0)
    }

    pub(super) fn twice(&self, client: usize) -> Until {
        self.twice[client]
    }

    pub(super) fn anything(&self) -> Until {
        self.anything
    }

    /// Returns by how much the servers' clocks were set back in all.
    pub(super) fn set_back(&self) -> u64 {
        self.set_back
    }

    /// Returns when a server last got back what it no longer had: it was given an older state of its data, or its clock was
    /// set back.
    pub(super) fn restored(&self) -> u64 {
        self.restored
    }

    /// Returns how long a lease may last on any server.
    pub(super) fn longest_lease(&self) -> u64 {
        at_most(micros(LONGEST_TTL) + self.set_back)
    }
}

/// Returns whether something that was disturbed until `until` was undisturbed from `from` on.
pub(super) fn undisturbed(until: Until, from: u64) -> bool {
    until == 0 || until < from
}
