//! The participants of a case: each subject, ready to be measured.

use std::time::Duration;

use super::comparison::ALONE;
use super::plan::Step;
use super::workload::Case;
use crate::Outcome;
use crate::left::Left;
use crate::rounds::Measurement;
use crate::servers::Target;
use crate::site::Site;
use crate::subjects::Kind;
use crate::subjects::peers::Peer;
use crate::workloads::commits::Commits;
use crate::workloads::contenders::Contenders;
use crate::workloads::cycles::Cycles;
use crate::workloads::delay::Delay;
use crate::workloads::driven::{DrivenCycles, DrivenHandOver};
use crate::workloads::failover::Failover;
use crate::workloads::hand_over::HandOver;
use crate::workloads::held::{self, Held};
use crate::workloads::loss::Loss;
use crate::workloads::metered::Metered;
use crate::workloads::names::Names;
use crate::workloads::open_loop::{OpenLoop, Schedule};
use crate::workloads::recovery::Recovery;
use crate::workloads::renewal::{Renewals, Waiters};
use crate::workloads::tolerant::Tolerant;
use crate::workloads::waiting::Waiting;

/// One participant.
pub(super) struct Entrant {
    pub(super) subject: &'static str,
    pub(super) measurement: Box<dyn Measurement>,
}

/// How long these kinds of subjects may take to connect and to prepare their names, each of them.
const PREPARATION: Duration = Duration::from_secs(60);

/// Prepares all that take part in a case as these kinds of subjects.
pub(super) async fn prepare(
    target: &Target,
    site: &Site,
    step: &Step,
    kinds: &[Kind],
) -> Outcome<Vec<Entrant>> {
    let preparing = async {
        if let Case::OpenLoop { percent } = step.case {
            return open_loops(site, percent, kinds).await;
        }
        let mut entrants = Vec::new();
        for kind in kinds {
            entrants.extend(of_kind(target, site, step, *kind).await?);
        }
        Ok(entrants)
    };
    let limit = PREPARATION * kinds.len() as u32;
    tokio::time::timeout(limit, preparing).await.map_err(|_| "the subjects were not ready in time")?
}

/// How many tasks there are in the loops.
const TASKS_IN_LOOPS: usize = 64;
/// How long each closed loop warms up, and how long it is measured then.
const CLOSED: [Duration; 2] = [Duration::from_millis(200), Duration::from_millis(500)];

/// Prepares an open loop of each kind. All have the same schedule: a share of the lowest rate of the closed loops,
/// which all of them can keep.
async fn open_loops(site: &Site, percent: usize, kinds: &[Kind]) -> Outcome<Vec<Entrant>> {
    let (mut closed, mut lowest) = (Vec::new(), f64::INFINITY);
    for kind in kinds {
        let name = |n| site.name(&format!("open-loop:{percent}"), kind.as_str(), n);
        let names: Vec<String> = (0..TASKS_IN_LOOPS).map(name).collect();
        let subject = kind.connect(&site.url).await?;
        let mut cycles = Cycles::new(subject.as_ref(), &names).await?;
        cycles.run(CLOSED[0]).await?;
        lowest = lowest.min(cycles.run(CLOSED[1]).await?.rate);
        closed.push((kind, cycles));
    }
    let schedule = Schedule::of(lowest * percent as f64 / 100.0)?;
    let open = |(kind, cycles): (&Kind, Cycles)| Entrant {
        subject: kind.as_str(),
        measurement: Box::new(OpenLoop::new(cycles.into_workers(), schedule)),
    };
    Ok(closed.into_iter().map(open).collect())
}

/// Prepares what takes part in a case as this kind of subject.
async fn of_kind(target: &Target, site: &Site, step: &Step, kind: Kind) -> Outcome<Vec<Entrant>> {
    let entrant = |subject, measurement| Entrant { subject, measurement };
    if let Kind::Peer(peer) = kind {
        return Ok(vec![of_peer(target, site, step, peer).await]);
    }
    Ok(match step.case {
        Case::Renewal => vec![
            entrant(ALONE, renewals(site, None).await?),
            entrant(Kind::Ours.as_str(), renewals(site, Some(Waiters::MANY)).await?),
        ],
        _ => vec![entrant(kind.as_str(), measurement(target, site, step, kind).await?)],
    })
}

/// Prepares a peer. If that fails, its row says so, and the others are measured.
async fn of_peer(target: &Target, site: &Site, step: &Step, peer: Peer) -> Entrant {
    let preparing = async {
        match peer.program() {
            Some(_) => driven(site, step, peer).await,
            None => measurement(target, site, step, Kind::Peer(peer)).await,
        }
    };
    let prepared = match tokio::time::timeout(PREPARATION, preparing).await {
        Ok(prepared) => prepared,
        Err(_) => Err("it was not ready in time".into()),
    };
    Entrant { subject: peer.name(), measurement: Box::new(Tolerant::of(prepared)) }
}

/// Starts the driver of a peer that is not in Rust.
async fn driven(site: &Site, step: &Step, peer: Peer) -> Outcome<Box<dyn Measurement>> {
    let text = step.case.to_string().replace(' ', ":");
    let name = |n| site.name(&text, peer.name(), n);
    Ok(match step.case {
        Case::OwnNames { tasks } => {
            let names: Vec<String> = (0..tasks).map(name).collect();
            Box::new(DrivenCycles::new(peer, &site.url, &names).await?)
        }
        Case::HandOver => Box::new(DrivenHandOver::new(peer, &site.url, &name(0)).await?),
        _ => return Err("drivers take part in own-names and hand-over only".into()),
    })
}

async fn renewals(site: &Site, waiters: Option<Waiters>) -> Outcome<Box<dyn Measurement>> {
    let name = site.name(&Case::Renewal.to_string(), Kind::Ours.as_str(), usize::from(waiters.is_some()));
    Ok(Box::new(Renewals::new(&site.url, &name, waiters).await?))
}

async fn measurement(target: &Target, site: &Site, step: &Step, kind: Kind) -> Outcome<Box<dyn Measurement>> {
    let text = step.case.to_string().replace(' ', ":");
    let name = |n| site.name(&text, kind.as_str(), n);
    Ok(match step.case {
        Case::OwnNames { tasks } => cycles(site, kind, &(0..tasks).map(name).collect::<Vec<_>>()).await?,
        Case::Names { names } => {
            let left = Left::of(site.backend, &site.url).await?;
            Box::new(Names::new(kind.connect(&site.url).await?, name(0), names, left).await?)
        }
        Case::OneName { contenders, processes } if kind == Kind::Ours => {
            Box::new(Contenders::new(kind, site.backend, &site.url, &name(0), contenders, processes).await?)
        }
        Case::OneLost => cycles(site, kind, &[name(0)]).await?,
        Case::OneName { .. } | Case::HandOver => {
            let subject = kind.connect(&site.url).await?;
            Box::new(HandOver::new(kind, subject.as_ref(), &site.url, &name(0)).await?)
        }
        Case::Delay => Box::new(Delay::new(kind, &site.url, name).await?),
        Case::Waiting { processes } => {
            Box::new(Waiting::new(kind, site.backend, &site.url, &name(0), processes).await?)
        }
        Case::Commits => Box::new(Commits::new(kind, &site.url, &name(0)).await?),
        Case::Recovery => Box::new(Recovery::new(&site.url, &name(0), short_ttl(site)).await?),
        Case::Failover => Box::new(Failover::new(site.backend, name(0)).await?),
        Case::Loss => Box::new(Loss::new(&site.url, name, short_ttl(site), target.servers.clone()).await?),
        Case::Held { locks } => {
            let ttl = held::ttl_for(step.length, site.info.min_ttl);
            Box::new(Held::new(&site.url, &name(0), locks, ttl, target.servers.clone()).await?)
        }
        Case::ServerCpu { tasks } => {
            let cycles = cycles(site, kind, &(0..tasks).map(name).collect::<Vec<_>>()).await?;
            Box::new(Metered::new(cycles, target.servers.clone()))
        }
        Case::OpenLoop { .. } => return Err("open loops are prepared together".into()),
        Case::Renewal => return renewals(site, None).await,
        Case::Claims => return Err("claims are tried, and not measured".into()),
    })
}

/// Returns a ttl that is short, so that little time is spent waiting for its end: a second, if the server allows it.
fn short_ttl(site: &Site) -> Duration {
    site.info.min_ttl.max(Duration::from_secs(1))
}

async fn cycles(site: &Site, kind: Kind, names: &[String]) -> Outcome<Box<dyn Measurement>> {
    let subject = kind.connect(&site.url).await?;
    Ok(Box::new(Cycles::new(subject.as_ref(), names).await?))
}
