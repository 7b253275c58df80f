//! `quick`: every workload once on every backend, with all subjects that can take part in it.

use std::time::Duration;

use crate::Outcome;
use crate::args::Quick;
use crate::labels::{self, Labels};
use crate::lineup;
use crate::report::{Format, Row};
use crate::rounds::{self, Measurement, Pace};
use crate::servers::{self, Durability, Targets};
use crate::site::Site;
use crate::subjects::Kind;
use crate::tally::{By, Tally};
use crate::targets::Target;
use crate::workload::Workload;
use crate::workloads::commits::Commits;
use crate::workloads::cycles::Cycles;
use crate::workloads::delay::Delay;
use crate::workloads::hand_over::HandOver;
use crate::workloads::processes::{self, Processes};
use crate::workloads::renewal::{Renewals, Waiters};
use crate::workloads::waiting::{self, Waiting};

const ALL: [Workload; 10] = [
    Workload::Uncontended,
    Workload::ManyNames,
    Workload::OneName,
    Workload::OneLost,
    Workload::HandOver,
    Workload::Processes,
    Workload::Delay,
    Workload::Waiting,
    Workload::Renewal,
    Workload::Commits,
];
const MANY_NAMES: usize = 64;
const TASKS_ON_ONE_NAME: usize = 8;
/// How long a subject may take to connect and to prepare its names.
const PREPARATION: Duration = Duration::from_secs(60);

pub(crate) async fn run(options: Quick) -> Outcome<()> {
    let durability = if options.durable { Durability::EveryWrite } else { Durability::InMemory };
    let mut targets = Targets::of(&options.on, durability)?;
    let (mut measured, mut labels) = (0, Labels::default());
    let format = options.run.format().for_names(labels::widest(&options.on));
    while let Some(target) = targets.next().await? {
        let bench = Bench::of(&target, &options, &mut labels).await?;
        if measured == 0 {
            format.head();
        }
        measured += 1;
        eprintln!("{} for {:?} a workload", bench.server, options.run.length());
        let asked = if options.workloads.is_empty() { &ALL[..] } else { &options.workloads };
        for workload in asked {
            match bench.lineup(*workload) {
                Ok(kinds) => bench.measure(*workload, kinds, format).await?,
                Err(why) => eprintln!("{} on {}: not run, because {why}", workload.as_str(), bench.name),
            }
        }
    }
    match measured {
        0 => Err("nothing was measured".into()),
        _ => Ok(()),
    }
}

/// The backend that is measured, and how.
struct Bench {
    site: Site,
    /// Its name in the table.
    name: String,
    /// Its name and version, for people.
    server: String,
    /// The only subjects that are measured; all of them, if there are none here.
    subjects: Vec<Kind>,
    length: Duration,
}

/// A participant of a comparison.
struct Entrant {
    label: &'static str,
    /// Whether others are only compared with it; its own figures are reported elsewhere.
    hidden: bool,
    measurement: Box<dyn Measurement>,
}

/// The figure by which participants are compared, and with which participant; with none, where a measurement has a
/// ratio of its own.
#[derive(Clone, Copy)]
struct Comparison {
    by: By,
    base: Option<&'static str>,
    pace: Pace,
}

impl Comparison {
    fn of(workload: Workload) -> Comparison {
        let floor = Some(Kind::Floor.as_str());
        let (by, base, pace) = match workload {
            Workload::Uncontended | Workload::HandOver => (By::P50, floor, Pace::QUICK),
            Workload::ManyNames => (By::Rate, floor, Pace::QUICK),
            Workload::OneName => (By::Rate, Some(UNCONTENDED), Pace::QUICK),
            Workload::OneLost => (By::P50, Some(Kind::Ours.as_str()), Pace::QUICK),
            Workload::Processes => (By::P50, None, Pace::QUICK),
            Workload::Delay | Workload::Waiting => (By::P50, None, Pace::WHOLE),
            Workload::Renewal => (By::P50, Some(ALONE), Pace::SLOW),
            Workload::Commits => (By::Rate, Some(Kind::NeverNotifies.as_str()), Pace::SLOW),
        };
        Comparison { by, base, pace }
    }
}

/// The library, uncontended.
const UNCONTENDED: &str = "uncontended";
/// The library's renewals while no client waits.
const ALONE: &str = "alone";

impl Bench {
    async fn of(target: &servers::Target, options: &Quick, labels: &mut Labels) -> Outcome<Bench> {
        let site = Site::of(&target.url).await?;
        let (kind, name) = match &*target.name {
            "" => (site.info.backend, labels::with_parameters(site.info.backend, &target.url)),
            started => (started, started.to_owned()),
        };
        let name = labels.distinct(&name);
        Ok(Bench {
            server: format!("{kind} {}", site.info.server).trim_end().to_owned(),
            site,
            name,
            subjects: options.subjects.clone(),
            length: options.run.length(),
        })
    }

    /// Returns the subjects that were asked for and can take part, or why the workload can't be measured.
    fn lineup(&self, workload: Workload) -> Result<Vec<Kind>, &'static str> {
        let kinds = lineup::of(workload, self.site.backend, self.site.info.wakes)?;
        asked_of(kinds, &self.subjects).ok_or("the subjects that were asked for take no part in it")
    }

    async fn measure(&self, workload: Workload, kinds: Vec<Kind>, format: Format) -> Outcome<()> {
        let mut entrants = Vec::new();
        for kind in kinds {
            let prepared = tokio::time::timeout(PREPARATION, self.entrants(workload, kind)).await;
            let slow = |_| format!("{} was not ready for {} in time", kind.as_str(), workload.as_str());
            entrants.extend(prepared.map_err(slow)??);
        }
        let comparison = Comparison::of(workload);
        let mut measurements = Vec::new();
        let mut shown = Vec::new();
        for Entrant { label, hidden, measurement } in entrants {
            measurements.push(measurement);
            shown.push((label, hidden));
        }
        let tallies = rounds::run(&mut measurements, self.length, comparison.pace).await?;
        for measurement in measurements {
            measurement.end().await?;
        }
        self.report(workload, comparison, &shown, &tallies, format);
        Ok(())
    }

    /// Prepares the participants of one kind.
    async fn entrants(&self, workload: Workload, kind: Kind) -> Outcome<Vec<Entrant>> {
        let entrant = |label, hidden, measurement| Entrant { label, hidden, measurement };
        let mut entrants = match workload {
            Workload::Renewal => vec![
                entrant(ALONE, false, self.renewals(None).await?),
                entrant(Kind::Ours.as_str(), false, self.renewals(Some(Waiters::MANY)).await?),
            ],
            _ => vec![entrant(kind.as_str(), false, self.measurement(workload, kind).await?)],
        };
        if (workload, kind) == (Workload::OneName, Kind::Ours) {
            entrants.push(entrant(
                UNCONTENDED,
                true,
                self.measurement(Workload::Uncontended, Kind::Ours).await?,
            ));
        }
        Ok(entrants)
    }

    async fn renewals(&self, waiters: Option<Waiters>) -> Outcome<Box<dyn Measurement>> {
        let name = self.name_of(Workload::Renewal, Kind::Ours, usize::from(waiters.is_some()));
        Ok(Box::new(Renewals::new(&self.site.url, &name, waiters).await?))
    }

    async fn measurement(&self, workload: Workload, kind: Kind) -> Outcome<Box<dyn Measurement>> {
        let name = |n| self.name_of(workload, kind, n);
        let names: Vec<String> = match workload {
            Workload::Uncontended | Workload::OneLost => vec![name(0)],
            Workload::ManyNames => (0..MANY_NAMES).map(name).collect(),
            Workload::OneName => vec![name(0); TASKS_ON_ONE_NAME],
            Workload::HandOver => {
                let subject = kind.connect(&self.site.url).await?;
                return Ok(Box::new(HandOver::new(kind, subject.as_ref(), &self.site.url, &name(0)).await?));
            }
            Workload::Processes => {
                return Ok(Box::new(Processes::new(kind, &self.site.url, &name(0), processes::EIGHT).await?));
            }
            Workload::Delay => return Ok(Box::new(Delay::new(kind, &self.site.url, name).await?)),
            Workload::Waiting => {
                return Ok(Box::new(
                    Waiting::new(kind, self.site.backend, &self.site.url, &name(0), waiting::PROCESSES)
                        .await?,
                ));
            }
            Workload::Commits => return Ok(Box::new(Commits::new(kind, &self.site.url, &name(0)).await?)),
            Workload::Renewal => return self.renewals(None).await,
        };
        let subject = kind.connect(&self.site.url).await?;
        Ok(Box::new(Cycles::new(subject.as_ref(), &names).await?))
    }

    fn name_of(&self, workload: Workload, kind: Kind, n: usize) -> String {
        self.site.name(workload.as_str(), kind.as_str(), n)
    }

    fn report(
        &self,
        workload: Workload,
        Comparison { by, base, .. }: Comparison,
        shown: &[(&'static str, bool)],
        tallies: &[Tally],
        format: Format,
    ) {
        let named =
            |wanted: &str| shown.iter().position(|(label, _)| *label == wanted).map(|at| &tallies[at]);
        for ((label, _), own) in shown.iter().zip(tallies).filter(|((_, hidden), _)| !hidden) {
            let to =
                |other: &str| named(other).filter(|_| other != *label).and_then(|other| own.ratio(other, by));
            let ours =
                [Kind::Ours, Kind::OneDead, Kind::OneSilent].iter().any(|kind| kind.as_str() == *label);
            format.row(&Row {
                backend: &self.name,
                server: &self.server,
                workload: workload.as_str(),
                subject: label,
                tally: own,
                ratio: own.own_ratio().or_else(|| base.and_then(to)),
                token_price: to(Kind::NoToken.as_str()),
                target: ours.then(|| Target::of(workload, self.site.backend)).flatten(),
            });
        }
    }
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
