//! `forms`: what each form of a backend costs beside its plain form, on one server and in the same rounds.

mod entrants;
mod form;
mod report;
mod workload;

use std::time::Duration;

pub(crate) use self::workload::Workload;

use self::entrants::Beside;
use self::form::Form;
use self::report::{Base, Row};
use self::workload::Case;
use crate::report::Format;
use crate::secrets::shown;
use crate::servers::{self, Durability};
use crate::{Outcome, args, rounds};

/// Measures, and prints a row for each form at each workload.
pub(crate) async fn run(options: args::Forms) -> Outcome<()> {
    let started = servers::parse(&options.on)?.run(Durability::InMemory).await?;
    let target = started.map_err(|absence| format!("{}: {absence}", shown(&options.on)))?;
    let forms = Form::all_of(&target.url, &options.forms).await?;
    let peers = if options.peers { entrants::peers_of(&forms) } else { Vec::new() };
    let (format, length) = (options.run.format(), options.run.length());
    if let Some(Form { site, .. }) = forms.first() {
        eprintln!("{} {} for {length:?} a workload", site.info.backend, site.info.server);
    }
    report::head(format);
    let asked = if options.workloads.is_empty() { &Workload::USUAL[..] } else { &options.workloads };
    for case in asked.iter().flat_map(|workload| workload.cases()) {
        measure(case, &forms, &peers, length, format).await?;
    }
    Ok(())
}

async fn measure(
    case: Case,
    forms: &[Form],
    peers: &[Beside<'_>],
    length: Duration,
    format: Format,
) -> Outcome<()> {
    let (mut shown, mut measurements) = (Vec::new(), Vec::new());
    for entrant in entrants::prepare(case, forms, peers).await? {
        shown.push((entrant.name, entrant.base, entrant.to_reach));
        measurements.push(entrant.measurement);
    }
    let tallies = rounds::run(&mut measurements, length, case.pace()).await?;
    for measurement in measurements {
        measurement.end().await?;
    }
    let base = |wanted: &str| {
        let at = shown.iter().position(|(name, ..)| *name == wanted)?;
        Some(Base { form: shown[at].0, tally: &tallies[at] })
    };
    for ((form, compared_with, to_reach), tally) in shown.iter().zip(&tallies) {
        let (base, to_reach) = (base(compared_with).filter(|base| base.form != *form), *to_reach);
        Row { case: case.to_string(), form, tally, base, to_reach }.print(format);
    }
    Ok(())
}
