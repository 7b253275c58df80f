//! Finds out which servers, tools and drivers are missing here, and installs them.

use std::env::var_os;
use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::time::Instant;

use crate::catalogue::{ALL, Found, Listing, PROTOC, TOOLS, Tool};
use crate::foreign;
use crate::install::{Installation, Machine, is_program, is_root};
use crate::interop;
use crate::peers;
use crate::workspace::target;

/// The user's consent to install missing tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Consent {
    /// The command line said so.
    Given,
    /// The user is asked for each, if there is a terminal.
    Asked,
}

/// Something that is missing, and why.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Missing {
    pub(crate) name: &'static str,
    pub(crate) why: String,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.why)
    }
}

/// The installations and builds to which the user agreed. So all questions come before the work, and the work
/// can run beside other work.
#[derive(Default)]
pub(crate) struct Plan {
    jobs: Vec<Job>,
    missing: Vec<Missing>,
    /// Clients that come with a server, perhaps with one that is still to be installed.
    come_along: Vec<&'static interop::Listing>,
}

/// The folder of `target` in which the suite looks for drivers.
const INTEROP: &str = "interop";

struct Job {
    name: &'static str,
    /// The command as a person would type it.
    described: String,
    work: Box<dyn FnOnce() -> Result<(), String> + Send>,
}

/// `cargo xtask servers`
pub(crate) fn run(consent: Consent) -> ExitCode {
    let missing = Plan::everything(consent).carry_out();
    missing.iter().for_each(|missing| println!("{missing}"));
    // Tests of the servers that are there run without clients and tools, too.
    let lacks_server = missing.iter().any(|missing| ALL.iter().any(|server| server.name == missing.name));
    if lacks_server { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// `cargo xtask peers`
pub(crate) fn run_peers(consent: Consent) -> ExitCode {
    let mut plan = Plan::default();
    for peer in peers::ALL {
        plan.offer_driver(peers::FOLDER, peer, consent);
    }
    let missing = plan.carry_out();
    missing.iter().for_each(|missing| println!("{missing}"));
    if missing.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Installs what the build of the whole workspace takes besides Rust and a C compiler.
pub(crate) fn prepare_build(consent: Consent) -> Result<(), String> {
    let mut plan = Plan::default();
    if var_os("PROTOC").is_none() {
        plan.offer_tool(&PROTOC, consent);
    }
    let missing: Vec<_> = plan.carry_out().iter().map(Missing::to_string).collect();
    if missing.is_empty() { Ok(()) } else { Err(missing.join("; ")) }
}

impl Plan {
    /// Plans everything that tests can use.
    pub(crate) fn everything(consent: Consent) -> Plan {
        let mut plan = Plan::of(ALL, consent);
        for tool in TOOLS {
            plan.offer_tool(tool, consent);
        }
        for client in interop::ALL {
            plan.offer_driver(INTEROP, client, consent);
        }
        plan
    }

    /// Plans these servers.
    pub(crate) fn of(servers: &'static [&'static Listing], consent: Consent) -> Plan {
        let mut plan = Plan::default();
        for &server in servers {
            let Some(why) = lack(server) else { continue };
            println!("{}: {why}", server.name);
            let installation = Machine::here().installation(server).map_err(|needs| {
                format!("it can't be installed here (that takes {needs}); give a URL in {}", server.variable)
            });
            plan.offer(server.name, installation, consent, || lack(server));
        }
        plan
    }

    fn offer_tool(&mut self, tool: &'static Tool, consent: Consent) {
        if let Some(why) = lacks(tool) {
            println!("{}: {why}", tool.program);
            self.offer(tool.program, Machine::here().tool(tool), consent, move || lacks(tool));
        }
    }

    fn offer(
        &mut self,
        name: &'static str,
        installation: Result<Installation, String>,
        consent: Consent,
        lack: impl Fn() -> Option<String> + Send + 'static,
    ) {
        let agreed = installation.and_then(|installation| {
            let command = installation.described.clone();
            match agreed(consent, &format!("Run `{command}`? No service will be started or enabled.")) {
                true => installation.ask_for_rights().map(|()| installation),
                false => Err(format!("not installed; --yes does it, or run: {command}")),
            }
        });
        match agreed {
            Err(why) => self.missing.push(Missing { name, why }),
            Ok(mut installation) => self.jobs.push(Job {
                name,
                described: installation.described.clone(),
                work: Box::new(move || {
                    installation.run()?;
                    lack().map_or(Ok(()), |why| Err(format!("it is done, and still {why}")))
                }),
            }),
        }
    }

    /// Offers to build a driver in the folder `drivers` of `target`.
    fn offer_driver(&mut self, drivers: &str, client: &'static interop::Listing, consent: Consent) {
        let name = client.name;
        let Some(driver) = &client.driver else {
            self.come_along.push(client);
            return;
        };
        if let Some(why) = foreign::lack(client) {
            self.missing.push(Missing { name, why });
            return;
        }
        let folder = target().join(drivers).join(name);
        if driver.is_built(&folder) {
            return;
        }
        let described = format!("{} (in {})", driver.build, folder.display());
        if !agreed(consent, &format!("Run `{described}`? Nothing is installed elsewhere.")) {
            self.missing.push(Missing { name, why: format!("not built; --yes does it: {described}") });
            return;
        }
        self.jobs.push(Job { name, described, work: Box::new(move || foreign::build(driver, &folder)) });
    }

    /// Carries out the plan, one job after the other. Returns what is still missing.
    pub(crate) fn carry_out(self) -> Vec<Missing> {
        let mut missing = self.missing;
        for Job { name, described, work } in self.jobs {
            println!("{name}: running `{described}`; no service will be started or enabled.");
            let began = Instant::now();
            match work() {
                Ok(()) => println!("{name}: done in {:.0} s", began.elapsed().as_secs_f64()),
                Err(why) => {
                    println!("{name}: FAILED: {why}");
                    let why = why.lines().last().unwrap_or_default();
                    missing.push(Missing { name, why: format!("`{described}` failed: {why}") });
                }
            }
        }
        let lacking =
            |client: &&interop::Listing| foreign::lack(client).map(|why| Missing { name: client.name, why });
        missing.extend(self.come_along.iter().filter_map(lacking));
        missing
    }
}

/// Says why tests can't run on this server; `None` if they can.
fn lack(server: &Listing) -> Option<String> {
    if var_os(server.variable).is_some_and(|url| !url.is_empty()) {
        return None;
    }
    match server.find(&var_os("PATH").unwrap_or_default()) {
        None => Some(server.missing()),
        Some(Found { system: Some(_), program }) if !is_root() => {
            Some(format!("{} is run under chroot, which takes root", program.display()))
        }
        Some(_) => None,
    }
}

fn lacks(tool: &Tool) -> Option<String> {
    (!is_program(tool.program)).then(|| format!("there is no {}, for {}", tool.program, tool.wanted_for))
}

/// Returns whether the user has agreed, or says yes at the terminal; without a terminal, that is no.
fn agreed(consent: Consent, question: &str) -> bool {
    if consent == Consent::Given {
        return true;
    }
    if !io::stdin().is_terminal() {
        return false;
    }
    print!("{question} [y/N] ");
    let mut answer = String::new();
    let asked = io::stdout().flush().and_then(|()| io::stdin().read_line(&mut answer));
    asked.is_ok() && ["y", "yes"].contains(&answer.trim().to_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    use super::{Job, Missing, Plan};

    #[test]
    fn the_next_job_runs_after_a_failed_one() {
        let (told, done) = std::sync::mpsc::channel();
        let job = |name, work| Job { name, described: "make it".to_owned(), work };
        let plan = Plan {
            jobs: vec![
                job("a", Box::new(|| Err("much\nno room".to_owned()))),
                job("b", Box::new(move || told.send(()).map_err(|e| e.to_string()))),
            ],
            missing: vec![Missing { name: "c", why: "not wanted".to_owned() }],
            come_along: Vec::new(),
        };
        let missing: Vec<String> = plan.carry_out().iter().map(Missing::to_string).collect();
        assert_eq!(missing, ["c: not wanted", "a: `make it` failed: no room"]);
        assert_eq!(done.try_recv(), Ok(()));
    }
}
