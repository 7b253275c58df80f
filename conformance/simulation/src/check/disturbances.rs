//! The disturbances of clients, servers, and the messages between them, each with its place and its end. By them the
//! checker tells a broken promise from what the promise excludes.

use std::collections::BTreeMap;

use crate::clocks::at_most;
use crate::faults::{Fault, Kind, Loss};
use crate::log::Fate;
use crate::rules::{FamilyName, Rules};
use crate::setting::{LONGEST_TTL, MACHINES, MOST_SERVERS};
use crate::timeline::micros;

/// Until when something was disturbed; zero, if it never was.
type Until = u64;

#[derive(Debug, Default)]
pub(super) struct Disturbances {
    pub(super) rules: Option<Rules>,
    /// By client and server: messages between them came late, or not at all.
    links: BTreeMap<(usize, usize), Until>,
    /// By server: it stood still, or its clock or its data was touched.
    touched: [Until; MOST_SERVERS],
    /// By client: it stood still.
    pub(super) stops: [Until; MACHINES],
    /// By client: until when a message other than one that is sent once was late, or when it was lost.
    pub(super) unanswered: [Until; MACHINES],
    /// By client: when it last missed a message that is sent once.
    pub(super) news: [Until; MACHINES],
    /// By client: when the second copy of a doubled message last arrived.
    pub(super) twice: [Until; MACHINES],
    /// Any fault, and any message that was lost, late or doubled.
    pub(super) anything: Until,
    /// By how much the servers' clocks were set back in all: leases last that much longer.
    pub(super) set_back: u64,
    /// When a server last got back what it no longer had: it was given an older state of its data, or its clock was set
    /// back.
    pub(super) restored: u64,
}

impl Disturbances {
    pub(super) fn begins(&mut self, at: u64, fault: Fault) {
        extend(&mut self.anything, at.max(fault.ends));
        match fault.kind {
            Kind::Pause(client) => extend(&mut self.stops[client], fault.ends),
            Kind::ServerPause(server) => extend(&mut self.touched[server], fault.ends),
            Kind::Wipe(server, loss) => {
                extend(&mut self.touched[server], at);
                if loss == Loss::Latest {
                    self.restored = at;
                }
            }
            Kind::Step(server, by) => {
                extend(&mut self.touched[server], at);
                if by < 0 {
                    self.set_back += by.unsigned_abs();
                    self.restored = at;
                }
            }
            // The log doesn't show which sessions and servers this hits.
            Kind::LeaseEnd(_) => self.touched.iter_mut().for_each(|server| extend(server, at)),
            Kind::SessionEnd(client) => self.is_missed((client, 0), at),
            // Each message that one of these faults hits has an entry of its own.
            Kind::Loss | Kind::Delay | Kind::Doubling | Kind::Partition(_) | Kind::ServerCut(_) => {}
            Kind::ProofsLost(_) | Kind::ProofsLate(_) | Kind::LastWord(_) | Kind::Death(_) => {}
        }
    }

    pub(super) fn misses(&mut self, at: u64, (client, server): (usize, usize), fate: Fate) {
        let until = match fate {
            Fate::Lost | Fate::NewsLost => at,
            Fate::Late(until) | Fate::NoVote(until) | Fate::Twice(until) => until,
        };
        extend(&mut self.anything, until);
        match fate {
            Fate::Twice(_) => return extend(&mut self.twice[client], until),
            Fate::NewsLost => extend(&mut self.news[client], until),
            Fate::Lost | Fate::Late(_) | Fate::NoVote(_) => extend(&mut self.unanswered[client], until),
        }
        self.is_missed((client, server), until);
    }

    fn is_missed(&mut self, link: (usize, usize), until: Until) {
        extend(self.links.entry(link).or_default(), until);
    }

    // ---- queries ----------------------------------------------------------------------------------------------------

    /// Returns whether the history is known to be of this family.
    pub(super) fn is_of(&self, family: FamilyName) -> bool {
        self.rules.is_some_and(|rules| rules.family == family)
    }

    /// Returns the number of servers.
    pub(super) fn servers(&self) -> usize {
        self.rules.map_or(1, |rules| rules.servers)
    }

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
        let link = |server| self.links.get(&(client, server)).copied().unwrap_or(0);
        (0..self.servers()).map(|server| self.touched[server].max(link(server))).collect()
    }

    pub(super) fn news_of_anyone(&self) -> Until {
        self.news.into_iter().max().unwrap_or(0)
    }

    /// Returns how long a lease may last on any server.
    pub(super) fn longest_lease(&self) -> u64 {
        at_most(micros(LONGEST_TTL) + self.set_back)
    }
}

fn extend(disturbed: &mut Until, until: Until) {
    *disturbed = until.max(*disturbed);
}

/// Returns whether something that was disturbed until `until` was undisturbed from `from` on.
pub(super) fn undisturbed(until: Until, from: u64) -> bool {
    until == 0 || until < from
}
