//! `compare`: every workload on every server, with one report at the end.
//!
//! [`plan`] says what is done, [`run`](mod@run) does it, [`state`] keeps what was done, and [`report`] is what comes of it.
//! [`table`], [`page`](mod@page) and [`publication`] show it.

mod bars;
mod claims;
mod comparison;
mod entrants;
mod estimate;
mod fairness;
mod figures;
mod judged;
mod lineup;
mod lookup;
mod page;
mod peers;
mod plan;
mod progress;
mod publication;
mod report;
mod run;
mod state;
mod step;
mod summary;
mod table;
pub(crate) mod workload;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use tokio::runtime::Handle;

pub(crate) use self::claims::play::run as play_claims;
use self::plan::Plan;
use self::progress::Progress;
use self::report::Report;
use self::state::{Header, Log};
use self::table::Table;
use crate::Outcome;
use crate::args::{self, Compare};
use crate::machine::Machine;
use crate::timestamp;

/// Measures, writes the report, and prints it. Ctrl-C ends the measurement early.
pub(crate) async fn run(options: Compare) -> Outcome<ExitCode> {
    let plan = Plan::of(&options)?;
    let (began, threads) = (timestamp::now(), Handle::current().metrics().num_workers());
    let folder = options.out.clone().unwrap_or_else(|| new_folder(&began));
    let mut log = Log::open(&folder, Header::new(began, plan.lines(), Machine::this(threads)))?;
    let ended = measure(&plan, &mut log).await?;
    let report = summary::of(&options, &plan, &log);
    report.write(&folder)?;
    let page = page::write(&report, &folder)?;
    match options.json {
        true => println!("{}", serde_json::to_string(&report)?),
        false => print!("{}", Table(&report)),
    }
    eprintln!("the report is {}", folder.join("report.json").display());
    eprintln!("to look at it, open {} in a browser", page.display());
    Ok(match ended {
        Ended::Interrupted => {
            eprintln!("interrupted; --out {} with the same options continues", folder.display());
            ExitCode::from(INTERRUPTED)
        }
        Ended::Completed if report.rows.is_empty() || !report.complete => ExitCode::FAILURE,
        Ended::Completed => ExitCode::SUCCESS,
    })
}

/// Makes the page of an earlier run from its report.
pub(crate) fn page(options: &args::Page) -> Outcome<()> {
    let page = page::write(&Report::read(&options.folder)?, &options.folder)?;
    println!("{}", page.display());
    Ok(())
}

/// Makes the repository's copy of an earlier run.
pub(crate) fn publish(options: &args::Publish) -> Outcome<()> {
    publication::write(&Report::read(&options.folder)?, &options.to, &options.readme)?;
    println!("{}, {}", options.to.display(), options.readme.display());
    Ok(())
}

/// The exit status of a program that was ended by Ctrl-C.
const INTERRUPTED: u8 = 130;

/// How the measurement has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    Completed,
    Interrupted,
}

async fn measure(plan: &Plan, log: &mut Log) -> Outcome<Ended> {
    let progress = Progress::of(plan.length());
    tokio::select! {
        outcome = run::run(plan, log, &progress) => outcome.map(|()| Ended::Completed),
        interrupted = tokio::signal::ctrl_c() => Ok(interrupted.map(|()| Ended::Interrupted)?),
    }
}

/// Returns the path of a folder that is named after the time.
fn new_folder(now: &str) -> PathBuf {
    Path::new(&format!("compare-{}", now.replace(':', "-"))).to_owned()
}
