//! What goes wrong in a history, and when.

use super::TTL;
use super::dice::Dice;
use super::timeline::Micros;

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

/// What can go wrong.
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
    /// Somebody sets the server's clock, by so many microseconds.
    Step(i64),
}

/// Whether somebody sets the server's clock in a history: those are judged apart.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Steps {
    None,
    Some,
}

/// Faults begin within this time: no history is shorter.
const EARLY: Micros = 150_000;

impl Fault {
    /// One of those that a server's promises cover: `clients` is how many there are.
    pub(super) fn throw(dice: &mut Dice, clients: usize, steps: Steps) -> Fault {
        let ttl = TTL.as_micros() as Micros;
        let begins = dice.within(0, EARLY);
        let client = dice.within(0, clients as u64) as usize;
        let (kind, lasts) = match dice.within(0, if steps == Steps::Some { 7 } else { 5 }) {
            0 => (Kind::Loss, dice.within(ttl / 10, ttl * 2)),
            1 => (Kind::Delay, dice.within(ttl / 10, ttl * 2)),
            2 => (Kind::Doubling, dice.within(ttl / 10, ttl * 2)),
            3 => (Kind::Partition(client), dice.within(ttl / 3, ttl * 3)),
            4 => (Kind::Pause(client), dice.within(ttl * 11 / 10, ttl * 3)),
            _ => {
                let by = dice.within(ttl / 100, ttl * 3) as i64;
                (Kind::Step(if dice.chance(500) { by } else { -by }), 0)
            }
        };
        Fault { kind, begins, ends: begins + lasts }
    }

    pub(super) fn is_on(&self, now: Micros) -> bool {
        self.begins <= now && now < self.ends
    }

    /// Ends leases before their time, which no lease server can promise not to do: exclusion is then the token's.
    pub fn ends_leases_early(&self) -> bool {
        matches!(self.kind, Kind::Step(by) if by > 0)
    }
}
