//! What is out of order, where, and until when: by it the checker tells what a promise excludes from what breaks it.

use std::collections::BTreeMap;

use super::terms::at_most;
use crate::sim::faults::{Fault, Kind, Loss};
use crate::sim::log::{Fate, Rules};
use crate::sim::tally::micros;
use crate::sim::{LONGEST_TTL, MACHINES, MOST_SERVERS};

/// Until when something was out of order; zero, if it never was.
type Until = u64;

#[derive(Debug, Default)]
pub(super) struct Weather {
    rules: Option<Rules>,
    /// By client and server: what came late between them, or not at all.
    links: BTreeMap<(usize, usize), Until>,
    servers: [Until; MOST_SERVERS],
    /// By client: it stood still.
    stops: [Until; MACHINES],
    /// By client: when it last missed what is said once.
    news: [Until; MACHINES],
    /// By client: when the last message came that came twice.
    twice: [Until; MACHINES],
    /// Any fault, and any message.
    anything: Until,
    /// By how much clocks of servers were set back in all: leases last longer by that.
    set_back: u64,
    restored: u64,
}

impl Weather {
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
            // Of which sessions and servers, only they know.
            Kind::LeaseEnd(_) => (0..MOST_SERVERS).for_each(|server| self.is_touched(server, at)),
            Kind::SessionEnd(client) => self.is_missed((client, 0), at),
            // Of these each message is written down.
            Kind::Loss | Kind::Delay | Kind::Doubling | Kind::Partition(_) | Kind::ServerCut(_) => {}
            Kind::ProofsLost(_) | Kind::ProofsLate(_) | Kind::LastWord(_) | Kind::Death(_) => {}
        }
    }

    pub(super) fn misses(&mut self, at: u64, (client, server): (usize, usize), fate: Fate) {
        match fate {
            Fate::Lost => self.is_missed((client, server), at),
            Fate::NewsLost => {
                self.is_missed((client, server), at);
                self.news[client] = self.news[client].max(at);
            }
            Fate::Late { until } | Fate::NoVote { until } => self.is_missed((client, server), until),
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

    fn is_missed(&mut self, link: (usize, usize), until: Until) {
        let link = self.links.entry(link).or_default();
        *link = until.max(*link);
    }

    // ---- what is to be known of it ----------------------------------------------------------------------------------

    /// Until when a client stood still, or did not hear from a majority of the servers as it should.
    pub(super) fn without_a_majority(&self, client: usize) -> Until {
        let mut troubled = self.troubled(client);
        troubled.sort_unstable();
        let majority = troubled.len() / 2;
        troubled[majority].max(self.stops[client])
    }

    /// The same of any of the servers.
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

    /// By how much clocks of servers were set back in all.
    pub(super) fn set_back(&self) -> u64 {
        self.set_back
    }

    /// When what a server no longer had last came back: it was given an older state of its data, or its clock was set back.
    pub(super) fn restored(&self) -> u64 {
        self.restored
    }

    /// How long a lease may last on any server.
    pub(super) fn longest_lease(&self) -> u64 {
        at_most(micros(LONGEST_TTL) + self.set_back)
    }
}

/// Whether something that was out of order until then was in order from this time on.
pub(super) fn in_order(until: Until, from: u64) -> bool {
    until == 0 || until < from
}
