//! Clocks that disagree: each machine's clock has a start value of its own, and runs a little too fast or too slow.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use lock_core::Instant;
use lock_core::toolkit::{Time, Timer};
use lock_memory::ServerTime;

use super::dice::Dice;
use super::faults::FaultProfile;
use super::setting::LONGEST_TTL;
use super::timeline::{Machine, Micros, Timeline};

/// The core allows for 1 % of drift between two clocks: half of it for each. In millionths.
const WORST_RATE: u64 = 5_000;
const MILLION: u64 = 1_000_000;
/// The largest distance between clocks that agree, in microseconds: as far as NTP leaves them apart in one network.
const AGREE: u64 = 5_000;

/// Returns the time that passes while a clock that is 0.5 % too slow counts `micros`, rounded up.
pub(super) fn at_most(micros: Micros) -> Micros {
    micros.saturating_add(micros / 190 + 10)
}

/// Returns the time that passes while a clock that is 0.5 % too fast counts `micros`, rounded down.
pub(super) fn at_least(micros: Micros) -> Micros {
    (micros - micros / 190).saturating_sub(10)
}

/// A clock's relation to simulated time.
#[derive(Clone, Copy, Debug)]
struct Pace {
    /// The clock's time when the history begins, in microseconds.
    offset: u64,
    /// The microseconds that the clock counts in a second of simulated time.
    rate: u64,
}

impl Pace {
    fn throw(dice: &mut Dice, offsets: (u64, u64)) -> Pace {
        let rate = dice.within(MILLION - WORST_RATE, MILLION + WORST_RATE + 1);
        Pace { offset: dice.within(offsets.0, offsets.1), rate }
    }

    /// Returns what the clock says, in nanoseconds.
    fn nanos(self, now: Micros) -> u64 {
        self.offset * 1000 + now * self.rate / 1000
    }

    /// Returns how long to wait until the clock has gone on by this much, rounded up.
    fn lasts(self, nanos: u128) -> Micros {
        let micros = (nanos * 1000).div_ceil(u128::from(self.rate));
        u64::try_from(micros).unwrap_or(u64::MAX).max(1)
    }
}

/// A client's clock.
#[derive(Debug)]
pub(super) struct ClientClock {
    timeline: Timeline,
    machine: Machine,
    pace: Pace,
}

impl ClientClock {
    pub(super) fn new(timeline: Timeline, machine: Machine, dice: &mut Dice) -> ClientClock {
        ClientClock { timeline, machine, pace: Pace::throw(dice, (0, 1000 * MILLION)) }
    }
}

impl Time for ClientClock {
    fn now(&self) -> Instant {
        Instant::from_origin(Duration::from_nanos(self.pace.nanos(self.timeline.now())))
    }

    fn timer(&self, pause: Duration) -> Timer {
        Box::pin(self.timeline.timer(self.pace.lasts(pause.as_nanos()), self.machine))
    }
}

/// A server's clock, which faults may set.
#[derive(Debug)]
pub(super) struct ServersClock {
    timeline: Timeline,
    pace: Pace,
    /// By how much it was set in all, forward and back, in microseconds.
    set_by: AtomicI64,
    /// By how much it was set back in all, in microseconds.
    set_back: AtomicU64,
}

impl ServersClock {
    /// Creates the clocks of all servers. Those of several servers agree in one half of the histories. In the other they
    /// may stand any time apart, except where servers lose data: there, tokens depend on how far apart the clocks are, and
    /// the clocks stand close together.
    pub(super) fn of_all(
        timeline: &Timeline,
        servers: usize,
        profile: FaultProfile,
        dice: &mut Dice,
    ) -> Vec<ServersClock> {
        // From the year 2001 on: far enough from zero to be set back.
        let (first, last) = (MILLION * 1_000_000_000, MILLION * 2_000_000_000);
        let together = dice.within(first, last);
        let apart = match profile {
            _ if servers > 1 && dice.chance(500) => (together, together + AGREE),
            FaultProfile::Wipes => (together, together + LONGEST_TTL.as_micros() as u64 / 2),
            FaultProfile::Mild | FaultProfile::Steps | FaultProfile::Storm => (first, last),
        };
        (0..servers)
            .map(|_| ServersClock {
                timeline: timeline.clone(),
                pace: Pace::throw(dice, apart),
                set_by: AtomicI64::new(0),
                set_back: AtomicU64::new(0),
            })
            .collect()
    }

    pub(super) fn now(&self) -> ServerTime {
        let micros = self.pace.nanos(self.timeline.now()) / 1000;
        ServerTime::from_micros(micros.saturating_add_signed(self.set_by.load(Ordering::Relaxed)))
    }

    pub(super) fn step(&self, by: i64) {
        self.set_by.fetch_add(by, Ordering::Relaxed);
        self.set_back.fetch_add(by.min(0).unsigned_abs(), Ordering::Relaxed);
    }

    /// Returns by how much the clock was set back in all: leases may have lasted that much longer.
    pub(super) fn set_back(&self) -> Micros {
        self.set_back.load(Ordering::Relaxed)
    }

    /// Returns when the clock will say `at`, if it is not set meanwhile.
    pub(super) fn when(&self, at: ServerTime) -> Micros {
        let left = at.since(self.now());
        self.timeline.now() + self.pace.lasts(left.as_nanos())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_clock_counts_within_its_bounds() {
        for time in [1, 1_000, 600_000, 10 * MILLION] {
            let lasts = |rate| Pace { offset: 0, rate }.lasts(u128::from(time) * 1000);
            assert!(lasts(MILLION - WORST_RATE) <= at_most(time), "{time}");
            assert!(lasts(MILLION + WORST_RATE) >= at_least(time), "{time}");
        }
        assert_eq!((at_most(0), at_least(0)), (10, 0));
    }
}
