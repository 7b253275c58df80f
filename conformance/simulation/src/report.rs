//! Sums up many histories.

use std::fmt;
use std::time::Duration;

use super::check::{Invariant, Verdict};
use super::history::{History, play};
use super::rules::FamilyName;
use super::tally::{Occurrence, Tally};

/// The largest number of violations of a history that are printed.
const SHOWN: usize = 5;

/// The summary of a number of histories.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The number of histories.
    pub histories: u64,
    /// The families that were played.
    families: Vec<FamilyName>,
    /// Calls that were granted a lock.
    pub grants: u64,
    /// The number of times that each invariant could have been broken, in the order of [`Invariant::ALL`].
    pub opportunities: [u64; Invariant::ALL.len()],
    /// The number of times that each was broken, in the same order.
    pub violations: [u64; Invariant::ALL.len()],
    /// The number of times that each seemed broken and was excused, in the same order.
    pub excused: [u64; Invariant::ALL.len()],
    /// The simulated time that passed.
    pub simulated: Duration,
    /// The number of times that each occurrence happened.
    pub tally: Tally,
    /// The first history in which a promise was broken.
    pub broken: Option<History>,
}

/// Plays `histories` histories with the seeds from `seed` on, and stops after the first one in which a promise was
/// broken.
///
/// Plays the core's two families in turn, unless `family` names one.
pub fn play_many(histories: u64, seed: u64, family: Option<FamilyName>) -> Report {
    let mut report = Report::default();
    for seed in (0..histories).map(|n| seed.wrapping_add(n)) {
        report.add(play(family.unwrap_or_else(|| family_of(seed)), seed));
        if report.broken.is_some() {
            break;
        }
    }
    report
}

/// Returns which of the core's two families a seed is played in, unless one is named.
pub fn family_of(seed: u64) -> FamilyName {
    match seed % 2 {
        0 => FamilyName::Lease,
        _ => FamilyName::Queue,
    }
}

impl Report {
    /// Adds a history.
    pub fn add(&mut self, history: History) {
        let Verdict { opportunities, violations, grants, excused } = &history.verdict;
        self.histories += 1;
        self.grants += grants;
        self.simulated += history.lasted();
        let sums = self.opportunities.iter_mut().chain(&mut self.excused);
        for (sum, more) in sums.zip(opportunities.iter().chain(excused)) {
            *sum += more;
        }
        for violation in violations {
            self.violations[violation.invariant as usize] += 1;
        }
        self.tally += history.tally;
        if !self.families.contains(&history.family) {
            self.families.push(history.family);
        }
        if !violations.is_empty() {
            self.broken.get_or_insert(history);
        }
    }

    /// Returns whether no promise was broken.
    pub fn holds(&self) -> bool {
        self.broken.is_none()
    }

    /// Returns the invariants that could not have been broken, and the occurrences that did not happen: these histories
    /// did not test them.
    pub fn untested(&self) -> Vec<String> {
        let invariants = Invariant::ALL.into_iter().filter(|invariant| self.is_untested(*invariant));
        let occurrences = Occurrence::ALL.into_iter().filter(|what| self.lacks(*what));
        invariants
            .map(|i| i.to_string().trim().to_owned())
            .chain(occurrences.map(|what| what.to_string()))
            .collect()
    }

    fn is_untested(&self, invariant: Invariant) -> bool {
        let possible = self.families.iter().any(|family| invariant.can_be_broken_in(*family));
        possible && self.opportunities[invariant as usize] == 0
    }

    /// Returns the invariants that were excused more often than can be explained by what excuses them.
    pub fn excessive(&self) -> Vec<String> {
        let excessive = Invariant::ALL.into_iter().filter(|invariant| self.is_excessive(*invariant));
        excessive.map(|invariant| invariant.to_string().trim().to_owned()).collect()
    }

    fn is_excessive(&self, invariant: Invariant) -> bool {
        let [could, _, excused] = self.counts(invariant);
        let most = self.families.iter().map(|family| invariant.excused_at_most(*family, could)).max();
        excused > most.unwrap_or(0)
    }

    /// Returns the numbers of opportunities, violations and excuses.
    fn counts(&self, invariant: Invariant) -> [u64; 3] {
        [self.opportunities, self.violations, self.excused].map(|counts| counts[invariant as usize])
    }

    fn lacks(&self, what: Occurrence) -> bool {
        let possible = self.families.iter().any(|family| what.can_happen_in(*family));
        possible && self.tally[what] == 0
    }

    /// Returns the report, followed by the speed of the run.
    pub fn within(&self, took: Duration) -> String {
        let rate = |n: u64| n as f64 / took.as_secs_f64();
        let (grants, histories) = (rate(self.grants), rate(self.histories));
        format!("{self}{grants:.0} acquisitions/s, {histories:.0} histories/s, {took:.1?}\n")
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.broken.iter().try_for_each(|history| write!(f, "{history}"))?;
        writeln!(f, "{:<40} {:>14} {:>10} {:>10}", "", "opportunities", "violations", "excused")?;
        for invariant in Invariant::ALL {
            let [could, was, excused] = self.counts(invariant);
            let untested = if self.is_untested(invariant) { "  not tested" } else { "" };
            let excessive = if self.is_excessive(invariant) { "  too many excuses" } else { "" };
            writeln!(f, "{invariant:<40} {could:>14} {was:>10} {excused:>10}{untested}{excessive}")?;
        }
        writeln!(f)?;
        for what in Occurrence::ALL {
            let untested = if self.lacks(what) { "  not tested" } else { "" };
            writeln!(f, "{what:<40} {:>14}{untested}", self.tally[what])?;
        }
        let hours = self.simulated.as_secs_f64() / 3600.0;
        let Report { histories, grants, .. } = self;
        writeln!(f, "\n{histories} histories, {hours:.2} hours of simulated time, {grants} acquisitions")
    }
}

/// The broken promises, the log around them, and the command that shows them again.
impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {}, {} family", self.seed, self.family)?;
        for violation in self.verdict.violations.iter().take(SHOWN) {
            writeln!(f, "  {violation}")?;
            for entry in violation.slice(&self.log) {
                writeln!(f, "    {entry}")?;
            }
        }
        writeln!(f, "  again: sim --histories 1 --seed {} --family {} --trace\n", self.seed, self.family)
    }
}
