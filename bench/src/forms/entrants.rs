//! The participants of a case: each form, and other libraries' locks that do the same.

use std::time::Duration;

use super::form::{Form, PLAIN};
use super::workload::Case;
use crate::Outcome;
use crate::rounds::Measurement;
use crate::subjects::Kind;
use crate::subjects::peers::Peer;
use crate::targets::Bound;
use crate::workloads::cycles::Cycles;
use crate::workloads::driven::{DrivenCycles, DrivenHandOver};
use crate::workloads::hand_over::HandOver;
use crate::workloads::processes::Processes;
use crate::workloads::tolerant::Tolerant;

/// One participant.
pub(super) struct Entrant<'a> {
    pub(super) name: &'a str,
    pub(super) measurement: Box<dyn Measurement>,
    /// The participant that it is compared with.
    pub(super) base: &'a str,
    /// What the ratio of the p50 has to reach.
    pub(super) to_reach: Option<Bound>,
}

/// Another library's lock, with the form that does the same.
#[derive(Clone, Copy, Debug)]
pub(super) struct Beside<'a> {
    peer: Peer,
    form: &'a Form,
}

/// Returns the locks of other libraries that do the same as one of these forms. Says why one of them can't be measured.
pub(super) fn peers_of(forms: &[Form]) -> Vec<Beside<'_>> {
    let mut peers = Vec::new();
    for form in forms {
        let Some(peer) = form.peer else { continue };
        match peer.lack() {
            None => peers.push(Beside { peer, form }),
            Some(why) => eprintln!("{}: not run, because {why}", peer.name()),
        }
    }
    peers
}

/// How long a participant may take to connect and to prepare its names.
const PREPARATION: Duration = Duration::from_secs(60);

/// Prepares all that take part in a case.
pub(super) async fn prepare<'a>(
    case: Case,
    forms: &'a [Form],
    peers: &[Beside<'a>],
) -> Outcome<Vec<Entrant<'a>>> {
    let mut entrants = Vec::new();
    for form in forms {
        let prepared = tokio::time::timeout(PREPARATION, of_form(case, form)).await;
        let measurement = prepared.map_err(|_| format!("{} was not ready in time", form.name))??;
        let to_reach = form.uncontended.filter(|_| case == Case::Cycles { names: 1 });
        entrants.push(Entrant { name: &form.name, measurement, base: PLAIN, to_reach });
    }
    for Beside { peer, form } in peers.iter().filter(|_| has_peers(case)) {
        let prepared = match tokio::time::timeout(PREPARATION, of_peer(case, *peer, form)).await {
            Ok(prepared) => prepared,
            Err(_) => Err("it was not ready in time".into()),
        };
        let measurement = Box::new(Tolerant::of(prepared));
        entrants.push(Entrant { name: peer.name(), measurement, base: &form.name, to_reach: None });
    }
    Ok(entrants)
}

/// Whether the drivers of other libraries' locks can do what is measured.
fn has_peers(case: Case) -> bool {
    matches!(case, Case::Cycles { .. } | Case::HandOver)
}

async fn of_form(case: Case, form: &Form) -> Outcome<Box<dyn Measurement>> {
    let (kind, url) = (Kind::Ours, &form.site.url);
    let name = |n| form.site.name(&case.to_string(), kind.as_str(), n);
    Ok(match case {
        Case::Cycles { names } => {
            let names: Vec<String> = (0..names).map(name).collect();
            Box::new(Cycles::new(kind.connect(url).await?.as_ref(), &names).await?)
        }
        Case::HandOver => {
            let subject = kind.connect(url).await?;
            Box::new(HandOver::new(kind, subject.as_ref(), url, &name(0)).await?)
        }
        Case::Processes { processes } => Box::new(Processes::new(kind, url, &name(0), processes).await?),
    })
}

async fn of_peer(case: Case, peer: Peer, form: &Form) -> Outcome<Box<dyn Measurement>> {
    let url = &form.site.url;
    let name = |n| form.site.name(&case.to_string(), peer.name(), n);
    Ok(match case {
        Case::Cycles { names } => {
            let names: Vec<String> = (0..names).map(name).collect();
            Box::new(DrivenCycles::new(peer, url, &names).await?)
        }
        Case::HandOver => Box::new(DrivenHandOver::new(peer, url, &name(0)).await?),
        Case::Processes { .. } => return Err("drivers take no part in it".into()),
    })
}
