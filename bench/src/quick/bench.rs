//! One server, and what is measured on it.

use std::sync::Arc;
use std::time::Duration;

use lock_test_servers::Owned;

use super::case::Case;
use super::comparison::{ALONE, Comparison, UNCONTENDED};
use crate::Outcome;
use crate::backend::Backend;
use crate::lineup;
use crate::report::Row;
use crate::rounds::{self, Measurement};
use crate::secrets::Secrets;
use crate::site::Site;
use crate::subjects::Kind;
use crate::tally::{By, Tally};
use crate::targets::judge;
use crate::workload::Workload;
use crate::workloads::commits::Commits;
use crate::workloads::crowd::Crowd;
use crate::workloads::cycles::Cycles;
use crate::workloads::delay::Delay;
use crate::workloads::first_lock::{self, FirstLock};
use crate::workloads::hand_over::HandOver;
use crate::workloads::held::{self, Held};
use crate::workloads::processes::{self, Processes};
use crate::workloads::renewal::{Renewals, Waiters};
use crate::workloads::waiting::{self, Waiting};

const MANY_NAMES: usize = 64;
const TASKS_ON_ONE_NAME: usize = 8;

/// The server that is measured, and how.
pub(super) struct Bench {
    pub(super) site: Site,
    /// Its name in the table.
    pub(super) name: String,
    /// The servers that this program has started for it.
    pub(super) servers: Arc<Vec<Owned>>,
    /// The only subjects that are measured; all of them, if there are none here.
    pub(super) subjects: Vec<Kind>,
    pub(super) length: Duration,
}

/// A participant of a comparison.
struct Entrant {
    label: &'static str,
    visibility: Visibility,
    measurement: Box<dyn Measurement>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Visibility {
    Shown,
    /// Others are compared with it; its own figures are reported elsewhere.
    Hidden,
}

/// The results of the participants, in the order of their measurement.
type Results = Vec<(&'static str, Visibility, Tally)>;

impl Bench {
    /// Returns the subjects that were asked for and can take part, or why the workload can't be measured.
    pub(super) fn lineup(&self, workload: Workload) -> Result<Vec<Kind>, &'static str> {
        let kinds = lineup::of(workload, self.site.backend, self.site.info.wakes)?;
        if workload == Workload::FirstLock {
            first_lock::lock_program()?;
        }
        asked_of(kinds, &self.subjects).ok_or("the subjects that were asked for take no part in it")
    }

    /// Measures a case, and returns a row for each subject.
    pub(super) async fn measure(&self, case: Case, kinds: Vec<Kind>) -> Outcome<Vec<Row>> {
        let mut entrants = Vec::new();
        for kind in kinds {
            let prepared = tokio::time::timeout(preparation(case), self.entrants(case, kind)).await;
            let slow = |_| format!("{} was not ready in time", kind.as_str());
            entrants.extend(prepared.map_err(slow)??);
        }
        let comparison = Comparison::of(case.workload());
        let (mut measurements, mut shown) = (Vec::new(), Vec::new());
        for Entrant { label, visibility, measurement } in entrants {
            measurements.push(measurement);
            shown.push((label, visibility));
        }
        let tallies = rounds::run(&mut measurements, self.length, comparison.pace).await?;
        for measurement in measurements {
            measurement.end().await?;
        }
        let results = shown.into_iter().zip(tallies);
        let results = results.map(|((label, visibility), tally)| (label, visibility, tally)).collect();
        Ok(self.rows(case, comparison, &results))
    }

    /// Prepares the participants of one kind.
    async fn entrants(&self, case: Case, kind: Kind) -> Outcome<Vec<Entrant>> {
        let entrant = |label, visibility, measurement| Entrant { label, visibility, measurement };
        let mut entrants = match case {
            Case::Of(Workload::Renewal) => vec![
                entrant(ALONE, Visibility::Shown, self.renewals(None).await?),
                entrant(Kind::Ours.as_str(), Visibility::Shown, self.renewals(Some(Waiters::MANY)).await?),
            ],
            _ => vec![entrant(kind.as_str(), Visibility::Shown, self.measurement(case, kind).await?)],
        };
        if (case, kind) == (Case::Of(Workload::OneName), Kind::Ours) {
            let alone = self.measurement(Case::Of(Workload::Uncontended), Kind::Ours).await?;
            entrants.push(entrant(UNCONTENDED, Visibility::Hidden, alone));
        }
        Ok(entrants)
    }

    async fn renewals(&self, waiters: Option<Waiters>) -> Outcome<Box<dyn Measurement>> {
        let name = self.name_of(Workload::Renewal, Kind::Ours, usize::from(waiters.is_some()));
        Ok(Box::new(Renewals::new(&self.site.url, &name, waiters).await?))
    }

    async fn measurement(&self, case: Case, kind: Kind) -> Outcome<Box<dyn Measurement>> {
        let Site { url, backend, info, .. } = &self.site;
        let name = |n| self.name_of(case.workload(), kind, n);
        Ok(match case {
            Case::Held { locks } => {
                let ttl = held::ttl_for(self.length, info.min_ttl);
                Box::new(Held::new(url, &name(0), locks, ttl, self.servers.clone()).await?)
            }
            Case::Crowd { tasks } => Box::new(Crowd::new(url, &name(0), tasks).await?),
            Case::Of(Workload::HandOver) => {
                let subject = kind.connect(url).await?;
                Box::new(HandOver::new(kind, subject.as_ref(), url, &name(0)).await?)
            }
            Case::Of(Workload::Processes) => {
                Box::new(Processes::new(kind, url, &name(0), processes::EIGHT).await?)
            }
            Case::Of(Workload::Delay) => Box::new(Delay::new(kind, url, name).await?),
            Case::Of(Workload::Waiting) => {
                Box::new(Waiting::new(kind, *backend, url, &name(0), waiting::PROCESSES).await?)
            }
            Case::Of(Workload::Commits) => Box::new(Commits::new(kind, url, &name(0)).await?),
            Case::Of(Workload::FirstLock) => Box::new(FirstLock::new(kind, *backend, url, &name(0)).await?),
            Case::Of(Workload::ManyNames) => self.cycles(kind, (0..MANY_NAMES).map(name).collect()).await?,
            Case::Of(Workload::OneName) => self.cycles(kind, vec![name(0); TASKS_ON_ONE_NAME]).await?,
            Case::Of(_) => self.cycles(kind, vec![name(0)]).await?,
        })
    }

    async fn cycles(&self, kind: Kind, names: Vec<String>) -> Outcome<Box<dyn Measurement>> {
        let subject = kind.connect(&self.site.url).await?;
        Ok(Box::new(Cycles::new(subject.as_ref(), &names).await?))
    }

    fn name_of(&self, workload: Workload, kind: Kind, n: usize) -> String {
        self.site.name(workload.as_str(), kind.as_str(), n)
    }

    fn rows(&self, case: Case, comparison: Comparison, results: &Results) -> Vec<Row> {
        let shown = results.iter().filter(|(_, visibility, _)| *visibility == Visibility::Shown);
        shown.map(|(label, _, tally)| self.row(case, comparison, label, tally, results)).collect()
    }

    fn row(&self, case: Case, comparison: Comparison, label: &str, own: &Tally, results: &Results) -> Row {
        let Comparison { by, base, base_of_p99, .. } = comparison;
        let named = |wanted: &str| results.iter().find(|(other, ..)| *other == wanted && *other != label);
        let to = |other: &str, by| named(other).and_then(|(.., other)| own.ratio(other, by));
        let mut row = Row {
            parameters: case.parameters(),
            ratio: own.own_ratio().or_else(|| base.and_then(|base| to(base, by))),
            p99_ratio: base_of_p99.and_then(|base| to(base, By::P99)),
            token_price: to(Kind::NoToken.as_str(), by),
            ..Row::of(&self.name, case.workload().as_str(), label, own)
        };
        row.first_error = row.first_error.map(|error| Secrets::of(&self.site.url).hide(&error));
        if case.workload() == Workload::FirstLock && self.site.backend != Backend::Sqlite {
            let floor = named(Kind::Floor.as_str());
            let more = floor.and_then(|(.., floor)| first_lock::round_trips_more(own, floor));
            row.figures.extend(more.map(|more| ("round_trips_more".to_owned(), more)));
        }
        match [Kind::Ours, Kind::OneDead, Kind::OneSilent].iter().any(|kind| kind.as_str() == label) {
            true => {
                let verdicts = judge(case.workload(), self.site.backend, &row);
                row.judged(verdicts)
            }
            false => row,
        }
    }
}

/// Returns how long a subject may take to connect and to prepare its names.
fn preparation(case: Case) -> Duration {
    Duration::from_secs(match case {
        // They are all acquired.
        Case::Held { .. } | Case::Crowd { .. } => 180,
        Case::Of(_) => 60,
    })
}

/// Returns those of these kinds that were asked for, or all of them if none was named; `None` if none is left.
fn asked_of(mut kinds: Vec<Kind>, named: &[Kind]) -> Option<Vec<Kind>> {
    kinds.retain(|kind| named.is_empty() || named.contains(kind));
    (!kinds.is_empty()).then_some(kinds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_subject_there_is_nothing_to_measure() {
        let kinds = vec![Kind::Ours, Kind::Floor];
        assert_eq!(asked_of(kinds.clone(), &[]), Some(kinds.clone()));
        assert_eq!(asked_of(kinds.clone(), &[Kind::Floor, Kind::NoToken]), Some(vec![Kind::Floor]));
        assert_eq!(asked_of(kinds, &[Kind::NoToken]), None);
    }
}
