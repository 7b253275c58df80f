//! One step: a case on one server, with all subjects that can take part in it, in turn.

use super::claims;
use super::comparison::Comparison;
use super::entrants::{self, Entrant};
use super::lineup;
use super::plan::{PlannedServer, Step};
use super::report::{Base, NotRun, Row};
use super::secrets::Secrets;
use super::state::StepOutcome;
use super::workload::Case;
use crate::Outcome;
use crate::rounds::{self, Measurement};
use crate::servers::Target;
use crate::site::Site;
use crate::subjects::Kind;

/// Measures a step. Whatever goes wrong is its outcome: other steps may still be measured.
pub(super) async fn measure(
    server: &PlannedServer,
    target: &Target,
    site: &Site,
    step: &Step,
) -> StepOutcome {
    let secrets = Secrets::of(&site.url);
    let not_run = |why: &str| NotRun {
        server: server.name.clone(),
        workload: step.case.to_string(),
        why: secrets.hide(why),
    };
    let kinds = match lineup::of(step.case, site.backend, site.info.wakes, server.origin()) {
        Ok(kinds) => kinds,
        Err(why) => return StepOutcome::NotRun(not_run(why)),
    };
    if step.case == Case::Claims {
        return match claims::play::play(&server.name, &site.url).await {
            Ok(played) => StepOutcome::Played(played),
            Err(error) => StepOutcome::Failed(not_run(&error.to_string())),
        };
    }
    match rows(target, site, step, kinds).await {
        Ok(rows) => {
            StepOutcome::Measured(rows.into_iter().map(|row| placed(row, server, step, &secrets)).collect())
        }
        Err(error) => StepOutcome::Failed(not_run(&error.to_string())),
    }
}

async fn rows(target: &Target, site: &Site, step: &Step, kinds: Vec<Kind>) -> Outcome<Vec<Row>> {
    let (mut subjects, mut measurements): (Vec<_>, Vec<Box<dyn Measurement>>) = (Vec::new(), Vec::new());
    for Entrant { subject, measurement } in entrants::prepare(target, site, step, &kinds).await? {
        subjects.push(subject);
        measurements.push(measurement);
    }
    let Comparison { base, figures, pace } = Comparison::of(step.case);
    let tallies = rounds::run(&mut measurements, step.length, pace).await?;
    for measurement in measurements {
        measurement.end().await?;
    }
    let base = subjects.iter().position(|subject| *subject == base);
    let base = base.map(|at| Base { subject: subjects[at], tally: &tallies[at], figures });
    let row = |(subject, tally): (&&'static str, _)| {
        Row::of(subject, tally, base.filter(|base| base.subject != *subject))
    };
    Ok(subjects.iter().zip(&tallies).map(row).collect())
}

/// Adds what a row is about, and takes secrets out of it.
fn placed(row: Row, server: &PlannedServer, step: &Step, secrets: &Secrets) -> Row {
    Row {
        server: server.name.clone(),
        workload: step.case.workload().as_str().to_owned(),
        parameters: step.case.parameters(),
        first_error: row.first_error.as_deref().map(|error| secrets.hide(error)),
        ..row
    }
}
