//! Runs the steps of a plan, one after the other. Each server is started when its turn comes, and ends after its last
//! step. The report is written after each step.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use lock_test_servers::Absence;

use crate::args::Run;
use crate::case::Case;
use crate::lineup::{self, Place};
use crate::machine::Machine;
use crate::plan::{Plan, PlannedServer, Step};
use crate::report::{NotRun, Played, Promises, Report, Server};
use crate::rounds::{self, Measurement};
use crate::row::Row;
use crate::secrets::Secrets;
use crate::servers::Site;
use crate::subjects::Kind;
use crate::{Outcome, claims, entrants, page, print};

const INTERRUPTED: u8 = 130;

/// Measures, writes the report and its page, and prints it. Ctrl-C ends the measurement early.
pub(crate) async fn run(options: Run) -> Outcome<ExitCode> {
    let plan = Plan::of(&options)?;
    let begun = Report::begin(plan.lines(), options.quick, Machine::this());
    let folder =
        options.out.unwrap_or_else(|| PathBuf::from(format!("run-{}", begun.began.replace(':', "-"))));
    fs::create_dir_all(&folder)?;
    let mut report = begun.continued(&folder)?;
    report.not_run.retain(|not| !plan.left_out.contains(not));
    report.not_run.extend(plan.left_out.iter().cloned());
    eprintln!(
        "measures for {:.0} minutes at most; starts of servers, claims and failovers come on top",
        plan.length().as_secs_f64() / 60.0
    );
    print::head();
    let interrupted = tokio::select! {
        outcome = measure(&plan, &mut report, &folder) => outcome.map(|()| false)?,
        interrupt = tokio::signal::ctrl_c() => interrupt.map(|()| true)?,
    };
    report.complete = report.done.len() == report.plan.len() && !report.not_run.iter().any(|not| not.failed);
    report.judge();
    report.write(&folder)?;
    page::write(&report, &folder)?;
    print::verdicts(&report);
    eprintln!(
        "measured in {:.0} s; to look at it, open {}",
        report.took_s,
        folder.join(page::FILE).display()
    );
    if interrupted {
        eprintln!("interrupted; --out {} with the same options continues", folder.display());
    }
    let is_empty = report.rows.is_empty() && report.played.is_empty();
    Ok(match (interrupted, report.complete && !is_empty) {
        (true, _) => ExitCode::from(INTERRUPTED),
        (false, true) => ExitCode::SUCCESS,
        (false, false) => ExitCode::FAILURE,
    })
}

/// Runs the steps that the report doesn't have yet. If this is dropped, the current step is lost, and its server ends.
async fn measure(plan: &Plan, report: &mut Report, folder: &Path) -> Outcome<()> {
    for server in &plan.servers {
        let open: Vec<&Step> =
            server.steps.iter().filter(|step| !report.done.contains(&server.key(step))).collect();
        if !open.is_empty() {
            on_server(server, &open, plan.peers, report, folder).await?;
        }
    }
    Ok(())
}

async fn on_server(
    server: &PlannedServer,
    open: &[&Step],
    with_peers: bool,
    report: &mut Report,
    folder: &Path,
) -> Outcome<()> {
    let mut lap = Instant::now();
    let not = |case, why, failed| NotRun { server: server.name.clone(), case, why, failed };
    report.servers.retain(|known| known.name != server.name);
    let site = match server.asked.start().await {
        Ok(site) => site,
        Err(absence) => {
            let (why, failed) = match absence {
                Absence::NotRun(why) => (why, false),
                Absence::Failure(why) => (why, true),
            };
            report.servers.push(described(server, None)?);
            if !failed {
                report.done.extend(open.iter().map(|step| server.key(step)));
            }
            return leave_out(report, not(None, why, failed), folder);
        }
    };
    report.servers.push(described(server, Some(&site))?);
    let place = Place { asked: &server.asked, backend: site.backend, wakes: site.info.wakes };
    let (peers, lacking): (Vec<_>, Vec<_>) =
        place.peers().filter(|_| with_peers).partition(|peer| peer.lack().is_none());
    for peer in lacking {
        let (case, why) = (Some(format!("peer {}", peer.name)), peer.lack().unwrap_or_default());
        leave_out(report, not(case, why, false), folder)?;
    }
    for step in open {
        eprintln!("[{}/{}] {}", report.done.len() + 1, report.plan.len(), server.key(step));
        let peers = peers.iter().filter(|peer| lineup::takes_part(**peer, step.case));
        let outcome = match place.lineup(step.case) {
            Ok(kinds) => one(server, &site, step, kinds, peers.map(|peer| Kind::Peer(*peer)).collect()).await,
            Err(why) => Err((why.to_owned(), false)),
        };
        report.took_s += std::mem::replace(&mut lap, Instant::now()).elapsed().as_secs_f64();
        report.done.push(server.key(step));
        match outcome {
            Ok((rows, played)) => {
                rows.iter().for_each(print::row);
                report.rows.extend(rows);
                report.played.extend(played);
                report.write(folder)?;
            }
            Err((why, failed)) => {
                leave_out(report, not(Some(step.case.to_string()), why, failed), folder)?;
            }
        }
    }
    Ok(())
}

fn leave_out(report: &mut Report, not: NotRun, folder: &Path) -> Outcome<()> {
    print::not_run(&not);
    report.not_run.push(not);
    report.write(folder)
}

fn described(server: &PlannedServer, site: Option<&Site>) -> Outcome<Server> {
    Ok(Server {
        name: server.name.clone(),
        product: site.and_then(Site::product),
        backend: server.asked.backend()?,
        durable: server.asked.writes_first(),
        info: site.map(|site| Promises::of(&site.info)),
    })
}

/// Measures one step with these subjects. An error is why it has failed: other steps may still be measured.
async fn one(
    server: &PlannedServer,
    site: &Site,
    step: &Step,
    kinds: Vec<Kind>,
    peers: Vec<Kind>,
) -> Result<(Vec<Row>, Vec<Played>), (String, bool)> {
    let secrets = Secrets::of(&site.url);
    let failed = |error: Box<dyn std::error::Error + Send + Sync>| (secrets.hide(&error.to_string()), true);
    if step.case == Case::Claims {
        let played = claims::play::play(&server.name, &site.url).await.map_err(failed)?;
        return Ok((Vec::new(), played));
    }
    let length = lineup::lengthened(step.length, kinds.len(), peers.len());
    let kinds = [kinds, peers].concat();
    let mut rows = compared(server, site, step.case, &kinds, length).await.map_err(failed)?;
    for row in &mut rows {
        row.first_error = row.first_error.take().map(|error| secrets.hide(&error));
    }
    Ok((rows, Vec::new()))
}

async fn compared(
    server: &PlannedServer,
    site: &Site,
    case: Case,
    kinds: &[Kind],
    length: std::time::Duration,
) -> Outcome<Vec<Row>> {
    let mut measurements: Vec<Box<dyn Measurement>> = Vec::new();
    for kind in kinds {
        measurements.push(entrants::prepare(site, case, *kind, length).await?);
    }
    let tallies = rounds::run(&mut measurements, length, case.pace()).await?;
    for measurement in measurements {
        measurement.end().await?;
    }
    let row = |(kind, tally): (&Kind, _)| {
        // A peer is compared with the library, not with a baseline that it does not share.
        let base = if let Kind::Peer(_) = kind { Kind::Ours } else { case.base() };
        let at = kinds.iter().position(|other| *other == base && other != kind);
        let row = Row::of(&server.name, case, *kind, tally, at.map(|at| (base, &tallies[at])));
        match kind {
            Kind::Peer(peer) => Row { lacks: peer.lacks(site.info.wakes), ..row },
            _ => row,
        }
    };
    Ok(kinds.iter().zip(&tallies).map(row).collect())
}
