//! `quick`: every workload once, with whoever can take part in it.

use std::time::Duration;

use lock_core::{Location, Owner, Random};

use crate::Outcome;
use crate::args::{Quick, Workload};
use crate::report::{Format, Row};
use crate::rounds::{self, Lane};
use crate::subjects::Kind;
use crate::tally::{By, Tally};
use crate::workloads::cycles::Cycles;
use crate::workloads::hand_over::HandOver;
use crate::workloads::processes::Processes;

const ALL: [Workload; 5] =
    [Workload::Uncontended, Workload::ManyNames, Workload::OneName, Workload::HandOver, Workload::Processes];
const MANY_NAMES: usize = 64;
const TASKS_ON_ONE_NAME: usize = 8;
/// How long a subject may take to connect and to learn its names.
const PREPARATION: Duration = Duration::from_secs(60);

pub(crate) async fn run(options: Quick) -> Outcome<()> {
    let bench = Bench::of(&options).await?;
    let asked = if options.workloads.is_empty() { &ALL[..] } else { &options.workloads };
    let format = options.run.format();
    eprintln!("{} for {:?} a workload", bench.server, options.run.length());
    format.head();
    for workload in asked {
        let processes = matches!(workload, Workload::HandOver | Workload::Processes);
        if processes && bench.reach == Reach::Process {
            eprintln!("{}: not run, because {} is of one process", workload.as_str(), bench.server);
            continue;
        }
        let (kinds, mut lanes): (Vec<Option<Kind>>, Vec<_>) =
            bench.lanes(*workload).await?.into_iter().unzip();
        let tallies = rounds::run(&mut lanes, options.run.length()).await?;
        bench.report(*workload, &kinds, &tallies, format);
    }
    Ok(())
}

/// What is measured where.
struct Bench {
    url: String,
    backend: &'static str,
    /// For people.
    server: String,
    reach: Reach,
    /// Who alone is measured, if not everybody.
    subjects: Vec<Kind>,
    /// In every name: no run meets the locks of another.
    run: String,
}

/// Who can take part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    /// Nobody else: there is no raw driver, and no other process.
    Process,
    /// Other processes, and the raw driver.
    Machine,
    /// And peers.
    Network,
}

impl Reach {
    fn of(scheme: &str) -> Reach {
        match scheme {
            scheme if scheme.starts_with("memory") => Reach::Process,
            "sqlite" => Reach::Machine,
            _ => Reach::Network,
        }
    }
}

impl Bench {
    async fn of(options: &Quick) -> Outcome<Bench> {
        let info = onelock::connect(&options.on).await?.info();
        Ok(Bench {
            url: options.on.clone(),
            backend: info.backend,
            server: format!("{} {}", info.backend, info.server).trim_end().to_owned(),
            reach: Reach::of(Location::parse(&options.on)?.scheme()),
            subjects: options.subjects.clone(),
            run: Owner::mint(&Random::system()).to_string()[..12].to_owned(),
        })
    }

    /// Who takes part. Nobody's name: the one that others are compared with, and that is reported elsewhere.
    async fn lanes(&self, workload: Workload) -> Outcome<Vec<(Option<Kind>, Box<dyn Lane>)>> {
        let mut lanes: Vec<(Option<Kind>, Box<dyn Lane>)> = Vec::new();
        let asked = |kind: &Kind| self.subjects.is_empty() || self.subjects.contains(kind);
        for kind in self.kinds(workload).into_iter().filter(asked) {
            let lane = tokio::time::timeout(PREPARATION, self.lane(workload, kind)).await;
            let slow = |_| format!("{} was not ready for {} in time", kind.as_str(), workload.as_str());
            lanes.push((Some(kind), lane.map_err(slow)??));
        }
        if workload == Workload::OneName {
            lanes.push((None, self.lane(Workload::Uncontended, Kind::Ours).await?));
        }
        Ok(lanes)
    }

    fn kinds(&self, workload: Workload) -> Vec<Kind> {
        match (workload, self.reach) {
            (_, Reach::Process) | (Workload::Processes, _) => vec![Kind::Ours],
            (Workload::Uncontended | Workload::ManyNames, Reach::Network) => Kind::ALL.to_vec(),
            (Workload::Uncontended | Workload::ManyNames, Reach::Machine) => vec![Kind::Ours, Kind::Floor],
            // The raw driver has nothing that several tasks could wait for.
            (Workload::OneName, Reach::Network) => vec![Kind::Ours, Kind::Rslock],
            (Workload::HandOver, Reach::Network) => vec![Kind::Ours, Kind::Floor, Kind::Rslock],
            // Nor has a file anything that another process could wait for: one has to look.
            (Workload::OneName | Workload::HandOver, Reach::Machine) => vec![Kind::Ours],
        }
    }

    async fn lane(&self, workload: Workload, kind: Kind) -> Outcome<Box<dyn Lane>> {
        let subject = kind.connect(&self.url).await?;
        let name = |n: usize| format!("lock-bench:{}:{}:{}:{n}", self.run, workload.as_str(), kind.as_str());
        let names: Vec<String> = match workload {
            Workload::Uncontended => vec![name(0)],
            Workload::ManyNames => (0..MANY_NAMES).map(name).collect(),
            Workload::OneName => vec![name(0); TASKS_ON_ONE_NAME],
            Workload::HandOver => {
                return Ok(Box::new(HandOver::new(kind, subject.as_ref(), &self.url, &name(0)).await?));
            }
            Workload::Processes => return Ok(Box::new(Processes::new(kind, &self.url, &name(0)).await?)),
        };
        Ok(Box::new(Cycles::new(subject.as_ref(), &names).await?))
    }

    fn report(&self, workload: Workload, kinds: &[Option<Kind>], tallies: &[Tally], format: Format) {
        let by = match workload {
            Workload::Uncontended | Workload::HandOver | Workload::Processes => By::P50,
            Workload::ManyNames | Workload::OneName => By::Rate,
        };
        let base = if workload == Workload::OneName { None } else { Some(Kind::Floor) };
        let tally = |wanted| kinds.iter().position(|kind| *kind == wanted).map(|at| &tallies[at]);
        for (kind, own) in kinds.iter().zip(tallies) {
            let Some(subject) = kind else { continue };
            let to = |other| tally(other).filter(|_| other != *kind).and_then(|other| own.ratio(other, by));
            format.row(&Row {
                backend: self.backend,
                workload: workload.as_str(),
                subject: subject.as_str(),
                tally: own,
                ratio: to(base),
                token_price: to(Some(Kind::NoToken)),
            });
        }
    }
}
