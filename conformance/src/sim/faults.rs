//! What goes wrong in a history, and when.

use super::dice::Dice;
use super::log::LockId;
use super::timeline::Micros;
use super::{CLIENTS, TTL};

/// Something that goes wrong, once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What.
    pub kind: Kind,
    /// From when, in microseconds.
    pub begins: u64,
    /// Until when.
    pub ends: u64,
}

/// What can go wrong. Clients and locks are counted from zero.
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
    /// One client stands still, in most cases for longer than its lease: its clock goes on.
    Pause(usize),
    /// One client's process is killed, and another one takes its place.
    Death(usize),
    /// One client's renewals and heartbeats don't arrive.
    ProofsLost(usize),
    /// Grants and the answers to renewals and heartbeats come to one client late, most of them not too late to count.
    ProofsLate(usize),
    /// One more grant, or answer to a renewal or a heartbeat, comes to one client, late; then it hears and says nothing.
    LastWord(usize),
    /// The server stands still: its clock goes on.
    ServerPause,
    /// The server ends the lease of one lock; in the queue family, the session that has it.
    LeaseEnd(LockId),
    /// The server ends the session in which one client last asked for a lock.
    SessionEnd(usize),
    /// Somebody sets the server's clock, by so many microseconds.
    Step(i64),
    /// The server forgets everything.
    Wipe,
}

/// What may go wrong with the server in a history. What ends leases early is judged apart, lock by lock; and tokens
/// are promised to rise over a loss of the data, or over a clock that is set back, but not over both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Climate {
    /// Its clock and its data stay.
    Mild,
    /// Somebody sets its clock.
    Steps,
    /// It loses its data.
    Wipes,
}

/// Faults begin within this time: no history is shorter.
const EARLY: Micros = 200_000;

impl Fault {
    /// One of those that a server's promises cover: `locks` is how many there are.
    pub(super) fn throw(dice: &mut Dice, locks: usize, climate: Climate) -> Fault {
        let ttl = TTL.as_micros() as Micros;
        let begins = dice.within(0, EARLY);
        let client = dice.below(CLIENTS);
        let (kind, lasts) = match dice.within(0, if climate == Climate::Mild { 12 } else { 16 }) {
            0 => (Kind::Loss, dice.within(ttl / 10, ttl * 2)),
            1 => (Kind::Delay, dice.within(ttl / 10, ttl * 2)),
            2 => (Kind::Doubling, dice.within(ttl / 10, ttl * 2)),
            3 => (Kind::Partition(client), dice.within(ttl / 3, ttl * 3)),
            4 => (Kind::Pause(client), dice.within(ttl * 11 / 10, ttl * 3)),
            5 => (Kind::Death(client), 0),
            6 => (Kind::ProofsLost(client), dice.within(ttl / 3, ttl * 3)),
            7 => (Kind::ProofsLate(client), dice.within(ttl / 3, ttl * 3)),
            8 => (Kind::LastWord(client), dice.within(ttl, ttl * 3)),
            9 => (Kind::ServerPause, dice.within(ttl / 10, ttl * 2)),
            10 => (Kind::LeaseEnd(dice.below(locks)), 0),
            11 => (Kind::SessionEnd(client), 0),
            _ if climate == Climate::Wipes => (Kind::Wipe, 0),
            _ => {
                let by = dice.within(ttl / 100, ttl * 3) as i64;
                (Kind::Step(if dice.chance(500) { by } else { -by }), 0)
            }
        };
        Fault { kind, begins, ends: begins + lasts }
    }
}
