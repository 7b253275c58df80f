//! The participants of a case: each subject, ready to be measured.

use crate::Outcome;
use crate::rounds::{Measurement, Pace};
use crate::site::Site;
use crate::subjects::Kind;
use crate::workloads::commits::Commits;
use crate::workloads::cycles::Cycles;
use crate::workloads::delay::Delay;
use crate::workloads::hand_over::HandOver;
use crate::workloads::renewal::{Renewals, Waiters};
use crate::workloads::waiting::Waiting;

use super::report::Figures;
use super::workload::Case;

/// One participant.
pub(super) struct Entrant {
    pub(super) subject: &'static str,
    pub(super) measurement: Box<dyn Measurement>,
}

/// How the participants of a case are compared.
#[derive(Clone, Copy, Debug)]
pub(super) struct Comparison {
    /// The participant that the others are compared with.
    pub(super) base: &'static str,
    pub(super) figures: Figures,
    pub(super) pace: Pace,
}

/// The library's renewals while no client waits.
const ALONE: &str = "alone";

impl Comparison {
    pub(super) fn of(case: Case) -> Comparison {
        let floor = Kind::Floor.as_str();
        let (base, figures, pace) = match case {
            Case::OwnNames { .. } | Case::HandOver => (floor, Figures::RateAndLatencies, Pace::QUICK),
            Case::OneName { .. } => (floor, Figures::Rate, Pace::QUICK),
            Case::Delay | Case::Waiting => (floor, Figures::RateAndLatencies, Pace::WHOLE),
            Case::OneLost => (Kind::Ours.as_str(), Figures::RateAndLatencies, Pace::QUICK),
            Case::Renewal => (ALONE, Figures::RateAndLatencies, Pace::SLOW),
            Case::Commits => (Kind::NeverNotifies.as_str(), Figures::RateAndLatencies, Pace::SLOW),
        };
        Comparison { base, figures, pace }
    }
}

/// Prepares what takes part in a case as this kind of subject.
pub(super) async fn prepare(site: &Site, case: Case, kind: Kind) -> Outcome<Vec<Entrant>> {
    let entrant = |subject, measurement| Entrant { subject, measurement };
    Ok(match case {
        Case::Renewal => vec![
            entrant(ALONE, renewals(site, None).await?),
            entrant(Kind::Ours.as_str(), renewals(site, Some(Waiters::MANY)).await?),
        ],
        _ => vec![entrant(kind.as_str(), measurement(site, case, kind).await?)],
    })
}

async fn renewals(site: &Site, waiters: Option<Waiters>) -> Outcome<Box<dyn Measurement>> {
    let name = site.name(&Case::Renewal.to_string(), Kind::Ours.as_str(), usize::from(waiters.is_some()));
    Ok(Box::new(Renewals::new(&site.url, &name, waiters).await?))
}

async fn measurement(site: &Site, case: Case, kind: Kind) -> Outcome<Box<dyn Measurement>> {
    let text = case.to_string().replace(' ', ":");
    let name = |n| site.name(&text, kind.as_str(), n);
    Ok(match case {
        Case::OwnNames { tasks } => cycles(site, kind, &(0..tasks).map(name).collect::<Vec<_>>()).await?,
        Case::OneName { contenders } => cycles(site, kind, &vec![name(0); contenders]).await?,
        Case::OneLost => cycles(site, kind, &[name(0)]).await?,
        Case::HandOver => {
            let subject = kind.connect(&site.url).await?;
            Box::new(HandOver::new(kind, subject.as_ref(), &site.url, &name(0)).await?)
        }
        Case::Delay => Box::new(Delay::new(kind, &site.url, name).await?),
        Case::Waiting => Box::new(Waiting::new(kind, site.backend, &site.url, &name(0)).await?),
        Case::Commits => Box::new(Commits::new(kind, &site.url, &name(0)).await?),
        Case::Renewal => return renewals(site, None).await,
    })
}

async fn cycles(site: &Site, kind: Kind, names: &[String]) -> Outcome<Box<dyn Measurement>> {
    let subject = kind.connect(&site.url).await?;
    Ok(Box::new(Cycles::new(subject.as_ref(), names).await?))
}
