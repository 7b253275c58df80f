//! The plan of a run: which cases are measured on which server, and for how long.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::Outcome;
use crate::args::Run;
use crate::case::{self, Case, Speed};
use crate::report::NotRun;
use crate::servers::Asked;

pub(crate) struct Plan {
    pub(crate) servers: Vec<PlannedServer>,
    pub(crate) peers: bool,
    pub(crate) left_out: Vec<NotRun>,
}

/// A server with its steps.
pub(crate) struct PlannedServer {
    /// Its name in the report. No other server of the plan has it.
    pub(crate) name: String,
    pub(crate) asked: Asked,
    pub(crate) steps: Vec<Step>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) case: Case,
    pub(crate) length: Duration,
}

impl Plan {
    pub(crate) fn of(options: &Run) -> Outcome<Plan> {
        let speed = if options.quick { Speed::Quick } else { Speed::Thorough };
        let cases = case::asked_for(&options.workloads)?;
        let all = match &options.on[..] {
            [] => Asked::everything(),
            on => on.iter().map(|on| Asked::parse(on)).collect::<Outcome<_>>()?,
        };
        let (mut servers, mut left_out, mut names) = (Vec::new(), Vec::new(), BTreeSet::new());
        for asked in all {
            let name = distinct(&asked.name(), &mut names);
            let mut steps = Vec::new();
            for case in &cases {
                // What is named is measured, in a quick run, too.
                let named = options.workloads.contains(&case.to_string());
                match case.length(speed).or_else(|| case.length(Speed::Thorough).filter(|_| named)) {
                    Some(length) => steps.push(Step { case: *case, length }),
                    None => left_out.push(NotRun {
                        server: name.clone(),
                        case: Some(case.to_string()),
                        why: "--quick leaves it out".to_owned(),
                        failed: false,
                    }),
                }
            }
            servers.push(PlannedServer { name, asked, steps });
        }
        Ok(Plan { servers, peers: options.peers, left_out })
    }

    /// Returns the time for which it measures if no step has to be left out. Starts of servers, claims and failovers come
    /// on top.
    pub(crate) fn length(&self) -> Duration {
        self.servers.iter().flat_map(|server| &server.steps).map(|step| step.length).sum()
    }

    /// Returns a line for each step.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.servers.iter().flat_map(|server| server.steps.iter().map(|step| server.key(step))).collect()
    }
}

impl PlannedServer {
    /// Returns the text that identifies a step in the report.
    pub(crate) fn key(&self, step: &Step) -> String {
        format!("{}: {}", self.name, step.case)
    }
}

/// Returns this name if no other server has it, else the name with a number behind it.
fn distinct(name: &str, taken: &mut BTreeSet<String>) -> String {
    let numbered = (2..).map(|n| format!("{name} ({n})"));
    let free = std::iter::once(name.to_owned()).chain(numbered).find(|name| taken.insert(name.clone()));
    free.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(on: &[&str], workloads: &[&str], quick: bool) -> Plan {
        let owned = |all: &[&str]| all.iter().map(|&one| one.to_owned()).collect();
        let options = Run { on: owned(on), workloads: owned(workloads), quick, ..Run::default() };
        Plan::of(&options).unwrap()
    }

    #[test]
    fn each_step_has_a_line_of_its_own() {
        let lines = plan(&["redis", "redis-durable", "redis"], &[], false).lines();
        assert_eq!(lines.iter().collect::<BTreeSet<_>>().len(), lines.len());
        assert!(lines.contains(&"redis (2): own-names tasks=64".to_owned()), "{lines:?}");
    }

    #[test]
    fn a_quick_run_leaves_out_what_is_not_named() {
        let quick = plan(&["redis"], &[], true);
        assert!(quick.left_out.iter().any(|not| not.case.as_deref() == Some("processes")));
        let thorough = plan(&["redis"], &[], false);
        assert!(quick.lines().len() < thorough.lines().len() && quick.length() * 5 < thorough.length());
        assert_eq!(plan(&["redis"], &["processes"], true).lines(), ["redis: processes"]);
        assert!(Plan::of(&Run { workloads: vec!["new".to_owned()], ..Run::default() }).is_err());
    }
}
