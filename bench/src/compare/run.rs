//! Runs the steps of a plan, one after the other. Each server is started when its turn comes, and ends after its last
//! step.

use std::time::Instant;

use lock_test_servers::Absence;

use super::plan::{Plan, PlannedServer, Step};
use super::progress::Progress;
use super::report::{Promises, ServerReport};
use super::state::{Log, Record, StepOutcome, StepRecord};
use super::step;
use crate::Outcome;
use crate::durable;
use crate::servers::Target;
use crate::site::Site;
use crate::timestamp;

/// Runs what the log doesn't have yet.
///
/// # Cancel safety
///
/// The log has every step that has ended. If this is dropped, the current step is lost, and the current server ends.
pub(super) async fn run(plan: &Plan, log: &mut Log, progress: &Progress) -> Outcome<()> {
    let mut lap = Lap(Instant::now());
    for server in &plan.servers {
        let (finished, open): (Vec<&Step>, Vec<&Step>) =
            server.steps.iter().partition(|step| log.is_finished(&server.key(step)));
        progress.skip(finished.into_iter().map(|step| step.whole).sum());
        if open.is_empty() {
            progress.skip(server.start());
        } else {
            measure(server, &open, log, progress, &mut lap).await?;
        }
    }
    Ok(())
}

/// What runs since the last step has ended.
struct Lap(Instant);

impl Lap {
    /// Ends it, and returns how many seconds it took.
    fn end(&mut self) -> f64 {
        let Lap(began) = std::mem::replace(self, Lap(Instant::now()));
        began.elapsed().as_secs_f64()
    }
}

async fn measure(
    server: &PlannedServer,
    open: &[&Step],
    log: &mut Log,
    progress: &Progress,
    lap: &mut Lap,
) -> Outcome<()> {
    progress.begin(&format!("{}: starts", server.name), server.start());
    let (target, site) = match server.asked.start(server.durability).await {
        Ok(started) => started,
        Err(absence) => {
            progress.say(&format!("{}: not run, because {absence}", server.name));
            progress.skip(open.iter().map(|step| step.whole).sum());
            return log.append(match absence {
                Absence::NotRun(why) => Record::Absent(absent(server, why)),
                Absence::Failure(why) => Record::Failed(absent(server, why)),
            });
        }
    };
    log.append(Record::Started(present(server, &target, &site)))?;
    for step in open {
        let key = server.key(step);
        progress.begin(&key, step.whole);
        let outcome = step::measure(server, &target, &site, step).await;
        if let StepOutcome::NotRun(not) | StepOutcome::Failed(not) = &outcome {
            progress.say(&format!("{key}: not run, because {}", not.why));
        }
        let (ended, took_s) = (timestamp::now(), lap.end());
        log.append(Record::Step(StepRecord { key, ended, took_s, outcome }))?;
    }
    Ok(())
}

fn present(server: &PlannedServer, target: &Target, site: &Site) -> ServerReport {
    ServerReport {
        product: target.servers.first().map(|server| server.version().to_owned()),
        durable: durable::writes_first(server.backend, &server.asked, server.durability),
        info: Some(Promises::of(&site.info)),
        ..of(server)
    }
}

fn absent(server: &PlannedServer, why: String) -> ServerReport {
    ServerReport { not_run: Some(why), ..of(server) }
}

/// Describes a server by what is known before its start.
fn of(server: &PlannedServer) -> ServerReport {
    ServerReport {
        name: server.name.clone(),
        product: None,
        backend: server.backend.as_str().to_owned(),
        durable: durable::writes_first(server.backend, &server.asked, server.durability),
        info: None,
        not_run: None,
    }
}
