//! Many histories, and what they amount to.

use std::fmt;
use std::time::Duration;

use super::check::{Invariant, Verdict};
use super::history::{FamilyName, History, play};
use super::network::Mishaps;

/// How many broken histories are kept to be shown.
const SHOWN: usize = 5;

/// What a number of histories amount to.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// How many there were.
    pub histories: u64,
    /// Calls that were granted the lock.
    pub grants: u64,
    /// In the order of [`Invariant::ALL`].
    pub opportunities: [u64; 7],
    /// In the same order.
    pub violations: [u64; 7],
    /// How often two guards were held at once because somebody had set the server's clock.
    pub excused: u64,
    /// What the network did.
    pub mishaps: Mishaps,
    /// The first histories in which something was broken.
    pub broken: Vec<History>,
}

/// Plays as many histories, from this seed on; both families in turn, unless one is named.
pub fn play_many(histories: u64, seed: u64, family: Option<FamilyName>) -> Report {
    let mut report = Report::default();
    for seed in (0..histories).map(|n| seed.wrapping_add(n)) {
        report.add(play(family.unwrap_or_else(|| family_of(seed)), seed));
    }
    report
}

/// The family in which a seed is played, unless one is named.
pub fn family_of(seed: u64) -> FamilyName {
    match seed % 2 {
        0 => FamilyName::Lease,
        _ => FamilyName::Queue,
    }
}

impl Report {
    /// Counts one history more.
    pub fn add(&mut self, history: History) {
        let Verdict { opportunities, violations, grants, excused } = &history.verdict;
        self.histories += 1;
        self.grants += grants;
        self.excused += excused;
        for (sum, more) in self.opportunities.iter_mut().zip(opportunities) {
            *sum += more;
        }
        for violation in violations {
            self.violations[violation.invariant as usize] += 1;
        }
        let Mishaps { lost, doubled, late } = history.mishaps;
        self.mishaps.lost += lost;
        self.mishaps.doubled += doubled;
        self.mishaps.late += late;
        if !violations.is_empty() && self.broken.len() < SHOWN {
            self.broken.push(history);
        }
    }

    /// Whether every invariant was tested, and none broken.
    pub fn holds(&self) -> bool {
        self.violations.iter().all(|broken| *broken == 0) && self.untested().next().is_none()
    }

    /// What could not have been broken: that says nothing.
    pub fn untested(&self) -> impl Iterator<Item = Invariant> {
        let zero = |invariant: &Invariant| self.opportunities[*invariant as usize] == 0;
        Invariant::ALL.into_iter().filter(zero)
    }

    /// The same, with how fast it went.
    pub fn within(&self, took: Duration) -> String {
        let rate = |n: u64| n as f64 / took.as_secs_f64();
        let (grants, histories) = (rate(self.grants), rate(self.histories));
        format!("{self}{grants:.0} acquisitions/s, {histories:.0} histories/s, {took:.1?}\n")
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for history in &self.broken {
            write!(f, "{history}")?;
        }
        writeln!(f, "{:<24} {:>14} {:>10}", "", "opportunities", "violations")?;
        for invariant in Invariant::ALL {
            let (could, was) = (self.opportunities[invariant as usize], self.violations[invariant as usize]);
            let untested = if could == 0 { "  not tested" } else { "" };
            writeln!(f, "{invariant:<24} {could:>14} {was:>10}{untested}")?;
        }
        let Mishaps { lost, doubled, late } = self.mishaps;
        writeln!(f, "{} histories, {} acquisitions", self.histories, self.grants)?;
        writeln!(f, "messages: {lost} lost, {doubled} doubled, {late} late")?;
        writeln!(f, "{} overlaps excused: the server's clock had been set forward", self.excused)
    }
}

/// What was broken, the log around it, and how to see it again.
impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let family = match self.family {
            FamilyName::Lease => "lease",
            FamilyName::Queue => "queue",
        };
        writeln!(f, "seed {}, {family} family", self.seed)?;
        for violation in self.verdict.violations.iter().take(SHOWN) {
            writeln!(f, "  {violation}")?;
            for entry in violation.slice(&self.log) {
                writeln!(f, "    {entry}")?;
            }
        }
        writeln!(f, "  again: sim --histories 1 --seed {} --family {family} --trace\n", self.seed)
    }
}
