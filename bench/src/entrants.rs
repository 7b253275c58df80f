//! The participants of a case: each subject, ready to be measured.

use std::time::Duration;

use crate::Outcome;
use crate::case::Case;
use crate::rounds::{Measurement, Tolerant};
use crate::servers::Site;
use crate::subjects::{Kind, baseline};
use crate::workloads::contenders::Contenders;
use crate::workloads::cycles::{Cycles, DrivenCycles};
use crate::workloads::delay::Delay;
use crate::workloads::failover::Failover;
use crate::workloads::hand_over::HandOver;
use crate::workloads::held::{self, Held};
use crate::workloads::recovery::Recovery;

/// Prepares a subject for a case that is measured for so long.
pub(crate) async fn prepare(
    site: &Site,
    case: Case,
    kind: Kind,
    length: Duration,
) -> Outcome<Box<dyn Measurement>> {
    let preparing = async {
        if (kind, case) == (Kind::Baseline, Case::OwnNames { tasks: 1 }) {
            let name = site.name("requests", "counted", 0);
            baseline::check_requests(site.backend, &site.url, &name).await?;
        }
        measurement(site, case, kind, length).await
    };
    let prepared = match tokio::time::timeout(preparation(case), preparing).await {
        Ok(prepared) => prepared,
        Err(_) => Err(format!("{} was not ready in time", kind.as_str()).into()),
    };
    match kind {
        // If that fails, its row says so, and the others are measured.
        Kind::Peer(_) => Ok(Box::new(Tolerant::of(prepared))),
        _ => prepared,
    }
}

/// Returns the time in which a subject has to connect and to prepare its names.
fn preparation(case: Case) -> Duration {
    // Locks that are held are acquired first.
    Duration::from_secs(if matches!(case, Case::Held { .. }) { 180 } else { 60 })
}

async fn measurement(site: &Site, case: Case, kind: Kind, length: Duration) -> Outcome<Box<dyn Measurement>> {
    let Site { url, backend, info, .. } = site;
    let name = |n| site.name(&case.to_string(), kind.as_str(), n);
    let short_ttl = info.min_ttl.max(Duration::from_secs(1));
    if let (Kind::Peer(peer), Case::OwnNames { tasks }) = (kind, case)
        && peer.program.is_some()
    {
        let names: Vec<String> = (0..tasks).map(name).collect();
        return Ok(Box::new(DrivenCycles::new(peer, url, &names).await?));
    }
    Ok(match case {
        Case::OwnNames { tasks } => cycles(url, kind, &(0..tasks).map(name).collect::<Vec<_>>()).await?,
        Case::OneLost => cycles(url, kind, &[name(0)]).await?,
        Case::OneName { contenders, processes } if kind == Kind::Ours => {
            let each = contenders / processes;
            Box::new(Contenders::new(*backend, url, &name(0), processes, each, Duration::ZERO).await?)
        }
        Case::Processes => {
            Box::new(Contenders::new(*backend, url, &name(0), 8, 1, Duration::from_millis(1)).await?)
        }
        Case::OneName { .. } | Case::HandOver => Box::new(HandOver::new(kind, url, &name(0)).await?),
        Case::Delay => Box::new(Delay::new(kind, url, name).await?),
        Case::Held { locks } => {
            let ttl = held::ttl_for(length, info.min_ttl);
            Box::new(Held::new(url, &name(0), locks, ttl).await?)
        }
        Case::Recovery => Box::new(Recovery::new(url, &name(0), short_ttl).await?),
        Case::Failover => Box::new(Failover::new(*backend, name(0)).await?),
        Case::Claims => return Err("claims are tried, and not measured".into()),
    })
}

async fn cycles(url: &str, kind: Kind, names: &[String]) -> Outcome<Box<dyn Measurement>> {
    let subject = kind.connect(url).await?;
    Ok(Box::new(Cycles::new(subject.as_ref(), names).await?))
}
