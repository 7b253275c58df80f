//! `quick`: every workload once on every backend, with all subjects that can take part in it.

mod bench;
mod case;
mod comparison;
pub(crate) mod lines;
mod output;

use lock_conformance::record;
use lock_test_servers::Absence;
use tokio::runtime::Handle;

use self::bench::Bench;
use self::case::Case;
use self::lines::{NotRun, Run, Server, VERSION};
use self::output::Output;
use crate::args::Quick;
use crate::labels::{self, Labels};
use crate::machine::Machine;
use crate::secrets::{Secrets, shown};
use crate::servers::{Asked, Durability, Target};
use crate::site::Site;
use crate::workload::Workload;
use crate::{Outcome, durable, revision, timestamp};

pub(crate) async fn run(options: Quick) -> Outcome<()> {
    let all = asked(&options)?;
    let format = options.run.format().for_names(labels::widest(&options.on));
    let (mut output, mut labels) = (Output::new(format, head(&options)), Labels::default());
    for (asked, durability) in all {
        match asked.start(durability).await {
            Ok((target, site)) => {
                let name = labels.distinct(&name(&asked, durability, &site));
                let server = Server {
                    backend: name.clone(),
                    product: target.servers.first().map(|server| server.version().to_owned()),
                    address: site.info.server.clone(),
                    durable: durable::writes_first(site.backend, &asked, durability),
                };
                output.server(server);
                let scope = Scope::of(&asked, durability, &options);
                measure(&target, site, name, scope, &options, &mut output).await;
            }
            Err(absence) => not_there(&asked, durability, absence, &mut output)?,
        }
    }
    output.end()
}

fn asked(options: &Quick) -> Outcome<Vec<(Asked, Durability)>> {
    match (&options.on[..], options.durable) {
        ([], false) => Ok(durable::everything()),
        ([], true) => Ok(durable::everything_on_disk()),
        (on, false) => on.iter().map(|on| durable::named(on)).collect(),
        (on, true) => on.iter().map(|on| Ok((durable::named(on)?.0, Durability::EveryWrite))).collect(),
    }
}

fn head(options: &Quick) -> Run {
    Run {
        version: VERSION,
        began: timestamp::now(),
        revision: revision::checked_out(),
        seconds: options.run.length().as_secs(),
        machine: Machine::this(Handle::current().metrics().num_workers()),
    }
}

fn name(asked: &Asked, durability: Durability, site: &Site) -> String {
    match asked {
        Asked::Url(url) => labels::with_parameters(site.info.backend, url),
        Asked::Named(known) | Asked::Any(known) => durable::name(*known, durability),
    }
}

/// How much is measured on a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    Everything,
    /// What the disk adds to the same server without one.
    TheDisk,
}

impl Scope {
    fn of(asked: &Asked, durability: Durability, options: &Quick) -> Scope {
        match (asked, durability) {
            // Its twin is in the same run.
            (Asked::Any(known), Durability::EveryWrite)
                if durable::has_a_twin(*known) && !options.durable =>
            {
                Scope::TheDisk
            }
            _ => Scope::Everything,
        }
    }

    /// Returns why a workload is left out.
    fn leaves_out(self, workload: Workload) -> Option<&'static str> {
        let is_about_the_disk = matches!(
            workload,
            Workload::Uncontended
                | Workload::ManyNames
                | Workload::OneName
                | Workload::HandOver
                | Workload::Processes
        );
        (self == Scope::TheDisk && !is_about_the_disk).then_some(
            "what the disk adds is measured by cycles and by hand-overs; --on NAME measures it all",
        )
    }
}

/// Measures what was asked for on one server. What fails is said, and the rest is measured.
async fn measure(
    target: &Target,
    site: Site,
    name: String,
    scope: Scope,
    options: &Quick,
    output: &mut Output,
) {
    let (servers, subjects) = (target.servers.clone(), options.subjects.clone());
    let bench = Bench { site, name, servers, subjects, length: options.run.length() };
    let not_run = |workload: String, why: &str, failed| NotRun {
        backend: bench.name.clone(),
        workload: Some(workload),
        why: Secrets::of(&bench.site.url).hide(why),
        failed,
    };
    let asked = if options.workloads.is_empty() { &Workload::ALL[..] } else { &options.workloads };
    for workload in asked {
        let lineup = scope.leaves_out(*workload).map_or_else(|| bench.lineup(*workload), Err);
        let kinds = match lineup {
            Ok(kinds) => kinds,
            Err(why) => {
                output.not_run(not_run(workload.as_str().to_owned(), why, false));
                continue;
            }
        };
        for case in Case::all_of(*workload, bench.site.backend, options) {
            match bench.measure(case, kinds.clone()).await {
                Ok(rows) => rows.iter().for_each(|row| output.row(row)),
                Err(error) => output.not_run(not_run(case.to_string(), &error.to_string(), true)),
            }
        }
    }
}

/// Says that a server is not there. It is an error if it was asked for.
fn not_there(asked: &Asked, durability: Durability, absence: Absence, output: &mut Output) -> Outcome<()> {
    let name = match asked {
        Asked::Url(url) => return Err(format!("{}: {absence}", shown(url)).into()),
        Asked::Named(known) => {
            return Err(format!("{}: {absence}", durable::name(*known, durability)).into());
        }
        Asked::Any(known) => durable::name(*known, durability),
    };
    let (why, failed) = match absence {
        Absence::NotRun(why) => (why, false),
        Absence::Failure(why) => (why, true),
    };
    record::not_run(&format!("lock-bench on {name}"), &why);
    output.not_run(NotRun { backend: name, workload: None, why, failed });
    Ok(())
}
