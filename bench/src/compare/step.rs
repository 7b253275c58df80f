//! One step: a case on one server, with all subjects that can take part in it, in turn.

use super::claims;
use super::comparison::Comparison;
use super::entrants::{self, Entrant};
use super::lineup;
use super::peers::{self, PeerReport};
use super::plan::{PlannedServer, Step};
use super::report::{Base, NotRun, Row};
use super::state::StepOutcome;
use super::workload::Case;
use crate::Outcome;
use crate::rounds::{self, Measurement};
use crate::secrets::Secrets;
use crate::servers::Target;
use crate::site::Site;
use crate::subjects::Kind;
use crate::subjects::peers::Peer;

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
    let mut kinds = match lineup::of(step.case, site.backend, site.info.wakes, server.origin()) {
        Ok(kinds) => kinds,
        Err(why) => return StepOutcome::NotRun(not_run(why)),
    };
    if step.case == Case::Claims {
        return match claims::play::play(&server.name, &site.url).await {
            Ok(played) => StepOutcome::Played(played),
            Err(error) => StepOutcome::Failed(not_run(&error.to_string())),
        };
    }
    kinds.extend(peers::in_case(step.case, &server.peers).into_iter().map(Kind::Peer));
    match rows(target, site, step, kinds).await {
        Ok(rows) => {
            let placed = |row| placed(row, server, site, step, &secrets);
            StepOutcome::Measured(rows.into_iter().map(placed).collect())
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
    let named = |base: &str| {
        let at = subjects.iter().position(|subject| *subject == base)?;
        Some(Base { subject: subjects[at], tally: &tallies[at], figures })
    };
    let row = |(subject, tally): (&&'static str, _)| {
        // A peer is compared with the library, not with a floor that it does not share.
        let base = Peer::named(subject).map_or(base, |_| Kind::Ours.as_str());
        Row::of(subject, tally, named(base).filter(|base| base.subject != *subject))
    };
    Ok(subjects.iter().zip(&tallies).map(row).collect())
}

/// Adds what a row is about, and takes secrets out of it.
fn placed(row: Row, server: &PlannedServer, site: &Site, step: &Step, secrets: &Secrets) -> Row {
    Row {
        server: server.name.clone(),
        workload: step.case.workload().as_str().to_owned(),
        parameters: step.case.parameters(),
        peer: Peer::named(&row.subject).map(|peer| PeerReport::of(peer, site.info.wakes)),
        first_error: row.first_error.as_deref().map(|error| secrets.hide(error)),
        ..row
    }
}
