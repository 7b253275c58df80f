//! The faults of a history: what goes wrong, and when.

use super::dice::Dice;
use super::ids::LockId;
use super::rules::WakesBy;
use super::setting::{CLIENTS, TTL_MICROS};
use super::timeline::{Machine, Micros};

/// A fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The kind of the fault.
    pub kind: Kind,
    /// When it begins, in microseconds.
    pub begins: u64,
    /// When it ends, in microseconds.
    pub ends: u64,
}

/// The kinds of faults. Clients, servers and locks are counted from zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Every other message is lost.
    Loss,
    /// Messages take up to half a ttl, and overtake each other.
    Delay,
    /// Every other message arrives twice, the second time long after.
    Doubling,
    /// All messages from and to one client are lost.
    Partition(usize),
    /// One client stands still, in most cases for longer than its lease. Its clock goes on.
    Pause(usize),
    /// One client's process is killed, and another one takes its place.
    Death(usize),
    /// One client's renewals and heartbeats don't arrive.
    ProofsLost(usize),
    /// Grants, and the answers to renewals and heartbeats, reach one client late; most of them still count.
    ProofsLate(usize),
    /// One client gets one more grant, or answer to a renewal or a heartbeat, and gets it late. After that, all
    /// messages from and to it are lost.
    LastWord(usize),
    /// A server stands still. Its clock goes on.
    ServerPause(usize),
    /// All messages from and to one server are lost.
    ServerCut(usize),
    /// The server ends the lease of one lock; in the queue family, the session that holds it.
    LeaseEnd(LockId),
    /// The server ends the session in which one client last asked for a lock.
    SessionEnd(usize),
    /// A server's clock is set, by this many microseconds.
    Step(usize, i64),
    /// A server loses its data.
    Wipe(usize, Loss),
}

/// A server's loss of its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// The server restarts without its data.
    Everything,
    /// The server restarts with an older state of its data.
    Latest,
    /// The server goes on, and has no data any more.
    Flushed,
}

/// The behavior of a server that may have forgotten locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Guard {
    /// It grants nothing until every lease that it may have forgotten has ended.
    SitsOut,
    /// It goes on granting.
    None,
}

/// The trouble that servers may have in a history. Faults that end leases early are judged separately, lock by lock.
/// Tokens are promised to rise across a loss of the data, or across a clock that is set back, but not across both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FaultProfile {
    /// The servers' clocks and data stay.
    Mild,
    /// A server's clock is set.
    Steps,
    /// A server loses its data.
    Wipes,
    /// Requests arrive twice and late all the time, and leases are ended meanwhile: the tokens of several servers must
    /// withstand that.
    Storm,
}

/// Faults begin within this time: no history is shorter.
const EARLY: Micros = 200_000;

impl Fault {
    pub(super) fn at(begins: Micros, kind: Kind, lasts: Micros) -> Fault {
        Fault { kind, begins, ends: begins + lasts }
    }

    /// Draws all faults of a history with this many servers and locks.
    pub(super) fn by_chance(
        dice: &mut Dice,
        (servers, locks): (usize, usize),
        profile: FaultProfile,
        wakes: WakesBy,
    ) -> Vec<Fault> {
        let ttl = TTL_MICROS;
        let mut faults = Vec::new();
        if profile == FaultProfile::Storm {
            faults.extend([Kind::Delay, Kind::Doubling].map(|kind| Fault::at(0, kind, ttl * 4)));
            let end = |_| Fault::at(dice.within(0, ttl * 4), Kind::LeaseEnd(dice.below(locks)), 0);
            faults.extend((0..30).map(end));
        }
        // Several servers lose their data, one after the other.
        if profile == FaultProfile::Wipes && servers > 1 {
            let wipe =
                |_| Fault::at(dice.within(0, ttl * 4), Kind::Wipe(dice.below(servers), Loss::throw(dice)), 0);
            faults.extend((0..6).map(wipe));
        }
        let count = dice.below(4) + 4;
        let thrown = std::iter::repeat_with(|| Fault::throw(dice, servers, locks, profile));
        faults.extend(thrown.filter(|fault| fault.kind.may_hit(wakes)).take(count));
        faults
    }

    /// Draws a fault that the promises of this many servers cover, and that concerns this many locks.
    fn throw(dice: &mut Dice, servers: usize, locks: usize, profile: FaultProfile) -> Fault {
        let ttl = TTL_MICROS;
        let begins = dice.within(0, EARLY);
        let (client, server) = (dice.below(CLIENTS), dice.below(servers));
        let calm = matches!(profile, FaultProfile::Mild | FaultProfile::Storm);
        let (kind, lasts) = match dice.within(0, if calm { 12 } else { 16 }) {
            0 => (Kind::Loss, dice.within(ttl / 10, ttl * 2)),
            1 => (Kind::Delay, dice.within(ttl / 10, ttl * 2)),
            2 => (Kind::Doubling, dice.within(ttl / 10, ttl * 2)),
            3 => (Kind::Partition(client), dice.within(ttl / 3, ttl * 3)),
            4 => (Kind::Pause(client), dice.within(ttl * 11 / 10, ttl * 3)),
            5 => (Kind::Death(client), 0),
            6 => (Kind::ProofsLost(client), dice.within(ttl / 3, ttl * 3)),
            7 => (Kind::ProofsLate(client), dice.within(ttl / 3, ttl * 3)),
            8 => (Kind::LastWord(client), dice.within(ttl, ttl * 3)),
            9 if servers > 1 && dice.chance(500) => (Kind::ServerCut(server), dice.within(ttl / 10, ttl * 2)),
            9 => (Kind::ServerPause(server), dice.within(ttl / 10, ttl * 2)),
            10 => (Kind::LeaseEnd(dice.below(locks)), 0),
            11 => (Kind::SessionEnd(client), 0),
            _ if profile == FaultProfile::Wipes => (Kind::Wipe(server, Loss::throw(dice)), 0),
            _ => {
                let by = dice.within(ttl / 100, ttl * 3) as i64;
                (Kind::Step(server, if dice.chance(500) { by } else { -by }), 0)
            }
        };
        Fault::at(begins, kind, lasts)
    }

    /// Returns the fault that hits the holder of `lock` on this machine: a throw of ten has decided which one it is.
    pub(super) fn at_grant(
        thrown: u64,
        dice: &mut Dice,
        now: Micros,
        machine: Machine,
        lock: LockId,
    ) -> Fault {
        let ttl = TTL_MICROS;
        let (kind, after, lasts) = match thrown {
            0..3 => (Kind::Pause(machine), 0, dice.within(ttl * 5 / 6, ttl * 2)),
            3..6 => (Kind::LastWord(machine), dice.within(0, ttl / 2), ttl * 5 / 2),
            6..8 => (Kind::ProofsLost(machine), 0, dice.within(ttl, ttl * 2)),
            8 => (Kind::LeaseEnd(lock), dice.within(0, ttl / 2), 0),
            _ => (Kind::Death(machine), dice.within(0, ttl), 0),
        };
        Fault::at(now + after, kind, lasts)
    }
}

impl Kind {
    /// Returns whether a history with these wake-ups may have it. Where pushes alone wake waiters, no message may be late
    /// or lost.
    pub(super) fn may_hit(self, wakes: WakesBy) -> bool {
        let is_of_the_network = match self {
            Kind::Loss | Kind::Delay | Kind::Partition(_) | Kind::ServerCut(_) => true,
            Kind::ProofsLost(_) | Kind::ProofsLate(_) | Kind::LastWord(_) => true,
            Kind::Doubling | Kind::Pause(_) | Kind::Death(_) | Kind::ServerPause(_) => false,
            Kind::LeaseEnd(_) | Kind::SessionEnd(_) | Kind::Step(..) | Kind::Wipe(..) => false,
        };
        wakes == WakesBy::PushesAndLooks || !is_of_the_network
    }
}

impl Loss {
    fn throw(dice: &mut Dice) -> Loss {
        match dice.below(3) {
            0 => Loss::Everything,
            1 => Loss::Latest,
            _ => Loss::Flushed,
        }
    }
}
